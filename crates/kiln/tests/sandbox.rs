//! Real attacks by kernels, compilers and manifests: each is refused and named, nothing outside is
//! touched, honest kernels do not notice, and where walls are missing the verdict says so.
#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use common::{Project, text};
use serde_json::Value;

/// A folder beside the project with a file nobody may touch.
fn attacked() -> (Project, PathBuf) {
    let project = Project::with("crates/kiln/tests/sandbox");
    let outside = project.home.parent().unwrap().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("secret"), "int swordfish;\n").unwrap();
    project.replace("kiln.toml", "@outside@", &outside.display().to_string());
    project.replace(
        "kiln.toml",
        "@project@",
        &project.root.display().to_string(),
    );
    project.replace("kiln.toml", "@cache@", &project.home.display().to_string());
    (project, outside)
}

fn only(project: &Project, attacks: &str) {
    let manifest = fs::read_to_string(project.root.join("kiln.toml")).unwrap();
    let start = manifest.find("ATTACK = [").unwrap();
    let end = start + manifest[start..].find("]\n").unwrap() + 2;
    let manifest = format!(
        "{}ATTACK = [{attacks}]\n{}",
        &manifest[..start],
        &manifest[end..]
    );
    fs::write(project.root.join("kiln.toml"), manifest).unwrap();
}

fn is_untouched(outside: &Path) {
    let names: Vec<String> = fs::read_dir(outside)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(names, ["secret"]);
    let secret = outside.join("secret");
    assert_eq!(fs::read_to_string(&secret).unwrap(), "int swordfish;\n");
    assert_ne!(fs::metadata(&secret).unwrap().mode() & 0o777, 0o777);
}

/// Whether this machine's kernel has all that is needed; where it has not, the tests that look at
/// the walls say so and pass.
fn has_all_walls(project: &Project) -> bool {
    let output = project.run(&["doctor", "--json"]);
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let checks = document["checks"].as_array().unwrap();
    let sandbox = checks.iter().find(|c| c["check"] == "sandbox").unwrap();
    let whole = sandbox["status"] == "ok";
    if !whole {
        eprintln!("skipped: {}", sandbox["what"]);
    }
    whole
}

/// How each attack ends: a refused file is an error the kernel sees and survives, a refused call is
/// the end of the trial.
fn expected(attack: &str) -> &'static str {
    match attack {
        "opens_socket" | "opens_local_socket" => "forbidden socket",
        "forks" | "forks_and_execs" => "forbidden clone",
        // With signals blocked, so that nothing can say which call it was.
        "spawns" | "runs_shell" => "forbidden ",
        "execs" => "forbidden execve",
        "traces_parent" => "forbidden ptrace",
        "reads_parent" => "forbidden process_vm_readv",
        "new_namespaces" => "forbidden unshare",
        "uses_io_uring" => "forbidden io_uring_setup",
        "changes_rights" => "forbidden chmod",
        "sets_times" => "forbidden utimensat",
        "loads_bpf" => "forbidden bpf",
        "uses_keys" => "forbidden keyctl",
        "limits_parent" => "forbidden prlimit64",
        "changes_rights_anew" => "forbidden fchmodat2",
        _ => "measured",
    }
}

fn ending(trial: &Value) -> String {
    let outcome = &trial["outcome"];
    let word = |value: &Value| value.as_str().unwrap_or_default().to_string();
    match &outcome["cause"]["call"] {
        Value::Null => word(&outcome["kind"]),
        call => format!("{} {}", word(&outcome["cause"]["cause"]), word(call)),
    }
}

