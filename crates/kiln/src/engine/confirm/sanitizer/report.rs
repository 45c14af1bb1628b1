//! What compute-sanitizer writes: blocks of lines that begin with `=========`, a head that says what
//! was found, and indented lines that say where.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    Error,
    /// A hazard that may be harmless.
    Warning,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Finding {
    severity: Severity,
    /// Head and place on one line.
    text: String,
    details: Details,
}

/// What a finding says of its place, part by part, as far as it says it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Details {
    /// What happened: `Invalid __global__ write of size 16 bytes`.
    pub what: String,
    pub function: Option<String>,
    pub file: Option<String>,
    pub line: Option<u32>,
    /// `(3,0,0)`
    pub thread: Option<String>,
    pub block: Option<String>,
    /// `0x7f6510200404 is misaligned`
    pub address: Option<String>,
}

impl Details {
    fn read(head: &str, lines: &[&str]) -> Details {
        let mut details = Details {
            what: shortened(head),
            ..Details::default()
        };
        for line in lines {
            if let Some(place) = line.strip_prefix("at ") {
                details.read_place(place);
            } else if let Some(threads) = line.strip_prefix("by thread ") {
                let (thread, block) = threads.split_once(" in block ").unwrap_or((threads, ""));
                details.thread = Some(shortened(thread));
                details.block = (!block.is_empty()).then(|| shortened(block));
            } else if let Some(address) = line.strip_prefix("Address ") {
                details.address = Some(shortened(address));
            }
        }
        details
    }

    /// `scale(float *, int)+0x70 in scale.cu:6`, or in older versions `0x160 in /tmp/k.cu:6:scale(float *, int)`.
    fn read_place(&mut self, place: &str) {
        let (code, source) = match place.split_once(" in ") {
            Some((code, source)) => (code, Some(source)),
            None => (place, None),
        };
        self.function = function_name(code);
        let mut parts = source.unwrap_or_default().splitn(3, ':');
        self.file = parts.next().filter(|f| !f.is_empty()).map(shortened);
        self.line = parts.next().and_then(|line| line.parse().ok());
        self.function = self
            .function
            .take()
            .or_else(|| parts.next().and_then(function_name));
    }
}

/// `scale` of `scale(float *, int)+0x70`; nothing of a bare address.
fn function_name(text: &str) -> Option<String> {
    let text = text.split(['(', '+']).next().unwrap_or_default().trim();
    (!text.is_empty() && !text.starts_with("0x")).then(|| shortened(text))
}

fn shortened(text: &str) -> String {
    text.chars().take(LONGEST_TEXT).collect()
}

#[derive(Debug, Default, PartialEq)]
pub struct Report {
    findings: Vec<Finding>,
    /// The tool came to its end.
    pub is_complete: bool,
}

const MARK: &str = "=========";
const LONGEST_TEXT: usize = 300;

impl Report {
    /// Reads a log. Findings in kernels that are `ignored`, by name, are left out.
    pub fn read(log: &str, ignored: &[&str]) -> Report {
        let mut report = Report::default();
        let mut block: Vec<&str> = Vec::new();
        for line in log.lines() {
            // Anything else is what the process itself printed.
            let Some(text) = line.trim_start().strip_prefix(MARK) else {
                continue;
            };
            report.is_complete |= text.contains(" SUMMARY: ");
            let is_head = !text.starts_with("     ") && !text.trim().is_empty();
            if is_head {
                report.take(&block, ignored);
                block.clear();
            }
            block.push(text.trim());
        }
        report.take(&block, ignored);
        report
    }

    /// Texts of all findings of one kind.
    pub fn of(&self, severity: Severity) -> Vec<String> {
        let found = self.findings.iter().filter(|f| f.severity == severity);
        found.map(|f| f.text.clone()).collect()
    }

    /// Details of all errors.
    pub fn errors(&self) -> Vec<Details> {
        let found = self.findings.iter();
        let errors = found.filter(|f| f.severity == Severity::Error);
        errors.map(|f| f.details.clone()).collect()
    }

    fn take(&mut self, block: &[&str], ignored: &[&str]) {
        let Some((head, rest)) = block.split_first() else {
            return;
        };
        // In device code, that is: calls of the driver's functions that fail are kiln's affair.
        let is_race = head.contains("Race reported") || head.contains("hazard detected");
        let is_access = rest.iter().any(|line| line.starts_with("by thread ("));
        let is_about_memory = head.starts_with("Invalid __") || head.starts_with("Uninitialized ");
        if !(is_race || is_access || is_about_memory) {
            return;
        }
        // The place comes first; what follows is the host's way to it.
        let device = rest
            .iter()
            .take_while(|line| !line.contains("Host Frame") && !line.starts_with("Saved host"));
        let lines: Vec<&str> = device.copied().collect();
        let is_ours = |line: &&str| ignored.iter().any(|name| names(line, name));
        if is_ours(head) || lines.iter().any(is_ours) {
            return;
        }
        let place = lines
            .iter()
            .find(|line| line.starts_with("at ") || line.starts_with("and "));
        let text = match place {
            Some(place) => format!("{head} {place}"),
            None => head.to_string(),
        };
        self.findings.push(Finding {
            severity: match head
                .split(':')
                .next()
                .map(str::to_ascii_lowercase)
                .as_deref()
            {
                Some("warning" | "warn" | "info") => Severity::Warning,
                _ => Severity::Error,
            },
            text: shortened(&text),
            details: Details::read(head, &lines),
        });
    }
}

