//! Which words among a compiler's flags name folders and files.
//!
//! A manifest's flags are a list of what is allowed (`manifest::decode::flags`), so the spellings here are all
//! there are: `-Ifolder`, `-I folder`, `-L` likewise, `-isystem`, `-iquote`, `-idirafter` and `-include` with the next
//! word, and for CUDA `--include-path` and `--pre-include`, whose values may follow an equals sign.

/// Whose flags: the compilers differ in small things.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// gcc and clang.
    Cc,
    Nvrtc,
    /// Takes several names with commas between them.
    Nvcc,
}

/// What a word names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    /// Searched for headers.
    HeaderFolder,
    /// Searched for libraries.
    LibraryFolder,
    /// Included before the source.
    Header,
}

/// The flags with every name as `place` says it.
pub fn replaced(
    flags: &[String],
    dialect: Dialect,
    mut place: impl FnMut(Named, &str) -> String,
) -> Vec<String> {
    let mut written = Vec::with_capacity(flags.len());
    let mut flags = flags.iter();
    while let Some(flag) = flags.next() {
        if dialect == Dialect::Nvcc && is_passed_on(flag) {
            let (option, words) = match flag.split_once('=') {
                Some((option, words)) => (option, Some(words)),
                None => (flag.as_str(), None),
            };
            match (words, flags.as_slice().first()) {
                (Some(words), _) => {
                    written.push(format!("{option}={}", passed_on(words, &mut place)));
                }
                (None, Some(words)) => {
                    flags.next();
                    written.extend([flag.clone(), passed_on(words, &mut place)]);
                }
                (None, None) => written.push(flag.clone()),
            }
            continue;
        }
        let Some((option, named, value)) = spelling(flag, dialect) else {
            written.push(flag.clone());
            // The next word is a value and no flag, whatever it looks like.
            if takes_next(flag, dialect) {
                written.extend(flags.next().cloned());
            }
            continue;
        };
        match value {
            Some(value) => {
                written.push(format!(
                    "{option}{}",
                    each(value, dialect, named, &mut place)
                ));
            }
            None => {
                written.push(option.to_string());
                let value = flags.next();
                written.extend(value.map(|value| each(value, dialect, named, &mut place)));
            }
        }
    }
    written
}

/// The folders that flags search for headers.
pub fn header_folders(flags: &[String], dialect: Dialect) -> Vec<String> {
    names(flags, dialect, Named::HeaderFolder)
}

/// The files that flags include before the source.
pub fn headers(flags: &[String], dialect: Dialect) -> Vec<String> {
    names(flags, dialect, Named::Header)
}

fn names(flags: &[String], dialect: Dialect, wanted: Named) -> Vec<String> {
    let mut found = Vec::new();
    replaced(flags, dialect, |named, name| {
        if named == wanted {
            found.push(name.to_string());
        }
        name.to_string()
    });
    found
}

/// The macros that flags define, as `#define` would: a header may be included by such a name.
pub fn definitions(flags: &[String]) -> String {
    let mut text = String::new();
    let mut flags = flags.iter();
    while let Some(flag) = flags.next() {
        let long = ["--define-macro", "-define-macro"];
        let definition = match flag.strip_prefix("-D") {
            Some("") => flags.next().map(String::as_str),
            Some(joined) => Some(joined),
            None if long.contains(&flag.as_str()) => flags.next().map(String::as_str),
            None => {
                let value = long.iter().find_map(|option| flag.strip_prefix(option));
                value.and_then(|value| value.strip_prefix('='))
            }
        };
        let Some((name, value)) = definition.and_then(|d| d.split_once('=')) else {
            continue;
        };
        // A value over several lines would be more than a definition.
        if !value.contains('\n') {
            text.push_str(&format!("#define {name} {value}\n"));
        }
    }
    text
}

/// The option as it is to be written, what it names, and the value where it stands in the same word.
fn spelling(flag: &str, dialect: Dialect) -> Option<(&str, Named, Option<&str>)> {
    const APART: [&str; 3] = ["-isystem", "-iquote", "-idirafter"];
    if APART.contains(&flag) {
        return Some((flag, Named::HeaderFolder, None));
    }
    if flag == "-include" {
        return Some((flag, Named::Header, None));
    }
    if dialect != Dialect::Cc {
        for (option, named) in [
            ("include-path", Named::HeaderFolder),
            ("pre-include", Named::Header),
        ] {
            let rest = flag.trim_start_matches('-').strip_prefix(option);
            match rest.map(|rest| (rest, rest.strip_prefix('='))) {
                Some(("", _)) => return Some((flag, named, None)),
                Some((_, Some(value))) => {
                    return Some((&flag[..flag.len() - value.len()], named, Some(value)));
                }
                _ => {}
            }
        }
    }
    for (option, named) in [("-I", Named::HeaderFolder), ("-L", Named::LibraryFolder)] {
        let Some(rest) = flag.strip_prefix(option) else {
            continue;
        };
        return match (rest, rest.strip_prefix('=')) {
            ("", _) => Some((option, named, None)),
            // To gcc it stands for the folder of another system's headers.
            (_, Some(_)) if dialect == Dialect::Cc => None,
            (_, Some(value)) => Some((&flag[..3], named, Some(value))),
            (joined, None) => Some((option, named, Some(joined))),
        };
    }
    None
}

