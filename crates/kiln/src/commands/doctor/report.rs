//! All findings as text or JSON, and what they add up to.

use serde_json::{Value, json};

use super::finding::{Finding, Status};
use super::needs::Needs;
use crate::exit::Exit;

/// Without any of these no CUDA kernel can be tuned.
const FOR_GPU: [&str; 6] = [
    "driver",
    "gpu",
    "libcuda",
    "nvrtc",
    "toolkit_driver",
    "toolkit_gpu",
];
const FOR_ANYTHING: [&str; 1] = ["home"];
const FOR_PYTHON: [&str; 4] = ["python", "torch", "numpy", "function"];

pub struct Report {
    findings: Vec<Finding>,
    /// What the summary is about.
    subject: String,
    /// Checks that stand in the way, in the order they were made.
    missing: Vec<&'static str>,
    /// What can be done although the GPU cannot be used.
    works: Vec<String>,
}

impl Report {
    pub fn new(mut findings: Vec<Finding>, needs: Option<&Needs>) -> Report {
        if needs.is_some_and(|needs| !needs.gpu) {
            make_light_of_gpu(&mut findings);
        }
        let missing = blocking(&findings, needs);
        let subject = match needs {
            Some(needs) => format!("`{}`", needs.kernel),
            None => "GPU kernels".into(),
        };
        let works = match missing.iter().any(|check| FOR_GPU.contains(check)) {
            true => works_without(&findings),
            false => Vec::new(),
        };
        Report {
            findings,
            subject,
            missing,
            works,
        }
    }

    pub fn exit(&self) -> Exit {
        match self.missing.is_empty() {
            true => Exit::Success,
            false => Exit::Machine,
        }
    }

    /// How many checks stand in the way.
    pub fn problems(&self) -> u64 {
        self.missing.len() as u64
    }

    fn summary(&self) -> String {
        let subject = &self.subject;
        let warnings = self.findings.iter().filter(|f| f.status == Status::Warning);
        match (self.missing.as_slice(), warnings.count()) {
            ([], 0) => format!("{subject} can be tuned here"),
            ([], 1) => format!("{subject} can be tuned here; 1 warning"),
            ([], n) => format!("{subject} can be tuned here; {n} warnings"),
            (missing, _) => format!(
                "{subject} cannot be tuned here: {} missing",
                missing.join(", ")
            ),
        }
    }

    pub fn text(&self) -> String {
        let mut lines = Vec::new();
        for finding in &self.findings {
            lines.push(format!("{:<7}  {}", finding.status.name(), finding.what));
            if finding.status == Status::Ok {
                continue;
            }
            if let Some(why) = &finding.why {
                lines.push(format!("{:<7}  {why}", ""));
            }
            if let Some(fix) = &finding.fix {
                lines.push(format!("{:<7}  fix: {fix}", ""));
            }
        }
        lines.push(String::new());
        lines.push(self.summary());
        for works in &self.works {
            lines.push(format!("works without: {works}"));
        }
        lines.join("\n")
    }

    pub fn json(&self) -> Value {
        let checks: Vec<Value> = self
            .findings
            .iter()
            .map(|f| {
                json!({
                    "check": f.check, "status": f.status.name(), "what": f.what, "why": f.why,
                    "fix": f.fix, "facts": f.facts,
                })
            })
            .collect();
        json!({
            "schema_version": 1, "ready": self.missing.is_empty(), "summary": self.summary(),
            "missing": self.missing, "works_without": self.works, "checks": checks,
        })
    }
}

/// For a kernel that runs elsewhere a GPU's troubles are no troubles.
fn make_light_of_gpu(findings: &mut [Finding]) {
    let of_gpu = [
        "clocks",
        "throttle",
        "power_limit",
        "processes",
        "persistence",
        "mig",
        "headers",
    ];
    for finding in findings {
        let about_gpu = FOR_GPU.contains(&finding.check) || of_gpu.contains(&finding.check);
        if about_gpu && finding.status != Status::Ok {
            finding.status = Status::Note;
            finding.why = Some("this kernel does not need it".into());
            finding.fix = None;
        }
    }
}

fn is_missing(findings: &[Finding], check: &str) -> bool {
    let mut of_check = findings.iter().filter(|f| f.check == check).peekable();
    // One usable GPU of several will do; one function of several that is missing will not.
    match check {
        "gpu" => of_check.peek().is_some() && of_check.all(|f| f.status == Status::Missing),
        _ => of_check.any(|f| f.status == Status::Missing),
    }
}

