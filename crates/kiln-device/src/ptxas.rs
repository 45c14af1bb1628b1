//! What `ptxas -v` says about kernels: how much of a multiprocessor each one uses.

use kiln_core::protocol::Resources;

/// Kernels in a log, in its order, by their names in the image.
pub(crate) fn kernels(log: &str) -> Vec<(String, Resources)> {
    let mut found: Vec<(String, Resources)> = Vec::new();
    // "Function properties" are also printed for device functions that were not inlined; those
    // numbers are not the kernel's.
    let mut about_kernel = false;
    for line in log.lines() {
        let Some(text) = ptxas_text(line) else {
            continue;
        };
        if let Some(rest) = text.strip_prefix("Compiling entry function '") {
            let name = rest.split('\'').next().unwrap_or_default();
            found.push((name.to_string(), Resources::default()));
            about_kernel = true;
        } else if let Some(name) = text.strip_prefix("Function properties for ") {
            about_kernel = found
                .last()
                .is_some_and(|(kernel, _)| kernel == name.trim());
        } else if let (true, Some((_, resources))) = (about_kernel, found.last_mut()) {
            read_numbers(text, resources);
        }
    }
    found
}

/// The log without the lines that [`kernels`] reads. Warnings and remarks stay.
pub(crate) fn without_numbers(log: &str) -> String {
    let kept: Vec<&str> = log
        .lines()
        .filter(|line| !ptxas_text(line).is_some_and(is_about_numbers))
        .collect();
    kept.join("\n").trim().to_string()
}

/// The kernel in a list of names in an image that a manifest's entry means: a plain name is
/// `extern "C"` or mangled, and may have its namespaces and template arguments.
pub(crate) fn find_symbol<'a>(
    entry: &str,
    names: impl Iterator<Item = &'a str> + Clone,
) -> Result<String, String> {
    if let Some(exact) = names.clone().find(|name| *name == entry) {
        return Ok(exact.to_string());
    }
    let matches: Vec<&str> = names.clone().filter(|n| is_mangled_of(n, entry)).collect();
    match matches.as_slice() {
        [one] => Ok(one.to_string()),
        [] => {
            let known: Vec<&str> = names.take(5).collect();
            let known = match known.as_slice() {
                [] => "the source has none".to_string(),
                names => format!("it has `{}`", names.join("`, `")),
            };
            Err(format!("there is no kernel `{entry}`: {known}"))
        }
        several => Err(format!(
            "`{entry}` could be {} kernels: `{}`; declare it `extern \"C\"` or name it apart",
            several.len(),
            several.join("`, `")
        )),
    }
}

/// Whether an Itanium-mangled name ends its path in `entry`'s: `a::k<int>` is `…1a1kI…`.
fn is_mangled_of(name: &str, entry: &str) -> bool {
    let Some(mangled) = name.strip_prefix("_Z") else {
        return false;
    };
    let plain = entry.split('<').next().unwrap_or_default().trim();
    let path: String = plain
        .split("::")
        .filter(|part| !part.is_empty())
        .map(|part| format!("{}{part}", part.len()))
        .collect();
    if path.is_empty() {
        return false;
    }
    let nested = mangled.strip_prefix('N').unwrap_or(mangled);
    let nested = nested.strip_prefix('L').unwrap_or(nested);
    // Read the length-prefixed parts; the entry's must be the last ones.
    let mut rest = nested;
    let mut read = String::new();
    loop {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let Ok(length) = rest[..digits].parse::<usize>() else {
            break;
        };
        let Some((part, after)) = rest.split_at_checked(digits.saturating_add(length)) else {
            break;
        };
        read.push_str(part);
        rest = after;
    }
    read.strip_suffix(&path)
        .is_some_and(|before| !before.ends_with(|c: char| c.is_ascii_digit()))
}

/// What stands behind `ptxas info    : ` or the continuation `ptxas         .     `. In `nvcc`'s
/// output a continuation is only indented.
fn ptxas_text(line: &str) -> Option<&str> {
    if let Some(rest) = line.strip_prefix("ptxas") {
        let rest = rest.trim_start();
        let rest = rest.strip_prefix("info").unwrap_or(rest).trim_start();
        return Some(rest.strip_prefix([':', '.'])?.trim());
    }
    let text = line.trim();
    (line.starts_with("    ") && text.contains(" bytes stack frame,")).then_some(text)
}

fn is_about_numbers(text: &str) -> bool {
    const STARTS: [&str; 4] = [
        "Compiling entry function '",
        "Function properties for ",
        "Compile time = ",
        "Used ",
    ];
    STARTS.iter().any(|start| text.starts_with(start))
        || text.contains(" bytes stack frame,")
        || text.contains(" bytes gmem")
}