/// Of those flags that name no file, whose value is the next word.
fn takes_next(flag: &str, dialect: Dialect) -> bool {
    let both = ["-D", "-U", "--param"].contains(&flag);
    let passes_on = [
        "-Xptxas",
        "--ptxas-options",
        "-Xcompiler",
        "--compiler-options",
    ];
    both || (dialect != Dialect::Cc && passes_on.contains(&flag))
}

fn is_passed_on(flag: &str) -> bool {
    let option = flag.split('=').next().unwrap_or(flag);
    ["Xcompiler", "compiler-options"].contains(&option.trim_start_matches('-'))
}

/// Words for the host's compiler, with commas between them.
fn passed_on(words: &str, place: &mut impl FnMut(Named, &str) -> String) -> String {
    let words = words
        .split(',')
        .map(|word| match spelling(word, Dialect::Cc) {
            Some((option, named, Some(value))) => format!("{option}{}", place(named, value)),
            _ => word.to_string(),
        });
    words.collect::<Vec<_>>().join(",")
}

fn each(
    value: &str,
    dialect: Dialect,
    named: Named,
    place: &mut impl FnMut(Named, &str) -> String,
) -> String {
    match dialect {
        Dialect::Nvcc => {
            let values = value.split(',').map(|value| place(named, value));
            values.collect::<Vec<_>>().join(",")
        }
        Dialect::Cc | Dialect::Nvrtc => place(named, value),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_string).collect()
    }

    /// Every name in brackets with the first letter of what it is.
    fn marked(flags: &str, dialect: Dialect) -> String {
        let mark = |named: Named, name: &str| match named {
            Named::HeaderFolder => format!("(F {name})"),
            Named::LibraryFolder => format!("(L {name})"),
            Named::Header => format!("(H {name})"),
        };
        replaced(&words(flags), dialect, mark).join(" ")
    }

    #[test]
    fn every_spelling_of_a_name_is_found() {
        for (flags, expected) in [
            ("-Ia -I b -O3", "-I(F a) -I (F b) -O3"),
            ("-isystem a -iquote b", "-isystem (F a) -iquote (F b)"),
            ("-idirafter a -Lb -L c", "-idirafter (F a) -L(L b) -L (L c)"),
            ("-include a.h -lm", "-include (H a.h) -lm"),
            // Values of others, and what only begins alike.
            ("-D I=a -U -Ia -DX=-Ib", "-D I=a -U -Ia -DX=-Ib"),
            ("--param a -I=b -include", "--param a -I=b -include"),
        ] {
            assert_eq!(marked(flags, Dialect::Cc), expected);
        }
        for (flags, expected) in [
            ("-Ia,b -I=c --fmad=true", "-I(F a,b) -I=(F c) --fmad=true"),
            ("--include-path=a", "--include-path=(F a)"),
            ("-include-path a", "-include-path (F a)"),
            ("--pre-include=a.h", "--pre-include=(H a.h)"),
            ("-Xptxas -O3 -include a.h", "-Xptxas -O3 -include (H a.h)"),
        ] {
            assert_eq!(marked(flags, Dialect::Nvrtc), expected);
        }
        assert_eq!(marked("-I a,b", Dialect::Nvcc), "-I (F a),(F b)");
        assert_eq!(
            marked(
                "-Xcompiler -Ia,-O2 --compiler-options=-Lb -I c",
                Dialect::Nvcc
            ),
            "-Xcompiler -I(F a),-O2 --compiler-options=-L(L b) -I (F c)"
        );
    }

    #[test]
    fn lists_of_one_kind() {
        let flags = words("-Ia -include b.h -isystem c -Ld");
        assert_eq!(header_folders(&flags, Dialect::Cc), ["a", "c"]);
        assert_eq!(headers(&flags, Dialect::Cc), ["b.h"]);
    }

    #[test]
    fn definitions_that_could_name_a_header() {
        let flags = words("-DA -DB=\"b.h\" -D C=<c.h> --define-macro=E=1 -Iinclude");
        assert_eq!(
            definitions(&flags),
            "#define B \"b.h\"\n#define C <c.h>\n#define E 1\n"
        );
    }

    proptest! {
        /// A name left as it is leaves the flags as they are.
        #[test]
        fn nothing_else_is_touched(
            flags in prop::collection::vec("(-I|-L|-include|-D|-isystem|--pre-include=|-Xcompiler|a|,|=|-O2){1,3}", 0..8),
        ) {
            for dialect in [Dialect::Cc, Dialect::Nvrtc, Dialect::Nvcc] {
                let same = replaced(&flags, dialect, |_, name| name.to_string());
                prop_assert_eq!(&same, &flags);
            }
        }
    }
}
