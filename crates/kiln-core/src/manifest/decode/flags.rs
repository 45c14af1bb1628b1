//! `flags`: which words of a manifest reach a compiler.
//!
//! A list of what is allowed. A manifest comes with the kernel, often from somebody else, and
//! compilers have flags that run programs (`-wrapper`, `-ccbin`), load code (`-fplugin`), read more
//! flags from files (`@file`) and write files (`-o`, `-fdump-tree-all`). What speeds code up needs
//! none of these. Flags are passed word by word, never through a shell.

use super::Problems;
use crate::diagnostic::Diagnostic;
use crate::manifest::{Language, Spanned};

/// Reports every word that is not allowed.
pub(super) fn check(flags: &[Spanned<String>], language: Language, problems: &mut Problems) {
    let mut flags = flags.iter().peekable();
    while let Some(flag) = flags.next() {
        let text = flag.value.as_str();
        let next = flags.peek().map(|next| next.value.as_str());
        let verdict = match language {
            Language::C => c_flag(text, next),
            Language::Cuda => cuda_flag(text, next),
        };
        match verdict {
            Verdict::Allowed => {}
            Verdict::WithNext => {
                flags.next();
            }
            Verdict::Refused(why) => problems.push(
                Diagnostic::new(
                    format!("`{text}` is not among the flags kiln passes on"),
                    flag.span.clone(),
                )
                .label(why)
                .hint(hint(text, language)),
            ),
        }
    }
}