/// Whether a line names a function, and not one whose name only contains it.
fn names(line: &str, function: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    line.match_indices(function).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + function.len()..].chars().next();
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: [&str; 2] = ["kiln_fill", "kiln_sum"];

    const MEMCHECK: &str = "\
========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 4 bytes
=========     at scale(float *, int)+0x70 in scale.cu:6
=========     by thread (3,0,0) in block (0,0,0)
=========     Address 0x7f6510200400 is out of bounds
=========     and is 1 bytes after the nearest allocation at 0x7f6510200000 of size 1024 bytes
=========     Saved host backtrace up to driver entry point at kernel launch time
=========         Host Frame: kiln_fill [0x1234] in kiln
=========
========= Program hit CUDA_ERROR_LAUNCH_FAILED (error 719) due to \"unspecified launch failure\" on CUDA API call to cuStreamSynchronize.
=========     Saved host backtrace up to driver entry point at error
=========         Host Frame: main in kiln
=========
========= ERROR SUMMARY: 2 errors
";

    #[test]
    fn an_access_out_of_bounds_is_an_error_with_its_place() {
        let report = Report::read(MEMCHECK, &OWN);
        assert!(report.is_complete);
        assert_eq!(
            report.of(Severity::Error),
            ["Invalid __global__ write of size 4 bytes at scale(float *, int)+0x70 in scale.cu:6"]
        );
    }

    #[test]
    fn a_finding_says_which_line_thread_and_address() {
        let text = |text: &str| Some(text.to_string());
        assert_eq!(
            Report::read(MEMCHECK, &OWN).errors(),
            [Details {
                what: "Invalid __global__ write of size 4 bytes".into(),
                function: text("scale"),
                file: text("scale.cu"),
                line: Some(6),
                thread: text("(3,0,0)"),
                block: text("(0,0,0)"),
                address: text("0x7f6510200400 is out of bounds"),
            }]
        );
        let older = Details::read("Invalid", &["at 0x160 in /tmp/k.cu:6:scale(float *, int)"]);
        assert_eq!(
            (older.function, older.file, older.line),
            (text("scale"), text("/tmp/k.cu"), Some(6))
        );
        let bare = Details::read("Invalid", &["at scale(float *)+0x40"]);
        assert_eq!(
            (bare.function, bare.file, bare.line),
            (text("scale"), None, None)
        );
    }

    #[test]
    fn a_clean_run_has_no_findings() {
        let clean = "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n";
        let report = Report::read(clean, &OWN);
        assert!(report.is_complete && report.findings.is_empty());
        let torn = Report::read("========= COMPUTE-SANITIZER\n", &OWN);
        assert!(!torn.is_complete);
    }

    #[test]
    fn races_have_a_severity() {
        let log = "\
========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at tile(float *)+0x30 in k.cu:8
=========     and Read access at tile(float *)+0x80 in k.cu:10 [128 hazards]
=========
========= Warning: Race reported between Read access at tile(float *)+0x90 in k.cu:12
=========     and Write access at tile(float *)+0xa0 in k.cu:14 [4 hazards]
=========
========= RACECHECK SUMMARY: 2 hazards displayed (1 error, 1 warning)
";
        let report = Report::read(log, &OWN);
        assert_eq!(report.of(Severity::Error).len(), 1);
        assert_eq!(report.of(Severity::Warning).len(), 1);
        assert!(report.of(Severity::Error)[0].contains("and Read access at tile"));
    }

    #[test]
    fn the_older_form_of_a_place_is_read_too() {
        let log = "\
========= Uninitialized __global__ memory read of size 4 bytes
=========     at 0x160 in /tmp/k.cu:6:scale(float *, int)
=========     by thread (0,0,0) in block (0,0,0)
=========     Address 0x7f6510200001
========= ERROR SUMMARY: 1 error
";
        assert_eq!(Report::read(log, &OWN).of(Severity::Error).len(), 1);
    }

    #[test]
    fn kernels_of_kilns_own_do_not_count_and_their_likes_do() {
        let log = |name: &str| {
            format!(
                "========= Uninitialized __global__ memory read of size 8 bytes\n\
                 =========     at {name}(const unsigned char *)+0x40\n\
                 =========     by thread (0,0,0) in block (0,0,0)\n"
            )
        };
        assert!(Report::read(&log("kiln_sum"), &OWN).findings.is_empty());
        assert_eq!(Report::read(&log("my_kiln_sum"), &OWN).findings.len(), 1);
        assert_eq!(Report::read(&log("kiln_sum"), &[]).findings.len(), 1);
    }

    #[test]
    fn a_finding_without_its_thread_is_a_finding() {
        for head in [
            "Invalid __shared__ write of size 4 bytes",
            "Uninitialized __global__ memory read of size 4 bytes",
        ] {
            let report = Report::read(&format!("========= {head}\n"), &OWN);
            assert_eq!(report.of(Severity::Error), [head]);
        }
        let call = "========= Program hit CUDA_ERROR_INVALID_VALUE (error 1)\n";
        assert!(Report::read(call, &OWN).findings.is_empty());
    }

    #[test]
    fn what_the_process_prints_is_no_finding() {
        let log =
            "Invalid __global__ write\nby thread (0,0,0)\n========= ERROR SUMMARY: 0 errors\n";
        assert!(Report::read(log, &OWN).findings.is_empty());
    }
}