#[test]
fn every_attack_is_refused_and_honest_kernels_do_not_notice() {
    let (project, outside) = attacked();
    if !has_all_walls(&project) {
        return;
    }
    let at_home = PathBuf::from(std::env::var_os("HOME").unwrap()).join(".kiln-test-written");
    let trials = project.trials(&["tune", "--events", "--seed", "1"], &[0, 1, 4]);
    assert_eq!(trials.len(), 76);
    for trial in &trials {
        let attack = trial["config"][0][1].as_str().unwrap();
        // Not every architecture has `chmod`.
        let ending = match ending(trial) {
            old if old == "forbidden fchmodat" => "forbidden chmod".to_string(),
            ending => ending,
        };
        assert_eq!(ending, expected(attack), "{attack}: {trial:#}");
        if expected(attack) != "measured" {
            let phase = match trial["config"][1][1] == 1 {
                true => "load",
                false => "check",
            };
            assert_eq!(trial["outcome"]["phase"], phase, "{attack}");
        }
    }
    is_untouched(&outside);
    for path in [project.root.join("written"), at_home] {
        assert!(!path.exists(), "{}", path.display());
    }
    // A study with hostile kernels among honest ones ends as usual and says nothing of a sandbox.
    let shown = project.run(&["studies", "show"]);
    let shown = text(&shown.stdout);
    assert!(!shown.contains("not sandboxed"), "{shown}");
    assert!(
        shown.contains("called `socket` during the correctness check"),
        "{shown}"
    );
    let document = project.json(&["studies", "show", "--json"], &[0]);
    let enforced = document["sandbox"]["enforced"].as_array().unwrap();
    assert_eq!(enforced.len(), 7, "{document:#}");
}

#[test]
fn openmp_kernels_work() {
    let (project, _) = attacked();
    only(&project, "\"honest\"");
    project
        .replace("kiln.toml", "\"-pthread\",", "\"-fopenmp\",")
        .replace(
            "kernel.c",
            "    for (int i = 0; i < n; i++) y[i] = 2.0f",
            "#pragma omp parallel for\n    for (int i = 0; i < n; i++) y[i] = 2.0f",
        );
    let trials = project.trials(&["tune", "--events"], &[0, 1, 4]);
    assert!(trials.iter().all(|trial| ending(trial) == "measured"));
    assert_eq!(trials.len(), 2);
}

#[test]
fn without_a_sandbox_the_verdict_says_so() {
    let (project, _) = attacked();
    only(&project, "\"honest\", \"forks\"");
    let output = project.run(&["tune", "--no-sandbox"]);
    let (shown, said) = (text(&output.stdout), text(&output.stderr));
    let words = "not sandboxed: switched off (--no-sandbox)";
    assert!(shown.contains(words), "{shown}");
    assert!(said.contains(words), "{said}");
    let document = project.json(&["studies", "show", "--json"], &[0]);
    assert_eq!(document["sandbox"]["enforced"], serde_json::json!([]));
    assert!(document["notes"].to_string().contains(words));
    assert_eq!(document["rejected"]["left_processes"], 2, "{document:#}");
}

/// Runs kiln on a kernel of Linux that answers some system calls differently: a small program
/// installs a filter and becomes kiln.
fn on_another_kernel(project: &Project, call: &str, answer: &str, arguments: &[&str]) -> Output {
    project.write(
        "other-kernel.c",
        &format!(
            "#include <linux/filter.h>\n#include <linux/seccomp.h>\n#include <errno.h>\n\
             #include <sys/prctl.h>\n#include <sys/syscall.h>\n#include <unistd.h>\n\
             int main(int n, char **a) {{\n\
             struct sock_filter f[] = {{ BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),\n\
             BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, {call}, 0, 1),\n\
             BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | {answer}),\n\
             BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW) }};\n\
             struct sock_fprog p = {{ 4, f }};\n\
             prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);\n\
             if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &p)) return 99;\n\
             execv(a[1], a + 1); return 98; }}\n"
        ),
    );
    let program = project.root.join("other-kernel");
    let built = Command::new("cc")
        .arg("-o")
        .arg(&program)
        .arg(project.root.join("other-kernel.c"))
        .status()
        .unwrap();
    assert!(built.success());
    let plain = project.command(arguments);
    Command::new(program)
        .arg(plain.get_program())
        .args(plain.get_args())
        .current_dir(&project.root)
        .env("KILN_HOME", &project.home)
        .env_remove("KILN_CC")
        .output()
        .unwrap()
}

#[test]
fn a_system_without_landlock_runs_and_says_what_is_open() {
    let (project, _) = attacked();
    only(&project, "\"honest\", \"opens_socket\"");
    let arguments = ["tune", "--json"];
    let output = on_another_kernel(
        &project,
        "__NR_landlock_create_ruleset",
        "ENOSYS",
        &arguments,
    );
    let said = text(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 1 | 4)), "{said}");
    let words = "not sandboxed against writing files, reading files, signals to other processes (Linux without Landlock";
    assert!(said.contains(words), "{said}");
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(
        document["notes"].to_string().contains(words),
        "{document:#}"
    );
    // What does not need Landlock still holds.
    assert_eq!(document["rejected"]["forbidden"], 2, "{document:#}");
}