/// `0 bytes stack frame, 4 bytes spill stores, …` and `Used 32 registers, used 1 barriers, …`.
fn read_numbers(text: &str, resources: &mut Resources) {
    for item in text.split(',') {
        let item = item.trim();
        let item = item.strip_prefix("Used ").unwrap_or(item);
        let item = item.strip_prefix("used ").unwrap_or(item);
        let Some((number, what)) = item.split_once(' ') else {
            continue;
        };
        // `40+16 bytes smem` is how older versions count what the system takes.
        let Some(number) = number
            .split('+')
            .map(|n| n.parse::<u32>().ok())
            .try_fold(0u32, |sum, n| sum.checked_add(n?))
        else {
            continue;
        };
        match what {
            "registers" => resources.registers = number,
            "barriers" => resources.barriers = number,
            "bytes stack frame" => resources.stack_bytes = number,
            "bytes spill stores" => resources.spill_store_bytes = number,
            "bytes spill loads" => resources.spill_load_bytes = number,
            "bytes smem" => resources.static_shared_bytes = number,
            bank if bank.starts_with("bytes cmem") => resources.constant_bytes += number,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // NVRTC 13.0, two kernels and a device function.
    const NVRTC: &str = "\
k.cu(1): warning #177-D: variable \"unused\" was declared but never referenced

ptxas info    : 4 bytes gmem
ptxas info    : Compiling entry function '_Z2k2Pi' for 'sm_90a'
ptxas info    : Function properties for _Z2k2Pi
ptxas         .     8 bytes stack frame, 12 bytes spill stores, 16 bytes spill loads
ptxas info    : Used 32 registers, used 1 barriers, 8 bytes cumulative stack size, 1024 bytes smem, 364 bytes cmem[0], 8 bytes cmem[2]
ptxas info    : Compile time = 6.157 ms
ptxas info    : Compiling entry function 'k' for 'sm_90a'
ptxas info    : Function properties for k
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized
ptxas info    : Used 8 registers, used 0 barriers
ptxas info    : Compile time = 1.158 ms
ptxas info    : Function properties for _Z1fi
ptxas         .     96 bytes stack frame, 1 bytes spill stores, 1 bytes spill loads
";

    #[test]
    fn every_kernel_has_its_own_numbers() {
        let kernels = kernels(NVRTC);
        let expected = Resources {
            registers: 32,
            spill_store_bytes: 12,
            spill_load_bytes: 16,
            stack_bytes: 8,
            static_shared_bytes: 1024,
            constant_bytes: 372,
            barriers: 1,
        };
        assert_eq!(kernels[0], ("_Z2k2Pi".into(), expected));
        let k = Resources {
            registers: 8,
            ..Resources::default()
        };
        assert_eq!(kernels[1], ("k".into(), k));
        assert_eq!(kernels.len(), 2);
    }

    #[test]
    fn only_what_is_not_a_number_stays_in_the_log() {
        let kept = without_numbers(NVRTC);
        let lines: Vec<&str> = kept.lines().filter(|line| !line.is_empty()).collect();
        assert_eq!(lines.len(), 2, "{kept}");
        assert!(lines[0].contains("warning #177-D") && lines[1].contains("(C7510)"));
    }

    #[test]
    fn nvcc_indents_what_nvrtc_prefixes() {
        let log = "ptxas info    : Compiling entry function '_Z1kPf' for 'sm_80'\n\
                   ptxas info    : Function properties for _Z1kPf\n    \
                   0 bytes stack frame, 4 bytes spill stores, 0 bytes spill loads\n\
                   ptxas info    : Used 10 registers, 352 bytes cmem[0]\n";
        assert_eq!(kernels(log)[0].1.spill_store_bytes, 4);
        assert_eq!(without_numbers(log), "");
    }

    #[test]
    fn an_entry_is_found_by_name_path_or_instance() {
        let names = ["plain", "_Z3addPfi", "_ZN1n1tILi3EEEvPf", "_Z7add_twoPf"];
        let find = |entry| find_symbol(entry, names.into_iter());
        assert_eq!(find("plain").unwrap(), "plain");
        assert_eq!(find("add").unwrap(), "_Z3addPfi");
        assert_eq!(find("add_two").unwrap(), "_Z7add_twoPf");
        assert_eq!(find("n::t<3>").unwrap(), "_ZN1n1tILi3EEEvPf");
        assert_eq!(find("t").unwrap(), "_ZN1n1tILi3EEEvPf");
        assert!(
            find("two")
                .unwrap_err()
                .contains("there is no kernel `two`")
        );
        assert!(find("m::t").is_err());
        assert!(find("").is_err());
        let twice = ["_Z1kPf", "_Z1kPi"];
        let error = find_symbol("k", twice.into_iter()).unwrap_err();
        assert!(error.contains("could be 2 kernels"), "{error}");
        let none: [&str; 0] = [];
        assert!(
            find_symbol("k", none.into_iter())
                .unwrap_err()
                .contains("has none")
        );
    }

    #[test]
    fn broken_mangled_names_are_no_match_and_no_panic() {
        for name in [
            "_Z",
            "_Z99k",
            "_Z0",
            "_ZN",
            "_Z18446744073709551615k",
            "_Z1ä",
            "_Z1k",
        ] {
            let _ = find_symbol("k", [name].into_iter());
        }
    }
}