enum Verdict {
    Allowed,
    /// The next word is its value.
    WithNext,
    Refused(&'static str),
}

const UNKNOWN: &str = "only flags that are known to be harmless are";
const WRITES: &str = "it writes files beside the image";
const RUNS: &str = "it brings code or another program into the compiler";
const NAMES_FILE: &str = "its value names a file";

fn hint(text: &str, language: Language) -> String {
    if text.starts_with('@') {
        return "write the flags themselves into the manifest".into();
    }
    if !text.starts_with('-') {
        return "for more sources write `#include \"more.c\"` into the source; \
                for libraries use `-lNAME` and `-LFOLDER`"
            .into();
    }
    match language {
        Language::C => {
            "allowed are -O, -m, -f, -W, -g, -std, -D, -U, -I, -L, -l, -pthread and a few more: \
                        see Flags in docs/manifest.md"
                .into()
        }
        Language::Cuda => {
            "allowed are what shapes device code (-use_fast_math, -maxrregcount, --fmad, \
                           -Xptxas -O3, …), -std, -D, -U, -I: see Flags in docs/manifest.md"
                .into()
        }
    }
}

/// `-Dx`, or `-D` and the next word.
fn valued(text: &str, next: Option<&str>) -> Option<Verdict> {
    // The sandbox decides what can be read, by these as by an #include of any path.
    const JOINED: [&str; 4] = ["-D", "-U", "-I", "-L"];
    const APART: [&str; 5] = ["-include", "-isystem", "-iquote", "-idirafter", "--param"];
    let takes_next = || match next {
        Some(value) if !value.starts_with(['@', '-']) => Verdict::WithNext,
        _ => Verdict::Refused("it needs a value in the next word"),
    };
    if JOINED.contains(&text) || APART.contains(&text) {
        return Some(takes_next());
    }
    let is_joined = JOINED.iter().any(|flag| text.starts_with(flag));
    (is_joined || text.starts_with("--param=")).then_some(Verdict::Allowed)
}

fn c_flag(text: &str, next: Option<&str>) -> Verdict {
    const WORDS: [&str; 11] = [
        "-w",
        "-pthread",
        "-pipe",
        "-ansi",
        "-pedantic",
        "-pedantic-errors",
        "-static-libgcc",
        "-g",
        "-ggdb",
        "-gline-tables-only",
        "-O",
    ];
    if text.starts_with('@') {
        return Verdict::Refused("it reads more flags from a file");
    }
    if !text.starts_with('-') {
        return Verdict::Refused("a word by itself is a file to compile or link");
    }
    if let Some(verdict) = valued(text, next) {
        return verdict;
    }
    let after = |prefix: &str| text.strip_prefix(prefix);
    if let Some(level) = after("-O") {
        let is_level = ["", "0", "1", "2", "3", "s", "g", "z", "fast"].contains(&level);
        return known(is_level);
    }
    if let Some(rest) = after("-W") {
        return warning_or_linker(rest);
    }
    if let Some(rest) = after("-f") {
        return feature(rest);
    }
    if let Some(rest) = after("-m") {
        return match rest {
            "llvm" => Verdict::Refused(RUNS),
            _ if rest.contains(['/', ',', '@']) => Verdict::Refused(NAMES_FILE),
            _ => Verdict::Allowed,
        };
    }
    if let Some(name) = after("-l") {
        let plain = |c: char| c.is_ascii_alphanumeric() || "_+-.:".contains(c);
        return known(!name.is_empty() && name.chars().all(plain));
    }
    let is_debug = after("-gdwarf").is_some_and(|v| v.chars().all(|c| "-0123456789".contains(c)))
        || after("-g").is_some_and(|v| matches!(v, "0" | "1" | "2" | "3"));
    let is_standard = after("-std=").is_some() || after("--std=").is_some();
    let is_remark = after("-Rpass").is_some_and(|rest| !rest.contains('/'));
    known(is_debug || is_standard || is_remark || WORDS.contains(&text))
}

fn known(is_known: bool) -> Verdict {
    match is_known {
        true => Verdict::Allowed,
        false => Verdict::Refused(UNKNOWN),
    }
}

/// `-Wall` and the like; of `-Wl,…` what changes the code's layout.
fn warning_or_linker(rest: &str) -> Verdict {
    const LINKER: [&str; 9] = [
        "-O1",
        "-O2",
        "--gc-sections",
        "--as-needed",
        "--no-as-needed",
        "-Bsymbolic",
        "-Bsymbolic-functions",
        "--hash-style=gnu",
        "-z",
    ];
    const AFTER_Z: [&str; 6] = [
        "now",
        "relro",
        "noexecstack",
        "defs",
        "separate-code",
        "noseparate-code",
    ];
    if let Some(words) = rest.strip_prefix("l,") {
        let mut before = "";
        let all = words.split(',').all(|word| {
            let list: &[&str] = match before {
                "-z" => &AFTER_Z,
                _ => &LINKER,
            };
            before = word;
            list.contains(&word)
        });
        return match all {
            true => Verdict::Allowed,
            false => Verdict::Refused("the linker can be told to read and write any file"),
        };
    }
    if rest.starts_with("a,") || rest.starts_with("p,") {
        return Verdict::Refused("it passes words behind the compiler's back");
    }
    match rest.contains(['/', ',']) {
        true => Verdict::Refused(NAMES_FILE),
        false => Verdict::Allowed,
    }
}

/// `-f…`: nearly all are about optimisation; some are about files and plugins.
fn feature(rest: &str) -> Verdict {
    const RUNNING: [&str; 4] = ["plugin", "pass-plugin", "offload", "use-ld"];
    const WRITING: [&str; 20] = [
        "dump",
        "profile",
        "auto-profile",
        "test-coverage",
        "coverage",
        "stack-usage",
        "callgraph-info",
        "time-trace",
        "save-optimization-record",
        "optimization-record",
        "modules",
        "module",
        "crash-diagnostics",
        "diagnostics-format",
        "diagnostics-add-output",
        "diagnostics-set-output",
        "compare-debug",
        "proc-stat-report",
        "depfile",
        "build-session",
    ];
    const LINKERS: [&str; 4] = ["bfd", "gold", "lld", "mold"];
    if let Some(linker) = rest.strip_prefix("use-ld=") {
        return match LINKERS.contains(&linker) {
            true => Verdict::Allowed,
            false => Verdict::Refused(RUNS),
        };
    }
    let begins_with = |list: &[&str]| list.iter().any(|name| rest.starts_with(name));
    if begins_with(&RUNNING) {
        return Verdict::Refused(RUNS);
    }
    if begins_with(&WRITING) || (rest.starts_with("opt-info") && rest.contains('=')) {
        return Verdict::Refused(WRITES);
    }
    match rest.contains(['/', '@']) {
        true => Verdict::Refused(NAMES_FILE),
        false => Verdict::Allowed,
    }
}

/// Flags of NVRTC and nvcc without their dashes: whether a value comes with them.
const CUDA: &[(&str, bool)] = &[
    ("use_fast_math", false),
    ("fmad", true),
    ("ftz", true),
    ("prec-div", true),
    ("prec-sqrt", true),
    ("maxrregcount", true),
    ("extra-device-vectorization", false),
    ("lineinfo", false),
    ("generate-line-info", false),
    ("G", false),
    ("g", false),
    ("device-debug", false),
    ("debug", false),
    ("dopt", true),
    ("restrict", false),
    ("w", false),
    ("disable-warnings", false),
    ("diag-suppress", true),
    ("diag-error", true),
    ("diag-warn", true),
    ("Werror", true),
    ("display-error-number", false),
    ("no-display-error-number", false),
    ("brief-diagnostics", true),
    ("default-device", false),
    ("device-as-default-execution-space", false),
    ("device-int128", false),
    ("device-float128", false),
    ("expt-relaxed-constexpr", false),
    ("expt-extended-lambda", false),
    ("extended-lambda", false),
    ("split-compile", true),
    ("ofast-compile", true),
    ("Ofc", true),
    ("jump-table-density", true),
    ("frandom-seed", true),
    ("minimal", false),
    ("no-source-include", false),
    ("optimization-info", true),
    ("opt-info", true),
    ("std", true),
    ("optimize", true),
    ("threads", true),
    ("t", true),
    ("default-stream", true),
    ("define-macro", true),
    ("undefine-macro", true),
    ("include-path", true),
    ("pre-include", true),
    // Refused elsewhere, with better words.
    ("arch", true),
    ("gpu-architecture", true),
    ("gencode", true),
    ("generate-code", true),
    ("code", true),
    ("gpu-code", true),
];

/// Options of `ptxas` that change code or what it says about it.
const PTXAS: &[&str] = &[
    "O",
    "opt-level",
    "v",
    "verbose",
    "dlcm",
    "def-load-cache",
    "dscm",
    "def-store-cache",
    "flcm",
    "force-load-cache",
    "fscm",
    "force-store-cache",
    "fmad",
    "maxrregcount",
    "register-usage-level",
    "allow-expensive-optimizations",
    "disable-optimizer-constants",
    "warn-spills",
    "warn-lmem-usage",
    "warn-double-usage",
    "suppress-stack-size-warning",
    "lineinfo",
    "generate-line-info",
    "g",
    "device-debug",
    "w",
    "disable-warnings",
    "opt-fusion",
    "position-independent-code",
];

fn cuda_flag(text: &str, next: Option<&str>) -> Verdict {
    if text.starts_with('@') {
        return Verdict::Refused("it reads more flags from a file");
    }
    let Some(name) = text.strip_prefix("--").or_else(|| text.strip_prefix('-')) else {
        return Verdict::Refused("a word by itself is a file to compile or link");
    };
    let (name, value) = match name.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (name, None),
    };
    let is_level = |level: &str| matches!(level, "0" | "1" | "2" | "3");
    match name {
        "Xptxas" | "ptxas-options" => return passed_on(value, next, is_ptxas_option),
        "Xcompiler" | "compiler-options" => {
            let is_allowed = |word: &str| matches!(c_flag(word, None), Verdict::Allowed);
            return passed_on(value, next, is_allowed);
        }
        _ => {}
    }
    if let Some(verdict) = valued(text, next) {
        return verdict;
    }
    if name.strip_prefix('O').is_some_and(is_level) {
        return Verdict::Allowed;
    }
    if name.starts_with("Wno-") || name == "Wall" {
        return Verdict::Allowed;
    }
    let Some((_, takes_value)) = CUDA.iter().find(|(known, _)| *known == name) else {
        return Verdict::Refused(UNKNOWN);
    };
    match (takes_value, value, next) {
        (true, None, Some(next)) if !next.starts_with(['-', '@']) => Verdict::WithNext,
        _ => Verdict::Allowed,
    }
}

fn is_ptxas_option(word: &str) -> bool {
    let Some(option) = word.strip_prefix("--").or_else(|| word.strip_prefix('-')) else {
        return false;
    };
    let (name, value) = option.split_once('=').unwrap_or((option, ""));
    let is_level = name.strip_prefix('O').is_some_and(|n| n.len() < 2);
    (is_level || PTXAS.contains(&name)) && !value.contains(['/', '@'])
}

/// Words for another program, behind `=` or in the next word, several with commas.
fn passed_on(
    value: Option<&str>,
    next: Option<&str>,
    is_allowed: impl Fn(&str) -> bool,
) -> Verdict {
    let Some(words) = value.or(next) else {
        return Verdict::Refused("it needs a value in the next word");
    };
    if !words.split(',').all(is_allowed) {
        return Verdict::Refused("what it passes on is not on the list either");
    }
    match value {
        Some(_) => Verdict::Allowed,
        None => Verdict::WithNext,
    }
}

#[cfg(test)]
mod tests;
