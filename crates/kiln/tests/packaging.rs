//! What is published, made from the binary under test: completions, manual pages, the release's archive, the wheel.
#![allow(clippy::unwrap_used)]

mod common;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use common::{Project, repository, text, verbs};

const BINARY: &str = env!("CARGO_BIN_EXE_kiln");

/// Runs a program that has to succeed; what it printed.
fn succeeds(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}{}",
        output.status,
        text(&output.stdout),
        text(&output.stderr)
    );
    text(&output.stdout)
}

/// Whether a program is there and does what it is asked.
fn is_there(program: impl AsRef<OsStr>, arguments: &[&str]) -> bool {
    Command::new(program)
        .args(arguments)
        .output()
        .is_ok_and(|output| output.status.success())
}

#[test]
fn bash_completes_verbs_options_and_values() {
    if !is_there("bash", &["--version"]) {
        eprintln!("skipped: no bash");
        return;
    }
    let project = Project::new();
    let completions = project.run(&["completions", "bash"]);
    assert!(completions.status.success());
    project.write("kiln.bash", &text(&completions.stdout));
    let mut bash = Command::new("bash");
    succeeds(bash.args(["-n", "kiln.bash"]).current_dir(&project.root));
    // What bash itself does at a tab: words and positions in variables, then the function.
    project.write(
        "complete.sh",
        "set -u\nsource ./kiln.bash\ncomplete -p kiln >/dev/null || exit 1\n\
         COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); COMPREPLY=()\n\
         _kiln kiln \"${COMP_WORDS[COMP_CWORD]}\" \"${COMP_WORDS[COMP_CWORD - 1]}\"\n\
         printf '%s\\n' ${COMPREPLY[@]+\"${COMPREPLY[@]}\"}\n",
    );
    let offered = |words: &[&str]| -> Vec<String> {
        let mut bash = Command::new("bash");
        bash.args(["--norc", "complete.sh"]).args(words);
        let printed = succeeds(bash.current_dir(&project.root));
        printed.split_whitespace().map(String::from).collect()
    };
    for (typed, word) in COMPLETED {
        let words: Vec<&str> = typed.split(' ').collect();
        assert_eq!(offered(&words), [word], "{typed}");
    }
    assert_eq!(offered(&["kiln", "wor"]), [""; 0]);
    let all = offered(&["kiln", ""]);
    for verb in verbs(&project, &[]).iter().filter(|verb| verb.len() == 1) {
        assert!(all.contains(&verb[0]), "`{}` is not offered", verb[0]);
    }
}

/// Lines as they are typed, and the only word that completes their last one.
const COMPLETED: [(&str, &str); 5] = [
    ("kiln tu", "tune"),
    ("kiln studies sh", "show"),
    ("kiln tune --tri", "--trials"),
    ("kiln export --to cu", "cubin"),
    ("kiln tune --strategy exh", "exhaustive"),
];