fn blocking(findings: &[Finding], needs: Option<&Needs>) -> Vec<&'static str> {
    let mut matters: Vec<&'static str> = FOR_ANYTHING.to_vec();
    if needs.is_none_or(|needs| needs.gpu) {
        matters.extend(FOR_GPU);
    }
    if needs.is_some_and(|needs| needs.nvcc) {
        matters.push("nvcc");
    }
    if needs.is_some_and(|needs| needs.c_compiler) {
        matters.push("c_compiler");
    }
    if needs.is_some_and(|needs| !needs.python.is_empty()) {
        matters.extend(FOR_PYTHON);
    }
    let mut found: Vec<&'static str> = Vec::new();
    for finding in findings {
        let check = finding.check;
        if matters.contains(&check) && !found.contains(&check) && is_missing(findings, check) {
            found.push(check);
        }
    }
    found
}

fn works_without(findings: &[Finding]) -> Vec<String> {
    let mut works = Vec::new();
    // Images are kept there.
    let has_home = !is_missing(findings, "home");
    if !is_missing(findings, "c_compiler") && has_home {
        works.push("C kernels on this CPU: kiln tune kernels/attention_cpu".into());
    }
    works.push("the gates of CUDA kernels: kiln check MANIFEST --arch sm_90".into());
    let compile = "compiling CUDA kernels for any GPU: kiln check MANIFEST --arch sm_90 --compile";
    if has_home {
        works.push(match is_missing(findings, "nvrtc") {
            true => format!("{compile} (once there is a CUDA compiler)"),
            false => compile.into(),
        });
    }
    works
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bare_machine() -> Vec<Finding> {
        vec![
            Finding::missing("driver", "NVIDIA driver: none").fix("install it"),
            Finding::missing("gpu", "GPU: none"),
            Finding::missing("nvrtc", "CUDA compiler: none")
                .why("kernels are compiled with it")
                .fix("kiln toolchain install"),
            Finding::note("torch", "PyTorch: not installed"),
            Finding::ok("c_compiler", "C compiler `cc`: 13.2").why("never shown"),
            Finding::ok("home", "cache /x: 9 GiB free"),
        ]
    }

    #[test]
    fn a_machine_without_a_gpu_hears_what_works() {
        let report = Report::new(bare_machine(), None);
        assert_eq!(report.exit(), Exit::Machine);
        insta::assert_snapshot!(report.text(), @r"
        missing  NVIDIA driver: none
                 fix: install it
        missing  GPU: none
        missing  CUDA compiler: none
                 kernels are compiled with it
                 fix: kiln toolchain install
        note     PyTorch: not installed
        ok       C compiler `cc`: 13.2
        ok       cache /x: 9 GiB free

        GPU kernels cannot be tuned here: driver, gpu, nvrtc missing
        works without: C kernels on this CPU: kiln tune kernels/attention_cpu
        works without: the gates of CUDA kernels: kiln check MANIFEST --arch sm_90
        works without: compiling CUDA kernels for any GPU: kiln check MANIFEST --arch sm_90 --compile (once there is a CUDA compiler)
        ");
    }

    #[test]
    fn without_a_home_nothing_that_compiles_works() {
        let mut findings = bare_machine();
        findings.pop();
        findings.push(Finding::missing("home", "cache /x: cannot be written"));
        let works = Report::new(findings, None).works;
        assert_eq!(works.len(), 1, "{works:?}");
        assert!(!works[0].contains("--compile"));
    }

    #[test]
    fn a_manifest_is_judged_by_its_own_needs() {
        let mut needs = Needs {
            kernel: "k".into(),
            c_compiler: true,
            ..Needs::default()
        };
        let report = Report::new(bare_machine(), Some(&needs));
        assert_eq!(
            (report.exit(), report.summary().as_str()),
            (Exit::Success, "`k` can be tuned here")
        );
        assert!(!report.text().contains("missing") && !report.text().contains("fix:"));
        needs.gpu = true;
        let report = Report::new(bare_machine(), Some(&needs));
        assert_eq!(report.json()["missing"], json!(["driver", "gpu", "nvrtc"]));
    }

    #[test]
    fn one_usable_gpu_of_two_is_enough() {
        let findings = vec![
            Finding::missing("gpu", "GPU 0"),
            Finding::warning("gpu", "GPU 1"),
        ];
        let report = Report::new(findings, None);
        assert_eq!(report.exit(), Exit::Success);
        assert_eq!(report.summary(), "GPU kernels can be tuned here; 1 warning");
    }
}
