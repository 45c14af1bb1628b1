//! Variables of an image that outlive a launch: where a kernel could keep answers or count calls.
//!
//! Runs in the compile worker. An image is a candidate's own work, so the supervisor never parses
//! one.

use std::fs;

use kiln_core::protocol::WritableGlobal;
use object::{Object, ObjectSection, ObjectSymbol, SectionFlags, SectionIndex, SymbolKind, elf};

/// More than this is a table nobody reads.
const MOST_LISTED: usize = 64;
/// A hostile image could name a variable with all its bytes.
const LONGEST_NAME: usize = 120;
/// What the C runtime's start-up files put into every shared library.
const OF_THE_RUNTIME: [&str; 6] = [
    "completed.0",
    "__dso_handle",
    "__TMC_END__",
    "__bss_start",
    "_edata",
    "_end",
];
/// What those take of `.bss` and `.data`, where symbols were stripped.
const RUNTIME_BYTES: u64 = 16;
/// What an aligned variable may leave unused in front of it.
const MOST_PADDING: u64 = 127;

/// The variables, largest first; `None` where the image cannot be read as ELF.
pub(crate) fn writable(image: &str) -> Option<Vec<WritableGlobal>> {
    let bytes = fs::read(image).ok()?;
    in_image(&bytes)
}

fn in_image(bytes: &[u8]) -> Option<Vec<WritableGlobal>> {
    let file = object::File::parse(bytes).ok()?;
    let sections: Vec<(SectionIndex, String, u64)> = file
        .sections()
        .filter(|section| is_writable(section.flags()))
        .filter_map(|section| {
            let name = section.name().ok()?.to_string();
            holds_variables(&name).then_some((section.index(), name, section.size()))
        })
        .collect();
    let mut found: Vec<WritableGlobal> = Vec::new();
    let mut covered: Vec<Vec<(u64, u64)>> = vec![Vec::new(); sections.len()];
    for symbol in file.symbols() {
        let place = symbol.section_index();
        let at = sections
            .iter()
            .position(|(index, _, _)| Some(*index) == place);
        let (Some(at), Ok(name)) = (at, symbol.name()) else {
            continue;
        };
        if !is_variable(name, symbol.kind()) || symbol.size() == 0 {
            continue;
        }
        covered[at].push((symbol.address(), symbol.size()));
        // The compiler's own: text of `printf` and `assert`.
        let is_ours = OF_THE_RUNTIME.contains(&name) || name.starts_with('$');
        if !is_ours {
            found.push(WritableGlobal {
                name: name.chars().take(LONGEST_NAME).collect(),
                bytes: symbol.size(),
            });
        }
    }
    // What has no name or no size: all of it where symbols were stripped.
    for ((_, name, size), named) in sections.into_iter().zip(covered) {
        let symbols = named.len() as u64;
        let bytes = size.saturating_sub(union(named));
        if is_more_than_padding(bytes, symbols) {
            found.push(WritableGlobal { name, bytes });
        }
    }
    found.sort_by(|a, b| b.bytes.cmp(&a.bytes).then(a.name.cmp(&b.name)));
    found.dedup();
    found.truncate(MOST_LISTED);
    Some(found)
}

fn is_variable(name: &str, kind: SymbolKind) -> bool {
    !name.is_empty() && kind != SymbolKind::Section
}

/// Bytes that at least one symbol names, given the address and size of each.
fn union(mut symbols: Vec<(u64, u64)>) -> u64 {
    symbols.sort_unstable();
    let (mut bytes, mut end) = (0, 0);
    for (start, size) in symbols {
        let last = start.saturating_add(size);
        bytes += last.saturating_sub(start.max(end));
        end = last.max(end);
    }
    bytes
}

/// Variables are aligned, and the start-up files have a few of their own.
fn is_more_than_padding(bytes: u64, symbols: u64) -> bool {
    bytes > RUNTIME_BYTES + MOST_PADDING * symbols
}

fn is_writable(flags: SectionFlags) -> bool {
    let needed = elf::SHF_WRITE | elf::SHF_ALLOC;
    matches!(flags, SectionFlags::Elf { sh_flags, .. } if sh_flags & needed == needed)
}