/// Presses TAB at the end of a line in an interactive zsh, and writes down what the line became.
const IN_ZSH: &str = r#"
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell "TERM=dumb; fpath=($PWD \$fpath); autoload -Uz compinit; compinit -u -D
write_down() { print -r -- \"\$BUFFER\" > $PWD/line; exit }; zle -N write_down
bindkey '^I' complete-word; bindkey '^T' write_down; print ready > $PWD/ready"
for _ in {1..300}; do [[ -s ready ]] && break; sleep 0.1; done
zpty -w -n shell "$1"$'\t\x14'
for _ in {1..300}; do [[ -s line ]] && break; sleep 0.1; done
cat line
rm -f ready line
"#;

#[test]
fn zsh_and_fish_complete_verbs_options_and_values() {
    let project = Project::new();
    project.write("complete.zsh", IN_ZSH).write(
        "complete.fish",
        "source ./kiln.fish\ncomplete -C $argv[1]\n",
    );
    for (shell, name, without_files) in [("zsh", "_kiln", "-f"), ("fish", "kiln.fish", "-N")] {
        let output = project.run(&["completions", shell]);
        assert!(output.status.success());
        project.write(name, &text(&output.stdout));
        if !is_there(shell, &["--version"]) {
            eprintln!("skipped: no {shell} to read its completions");
            continue;
        }
        let run = |arguments: &[&str]| {
            let mut command = Command::new(shell);
            let home = project.root.as_os_str();
            command.args(arguments).env("HOME", home);
            succeeds(command.current_dir(&project.root))
        };
        run(&["-n", name]);
        let script = format!("complete.{shell}");
        for (typed, word) in COMPLETED {
            let (before, _) = typed.rsplit_once(' ').unwrap();
            let made = run(&[without_files, &script, typed]);
            // zsh shows the line, fish the words that fit and what they mean.
            let expected = match shell {
                "zsh" => format!("{before} {word}"),
                _ => word.to_string(),
            };
            let found = made.trim_end().split('\t').next().unwrap();
            assert_eq!(found.trim_end_matches('='), expected, "{shell}: {typed}");
            assert_eq!(made.lines().count(), 1, "{shell}: {typed}: {made}");
        }
        let hidden = run(&[without_files, &script, "kiln wor"]);
        assert!(!hidden.contains("worker"), "{shell}: {hidden}");
    }
    let unknown = project.run(&["completions", "tcsh"]);
    assert_eq!(unknown.status.code(), Some(2));
    let said = text(&unknown.stderr);
    assert!(said.contains("bash") && said.contains("fish"), "{said}");
}

/// A roff page as plain words: fonts, escaped hyphens and quotes undone.
fn plain(roff: &str) -> String {
    ["\\fB", "\\fI", "\\fR", "\\&"]
        .iter()
        .fold(roff.to_string(), |text, font| text.replace(font, ""))
        .replace("\\-", "-")
        .replace("\\*(Aq", "'")
}

/// The part of a page or a help under a heading, up to the next one.
fn part<'t>(text: &'t str, heading: &str, next: &str) -> &'t str {
    let (_, rest) = text.split_once(heading).expect(heading);
    rest.split_once(next).map_or(rest, |(part, _)| part)
}

