//! `[kernel]`: what is compiled, and how.

use super::section::Section;
use super::{Problems, only_for_cuda};
use crate::diagnostic::Diagnostic;
use crate::manifest::keys::C_FLAGS;
use crate::manifest::{CudaCompiler, Kernel, Language, Spanned, plain_name};
use crate::space::Tunable;

/// The language written, or told from the source's suffix.
pub(super) fn language(section: &Section, problems: &mut Problems) -> Option<Language> {
    if section.has("language") {
        return match section.text("language").as_str() {
            "c" => Some(Language::C),
            "cuda" => Some(Language::Cuda),
            _ => None,
        };
    }
    let source = section.written_text("source")?;
    if source.value.ends_with(".c") {
        return Some(Language::C);
    }
    if source.value.ends_with(".cu") {
        return Some(Language::Cuda);
    }
    problems.push(
        Diagnostic::new(
            format!("cannot tell the language of `{}`", source.value),
            source.span,
        )
        .label("neither `.c` nor `.cu`")
        .hint("add a line such as `language = \"c\"`"),
    );
    None
}

pub(super) fn decode(
    section: &Section,
    language: Option<Language>,
    tunables: &[Tunable],
    problems: &mut Problems,
) -> Kernel {
    if language == Some(Language::C) && section.has("compiler") {
        problems.push(only_for_cuda(section, "kernel", "compiler"));
    }
    let text = |key: &str| {
        section.written_text(key).unwrap_or(Spanned {
            value: String::new(),
            span: section.span.clone(),
        })
    };
    let entry = text("entry");
    if language == Some(Language::C) && entry.value.contains([':', '<']) {
        problems.push(
            Diagnostic::new(
                format!("`entry` of a C kernel cannot be `{}`", entry.value),
                entry.span.clone(),
            )
            .label("expected the name of a function: letters, digits and `_`"),
        );
    }
    let written = section.texts("flags").unwrap_or_default();
    if language == Some(Language::Cuda) {
        refuse_architectures(&written, problems);
    }
    refuse_tunables(&written, tunables, problems);
    if let Some(language) = language {
        super::flags::check(&written, language, problems);
    }
    let language = language.unwrap_or(Language::C);
    let default_flags = match language {
        Language::C => C_FLAGS.map(String::from).to_vec(),
        Language::Cuda => Vec::new(),
    };
    Kernel {
        name: match section.has("name") {
            true => section.text("name"),
            false => plain_name(&entry.value).to_string(),
        },
        language,
        source: text("source"),
        entry,
        flags: flags(section).unwrap_or(default_flags),
        include_dirs: section.texts("include_dirs").unwrap_or_default(),
        compiler: match section.text("compiler").as_str() {
            "nvcc" => CudaCompiler::Nvcc,
            _ => CudaCompiler::Nvrtc,
        },
    }
}

pub(super) fn flags(section: &Section) -> Option<Vec<String>> {
    let flags = section.texts("flags")?;
    Some(flags.into_iter().map(|f| f.value).collect())
}

/// Flags of a CUDA source that choose what it is compiled for.
const ARCHITECTURE_FLAGS: [&str; 6] = [
    "-arch",
    "--gpu-architecture",
    "-gencode",
    "--generate-code",
    "-code",
    "--gpu-code",
];

/// The device, or `--arch`, says what is compiled for; with a second answer an image would not be
/// what the gates and the cache take it for.
pub(super) fn refuse_architectures(flags: &[Spanned<String>], problems: &mut Problems) {
    for flag in flags {
        let name = flag.value.split(['=', ' ']).next().unwrap_or_default();
        if ARCHITECTURE_FLAGS.contains(&name) {
            problems.push(
                Diagnostic::new(
                    format!("`{}` in `flags` contradicts kiln", flag.value),
                    flag.span.clone(),
                )
                .label("kiln chooses the architecture: the device's")
                .hint("leave it out; `kiln check --compile --arch sm_90a` compiles for another"),
            );
        }
    }
}

/// A tunable reaches the source as `-DNAME=value`; a flag for the same name would win over every
/// config, or be ignored.
pub(super) fn refuse_tunables(
    flags: &[Spanned<String>],
    tunables: &[Tunable],
    problems: &mut Problems,
) {
    const MACRO_FLAGS: [&str; 4] = ["--define-macro", "--undefine-macro", "-D", "-U"];
    let mut flags = flags.iter();
    while let Some(flag) = flags.next() {
        let text = flag.value.trim();
        let Some(rest) = MACRO_FLAGS.iter().find_map(|f| text.strip_prefix(f)) else {
            continue;
        };
        let mut place = flag;
        let mut whole = text.to_string();
        let mut define = rest.trim_start_matches(['=', ' ']);
        if define.is_empty()
            && let Some(next) = flags.next()
        {
            (place, define) = (next, next.value.trim());
            whole = format!("{text} {define}");
        }
        let name = define.split(['=', '(']).next().unwrap_or_default().trim();
        if tunables.iter().any(|t| t.name == name) {
            problems.push(
                Diagnostic::new(
                    format!("`{whole}` in `flags` contradicts tunable `{name}`"),
                    place.span.clone(),
                )
                .label("kiln defines it, once for every config")
                .hint(format!(
                    "leave it out; to pin it, give it one value: `{name} = [{}]`",
                    define.split_once('=').map_or("1", |(_, value)| value)
                )),
            );
        }
    }
}