/// Sections for variables; others that are writable belong to the loader.
fn holds_variables(section: &str) -> bool {
    const OF_THE_LOADER: [&str; 1] = [".data.rel.ro"];
    const HOLD: [&str; 6] = [".data", ".bss", ".tdata", ".tbss", ".nv.global", ".lbss"];
    let is = |name: &str| {
        section
            .strip_prefix(name)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    HOLD.into_iter().any(is) && !OF_THE_LOADER.into_iter().any(is)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// What a C source keeps, compiled as kiln does.
    fn kept_by(source: &str, flags: &[&str]) -> Vec<WritableGlobal> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (unit, image) = (folder.path().join("k.c"), folder.path().join("k.so"));
        fs::write(&unit, source).expect("writes the source");
        let compiled = Command::new("cc")
            .args(["-shared", "-fPIC", "-fvisibility=hidden", "-O2", "-o"])
            .arg(&image)
            .arg(&unit)
            .args(flags)
            .status()
            .expect("cc runs");
        assert!(compiled.success());
        writable(&image.display().to_string()).expect("cc writes ELF")
    }

    #[test]
    fn a_kernel_without_state_has_no_variables() {
        let plain = "static const int table[4] = {1, 2, 3, 4};\n\
                     void k(int *y, int n) { for (int i = 0; i < n; i++) y[i] = table[i & 3]; }\n";
        assert_eq!(kept_by(plain, &[]), []);
        assert_eq!(kept_by(plain, &["-s"]), []);
    }

    #[test]
    fn statics_globals_and_thread_locals_are_named() {
        let source = "static float kept[1000]; int calls = 7; static _Thread_local int seen;\n\
                      void k(float *y) { y[0] = kept[calls++ % 1000]++ + seen++; }\n";
        let found = kept_by(source, &[]);
        let names: Vec<(&str, u64)> = found.iter().map(|g| (g.name.as_str(), g.bytes)).collect();
        assert_eq!(names, [("kept", 4000), ("calls", 4), ("seen", 4)]);
        let stripped = kept_by(source, &["-s"]);
        assert_eq!(stripped[0].name, ".bss");
    }

    #[test]
    fn variables_without_a_size_or_a_name_are_found_by_their_section() {
        for label in ["kept", ".Lkept"] {
            let source = format!(
                "__asm__(\".data\\n{label}: .zero 4096\\n.text\");\n\
                 int calls = 7; void k(int *y) {{ y[0] = calls++; }}\n"
            );
            let found = kept_by(&source, &[]);
            assert_eq!((found[0].name.as_str(), found.len()), (".data", 2));
            assert!((4096..4200).contains(&found[0].bytes), "{found:?}");
            assert_eq!(found[1].name, "calls");
        }
    }

    #[test]
    fn what_is_not_named_is_counted_once() {
        assert_eq!(union(vec![]), 0);
        assert_eq!(
            union(vec![(100, 10), (0, 10), (5, 10), (5, 10), (102, 2)]),
            25
        );
        assert_eq!(union(vec![(0, 10), (10, 5)]), 15);
        assert!(!is_more_than_padding(16, 0) && is_more_than_padding(17, 0));
        assert!(!is_more_than_padding(270, 2) && is_more_than_padding(271, 2));
    }

    #[test]
    fn sections_are_no_variables_and_only_writable_ones_hold_any() {
        assert!(is_variable("kept", SymbolKind::Data));
        assert!(!is_variable(".data", SymbolKind::Section));
        assert!(!is_variable("", SymbolKind::Data));
        let flags = |sh_flags| SectionFlags::Elf {
            sh_type: elf::SHT_PROGBITS,
            sh_flags,
        };
        assert!(is_writable(flags(elf::SHF_WRITE | elf::SHF_ALLOC)));
        assert!(!is_writable(flags(elf::SHF_ALLOC)));
        assert!(!is_writable(flags(elf::SHF_WRITE)));
        assert!(!is_writable(SectionFlags::None));
    }

    #[test]
    fn what_is_no_image_says_nothing() {
        assert_eq!(in_image(b"not an image"), None);
        assert_eq!(in_image(b"\x7fELF\x02\x01\x01 torn"), None);
    }

    #[test]
    fn sections_of_a_cubin_are_known() {
        assert!(holds_variables(".nv.global") && holds_variables(".nv.global.init"));
        assert!(!holds_variables(".nv.constant3") && !holds_variables(".nv.shared.k"));
    }
}