#[test]
fn manual_pages_say_what_help_says() {
    let project = Project::new();
    let written = project.run(&["man", "--out", "share/man1"]);
    assert!(written.status.success(), "{}", text(&written.stderr));
    assert_eq!(text(&written.stdout), "share/man1\n");
    let folder = project.root.join("share/man1");
    let verbs = verbs(&project, &[]);
    assert_eq!(fs::read_dir(&folder).unwrap().count(), verbs.len());
    for verb in &verbs {
        let name = [&["kiln".to_string()], &verb[..]].concat();
        let page = fs::read_to_string(folder.join(name.join("-") + ".1")).unwrap();
        let page = plain(&page);
        let mut arguments: Vec<&str> = verb.iter().map(String::as_str).collect();
        let printed = project.run(&[&["man"], &arguments[..]].concat());
        assert_eq!(plain(&text(&printed.stdout)), page);
        arguments.push("--help");
        let help = text(&project.run(&arguments).stdout);
        // Options are named with their values, examples and exit codes are there word for word.
        let options = part(&help, "Options:\n", "\n\n").lines();
        for option in options
            .map(str::trim)
            .filter(|line| line.starts_with('-'))
            .flat_map(|line| line.split([' ', ',', '[', '=']))
            .filter(|word| word.starts_with("--"))
        {
            assert!(page.contains(option), "{name:?} lacks {option}");
        }
        for example in part(&help, "Example:\n", "\n\n").lines() {
            let section = part(&page, ".SH EXAMPLES\n", ".SH");
            assert!(section.contains(example.trim()), "{name:?} lacks {example}");
        }
        let codes = part(&page, ".SH \"EXIT STATUS\"\n", ".SH");
        assert!(codes.contains("\n0\n"), "{name:?}: {codes}");
        // Help breaks long lines, a page has its own marks between them.
        let words = |text: &str| -> String {
            let words = text
                .split_whitespace()
                .filter(|word| !word.starts_with(".TP"));
            words.collect::<Vec<_>>().join(" ")
        };
        if let Some((_, listed)) = help.split_once("Exit codes") {
            let (_, listed) = listed.split_once('\n').unwrap();
            let listed = words(part(listed, "", "\n\n"));
            assert!(words(codes).contains(&listed), "{name:?} lacks {listed:?}");
        }
    }
    let first = plain(&fs::read_to_string(folder.join("kiln.1")).unwrap());
    assert!(part(&first, ".SH ENVIRONMENT\n", ".SH").contains("KILN_HOME"));

    let unknown = project.run(&["man", "tunes"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(
        text(&unknown.stderr).contains("did you mean `kiln tune`?"),
        "{}",
        text(&unknown.stderr)
    );

    if !is_there("groff", &["--version"]) {
        eprintln!("skipped: no groff to set the pages");
        return;
    }
    let pages = fs::read_dir(&folder).unwrap().flatten().map(|e| e.path());
    let mut groff = Command::new("groff");
    let output = groff
        .args(["-k", "-man", "-ww", "-z", "-Tutf8"])
        .args(pages)
        .output()
        .unwrap();
    assert_eq!(text(&output.stderr), "", "groff warns");
}

fn check_binary(arguments: &[&OsStr]) -> Output {
    Command::new(repository().join("packaging/check-binary.sh"))
        .args(arguments)
        .output()
        .unwrap()
}

#[test]
fn a_binary_for_others_needs_glibc_and_nothing_else() {
    let good = check_binary(&[BINARY.as_ref()]);
    assert!(good.status.success(), "{}", text(&good.stderr));
    let version = text(&good.stdout);
    assert!(version.starts_with("2."), "{version}");

    let too_new = check_binary(&[BINARY.as_ref(), "2.2".as_ref()]);
    let said = text(&too_new.stderr);
    assert_eq!(too_new.status.code(), Some(1));
    assert!(
        said.contains("newer than 2.2") && said.contains("hint:"),
        "{said}"
    );

    let project = Project::new();
    project
        .write("extra.c", "int extra(void) { return 0; }\n")
        .write(
            "main.c",
            "int extra(void); int main(void) { return extra(); }\n",
        );
    let compile = |arguments: &[&str]| {
        succeeds(
            Command::new("cc")
                .args(arguments)
                .current_dir(&project.root),
        )
    };
    compile(&["-shared", "-fPIC", "extra.c", "-o", "libextra.so"]);
    compile(&[
        "main.c",
        "-L.",
        "-lextra",
        "-Wl,-rpath,$ORIGIN",
        "-o",
        "program",
    ]);
    let extra = check_binary(&[project.root.join("program").as_ref()]);
    assert_eq!(extra.status.code(), Some(1));
    let said = text(&extra.stderr);
    assert!(said.contains("needs libextra.so"), "{said}");
    let none = check_binary(&[project.root.join("main.c").as_ref()]);
    assert_eq!(none.status.code(), Some(1));
}

/// A virtual environment and the pip to fill it, or why there is none.
fn environment(folder: &Path) -> Result<(PathBuf, Command), String> {
    let venv = folder.join("venv");
    // Without a pip of its own, which would take ten times as long: any newer pip can install into it.
    let mut python = Command::new("python3");
    python.args(["-m", "venv", "--without-pip"]).arg(&venv);
    let made = python.output().map_err(|e| format!("no python3: {e}"))?;
    if !made.status.success() {
        return Err(format!(
            "no venv: {}{}",
            text(&made.stdout),
            text(&made.stderr)
        ));
    }
    let inside = venv.join("bin/python");
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "--python"]).arg(&inside);
    let works = Command::new("python3")
        .args(["-m", "pip", "--python"])
        .arg(&inside)
        .arg("--version")
        .output();
    match works {
        Ok(output) if output.status.success() => Ok((venv, pip)),
        _ => Err("no pip of version 22.3 or newer".into()),
    }
}