#[test]
fn walls_that_are_accepted_and_do_not_hold_are_an_error() {
    let (project, _) = attacked();
    if !has_all_walls(&project) {
        return;
    }
    // The rules are taken, and nothing is enforced.
    let output = on_another_kernel(&project, "__NR_landlock_restrict_self", "0", &["tune"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("a worker's sandbox does not hold"), "{said}");
    assert!(said.contains("writing files"), "{said}");
    let output = on_another_kernel(&project, "__NR_seccomp", "0", &["tune"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("the network"), "{said}");
}

#[test]
fn compilers_read_and_write_only_what_is_theirs() {
    let (project, outside) = attacked();
    if !has_all_walls(&project) {
        return;
    }
    only(&project, "\"honest\"");
    let secret = outside.join("secret").display().to_string();
    for line in [
        format!("#include \"{secret}\"\n"),
        "#include \"/etc/passwd\"\n".to_string(),
        format!("__asm__(\".incbin \\\"{secret}\\\"\");\n"),
        format!(
            "#ifdef __has_embed\nchar stolen[] = {{\n#embed \"{secret}\"\n}};\n#else\n#error no\n#endif\n"
        ),
    ] {
        let (project, _) = attacked();
        only(&project, "\"honest\"");
        let kernel = fs::read_to_string(project.root.join("kernel.c")).unwrap();
        project.write("kernel.c", &format!("{line}{kernel}"));
        let trials = project.trials(&["tune", "--events"], &[1]);
        for trial in &trials {
            assert_eq!(ending(trial), "not_compiled", "{line}");
            let all = trial.to_string();
            assert!(
                !all.contains("swordfish") && !all.contains("root:"),
                "{all}"
            );
        }
    }
    project.write(
        "writing-cc",
        &format!(
            "#!/bin/sh\ncase \"$*\" in *--version*) echo writing-cc 1; exit 0;; esac\n\
             (echo x > '{0}/written') 2>/dev/null\n(echo x >> '{secret}') 2>/dev/null\n\
             (cat '{secret}' > \"$TMPDIR/stolen\") 2>/dev/null && rm -f \"$TMPDIR/stolen\" && exit 1\n\
             exec cc \"$@\"\n",
            outside.display()
        ),
    );
    let compiler = project.root.join("writing-cc");
    fs::set_permissions(&compiler, fs::Permissions::from_mode(0o755)).unwrap();
    let output = project
        .command(&["tune", "--json"])
        .env("KILN_CC", &compiler)
        .output()
        .unwrap();
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["candidates_found"], 2, "{document:#}");
    is_untouched(&outside);
}

/// The compiler that is a library: it reads what it is to compile, and no more.
#[test]
fn nvrtc_reads_only_what_is_its_own() {
    let mut project = Project::with("kernels/vector_add");
    let Some(cuda) = common::cuda() else { return };
    project.cuda = Some(cuda);
    if !has_all_walls(&project) {
        return;
    }
    let manifest = ["kiln.cuda.toml", "kiln.toml"]
        .into_iter()
        .find(|name| {
            let text = fs::read_to_string(project.root.join(name)).unwrap_or_default();
            text.contains(".cu\"")
        })
        .expect("vector_add has a CUDA manifest");
    let check = |project: &Project| {
        let output = project.run(&["check", manifest, "--compile", "--limit", "1"]);
        let all = text(&output.stdout) + &text(&output.stderr);
        (output.status.code(), all)
    };
    let honest = check(&project);
    assert_eq!(honest.0, Some(0), "{}", honest.1);
    let source = fs::read_dir(&project.root)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_some_and(|e| e == "cu"))
        .unwrap();
    let kernel = fs::read_to_string(&source).unwrap();
    fs::write(&source, format!("#include \"/etc/passwd\"\n{kernel}")).unwrap();
    let (code, all) = check(&project);
    assert_ne!(code, Some(0), "{all}");
    assert!(
        all.contains("cannot open source file \"/etc/passwd\""),
        "{all}"
    );
    assert!(!all.contains("root:"), "{all}");
}

#[test]
fn no_escape_reaches_the_terminal() {
    let (project, _) = attacked();
    only(&project, "\"honest\"");
    let clean = |output: &Output, what: &str| {
        for bytes in [&output.stdout, &output.stderr] {
            let shown = text(bytes);
            let bad = shown.chars().find(|c| c.is_control() && *c != '\n');
            assert_eq!(bad, None, "{what}: {shown:?}");
        }
    };
    // In the kernel's name, and in the text of a tunable.
    let name = "name = \"\\u001b[2J\\u009b31m\\u0007evil\"";
    project.replace("kiln.toml", "name = \"sandbox\"", name);
    let output = project.run(&["tune"]);
    assert!(text(&output.stderr).contains("evil"));
    clean(&output, "a name");
    project.replace("kiln.toml", name, "name = \"sandbox\"");
    only(&project, "\"honest /*\\u001b[2J\\u009b31m\\u0007evil*/\"");
    for arguments in [&["tune"][..], &["check", "--compile"], &["space"]] {
        let output = project.run(arguments);
        let all = text(&output.stdout) + &text(&output.stderr);
        assert!(all.contains("evil"), "{arguments:?}: {all}");
        clean(&output, "a value");
    }
    only(&project, "\"honest\"");
    // In what a compiler says.
    let kernel = fs::read_to_string(project.root.join("kernel.c")).unwrap();
    project.write(
        "kernel.c",
        &format!("#error \u{1b}]0;pwned\u{7} \u{9b}2J\n{kernel}"),
    );
    for arguments in [&["tune"][..], &["check", "--compile"], &["studies", "show"]] {
        let output = project.run(arguments);
        let all = text(&output.stdout) + &text(&output.stderr);
        assert!(all.contains("pwned"), "{arguments:?}: {all}");
        clean(&output, "a compiler's message");
    }
    // In what Python says, and in the file's own name.
    project.write(
        "refer\u{1b}[31mence.py",
        "raise ValueError('\\x1b]0;pwned\\x07 \\x9b2J')\ndef reference(**all): pass\n",
    );
    project.write("kernel.c", &kernel);
    project.replace(
        "kiln.toml",
        "c = \"reference.c:reference\"",
        "python = \"refer\\u001b[31mence.py:reference\"",
    );
    let output = project.run(&["tune", "--fresh"]);
    assert_ne!(output.status.code(), Some(0));
    clean(&output, "Python's message");
}

#[test]
fn folders_that_others_can_change_or_that_are_links_are_refused() {
    let (project, outside) = attacked();
    only(&project, "\"honest\"");
    let tune = |project: &Project| {
        let output = project.run(&["tune"]);
        (output.status.code(), text(&output.stderr))
    };
    let set = |path: &Path, mode: u32| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    // Made by kiln: nobody else's business.
    assert!(matches!(tune(&project).0, Some(0 | 1 | 4)));
    let kiln = project.root.join(".kiln");
    for folder in [&project.home, &project.home.join("images-2/images"), &kiln] {
        assert_eq!(fs::metadata(folder).unwrap().mode() & 0o777, 0o700);
    }
    // Readable by others is the user's choice; writable is not.
    set(&kiln, 0o755);
    assert!(matches!(tune(&project).0, Some(0 | 1 | 4)));
    for folder in [&project.home, &project.home.join("images-2/images"), &kiln] {
        set(folder, 0o770);
        let (code, said) = tune(&project);
        assert_eq!(code, Some(3), "{said}");
        assert!(
            said.contains("writable by others") && said.contains("chmod go-w"),
            "{said}"
        );
        set(folder, 0o700);
    }
    // A project may bring links.
    let target = outside.join("secret");
    for name in ["tune.lock", "kiln.db"] {
        let path = kiln.join(name);
        fs::remove_file(&path).unwrap();
        symlink(&target, &path).unwrap();
        let (code, said) = tune(&project);
        assert_eq!(code, Some(3), "{said}");
        assert!(said.contains("does not write through links"), "{said}");
        fs::remove_file(&path).unwrap();
        fs::write(&path, "").unwrap();
    }
    fs::remove_file(kiln.join(".gitignore")).unwrap();
    symlink(outside.join("ignored"), kiln.join(".gitignore")).unwrap();
    tune(&project);
    fs::remove_dir_all(&kiln).unwrap();
    symlink(&outside, &kiln).unwrap();
    let (code, said) = tune(&project);
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("is a link to"), "{said}");
    is_untouched(&outside);
}