#[test]
fn release_and_wheel_hold_a_kiln_that_tunes() {
    let project = Project::with_quick_kernel();
    let folder = tempfile::tempdir().unwrap();
    let environment = environment(folder.path());
    let glibc = text(&check_binary(&[BINARY.as_ref()]).stdout);
    let release = |out: &Path| {
        let mut script = Command::new(repository().join("packaging/release.sh"));
        script
            .args(["--binary", BINARY, "--max-glibc", glibc.trim(), "--out"])
            .arg(out)
            .args(environment.is_ok().then_some("--wheel"));
        succeeds(&mut script)
    };
    let (first, second) = (folder.path().join("first"), folder.path().join("second"));
    // The same binary gives the same archives, byte for byte.
    std::thread::scope(|scope| {
        let other = scope.spawn(|| release(&second));
        release(&first);
        other.join().unwrap();
    });
    let sums = fs::read_to_string(first.join("SHA256SUMS")).unwrap();
    assert_eq!(sums, fs::read_to_string(second.join("SHA256SUMS")).unwrap());
    let sha256sum = |folder: &Path| {
        succeeds(
            Command::new("sha256sum")
                .args(["--check", "--quiet", "SHA256SUMS"])
                .current_dir(folder),
        )
    };
    sha256sum(&first);

    let name = sums.split_whitespace().nth(1).unwrap();
    assert!(name.ends_with("-linux.tar.gz"), "{name}");
    let mut tar = Command::new("tar");
    succeeds(
        tar.arg("-xzf")
            .arg(first.join(name))
            .current_dir(folder.path()),
    );
    let unpacked = folder.path().join(name.trim_end_matches(".tar.gz"));
    sha256sum(&unpacked);
    for file in [
        "bin/kiln",
        "README.md",
        "LICENSE-MIT",
        "LICENSE-APACHE",
        "THIRD-PARTY.txt",
        "docs/install.md",
        "share/man/man1/kiln-tune.1",
        "share/bash-completion/completions/kiln",
        "share/zsh/site-functions/_kiln",
        "share/fish/vendor_completions.d/kiln.fish",
    ] {
        let facts = fs::metadata(unpacked.join(file));
        assert!(facts.is_ok_and(|f| f.is_file() && f.len() > 500), "{file}");
    }
    // The binary may be of another commit than the checkout that packs it.
    let build = fs::read_to_string(unpacked.join("BUILD.txt")).unwrap();
    let first_line = build.lines().next().unwrap();
    assert!(first_line.ends_with(", commit not known"), "{build}");
    let third_party = fs::read_to_string(unpacked.join("THIRD-PARTY.txt")).unwrap();
    assert!(
        third_party.contains("rusqlite") && third_party.contains("Permission is hereby granted")
    );
    assert!(
        succeeds(Command::new(unpacked.join("bin/kiln")).arg("--version")).starts_with("kiln 0.")
    );

    let (venv, mut pip) = match environment {
        Ok(found) => found,
        Err(why) => {
            eprintln!("skipped: {why}, so no wheel is installed");
            return;
        }
    };
    let wheel = sums.split_whitespace().nth(3).expect("a wheel");
    let tag = format!("-py3-none-manylinux_{}_", glibc.trim().replace('.', "_"));
    assert!(
        wheel.starts_with("kiln_tuner-") && wheel.contains(&tag),
        "{wheel}"
    );
    pip.args(["install", "--no-index", "--disable-pip-version-check"])
        .arg(first.join(wheel));
    succeeds(&mut pip);
    let installed = venv.join("bin/kiln");
    assert_eq!(
        fs::read(&installed).unwrap(),
        fs::read(unpacked.join("bin/kiln")).unwrap()
    );
    assert!(venv.join("share/man/man1/kiln.1").is_file());
    let tuned = Command::new(&installed)
        .args(["tune", "--json"])
        .current_dir(&project.root)
        .env("KILN_HOME", &project.home)
        .output()
        .unwrap();
    assert!(
        tuned.status.code().is_some_and(|c| [0, 1, 4].contains(&c)),
        "{}",
        text(&tuned.stderr)
    );
    let document: serde_json::Value = serde_json::from_slice(&tuned.stdout).unwrap();
    assert!(document["verdict"].is_string(), "{document:#}");
    // pip knows all it wrote, and takes it away again.
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "--python"])
        .arg(venv.join("bin/python"))
        .args(["uninstall", "--yes", "kiln-tuner"]);
    succeeds(&mut pip);
    assert!(!installed.exists() && !venv.join("share/man/man1/kiln.1").exists());
}
