//! What a user reads when something is wrong: what, where, what next, and the right exit code.
#![allow(clippy::unwrap_used)]

mod common;

use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt;

use common::{Project, text};

/// A small project that works; each case breaks one thing.
fn project() -> Project {
    Project::with("crates/kiln/tests/faults")
}

struct Story(String);

impl Story {
    /// Runs kiln and notes exit code and message, with what differs between machines replaced.
    fn tell(&mut self, title: &str, project: &Project, arguments: &[&str]) {
        self.tell_with(title, project, arguments, &[]);
    }

    fn tell_with(
        &mut self,
        title: &str,
        project: &Project,
        arguments: &[&str],
        env: &[(&str, &str)],
    ) {
        let output = project
            .command(arguments)
            .envs(env.iter().copied())
            .output()
            .unwrap();
        let said = text(&output.stderr);
        assert!(!said.contains("panicked"), "{title}: {said}");
        let code = output.status.code();
        assert!(code.is_some_and(|c| c != 0), "{title} passed: {said}");
        let root = project.root.display().to_string();
        let home = project.home.display().to_string();
        let folder = project.root.parent().unwrap().display().to_string();
        let said = said
            .lines()
            // Progress before the error is not the subject.
            .filter(|l| !l.contains(" configs are valid") && *l != "measuring the baseline")
            .map(|l| {
                l.replace(&root, "PROJECT")
                    .replace(&home, "HOME")
                    .replace(&folder, "FOLDER")
            })
            .collect::<Vec<_>>()
            .join("\n");
        let _ = write!(
            self.0,
            "## {title}\n$ kiln {}\n{said}\nexit {}\n\n",
            arguments.join(" "),
            code.unwrap()
        );
    }
}

#[test]
fn mistakes_are_told_with_place_and_next_step() {
    let mut story = Story(String::new());

    story.tell("no such path", &project(), &["check", "nowhere"]);

    let empty = Project::new();
    empty.write("folder/readme", "");
    story.tell("a folder without a manifest", &empty, &["check", "folder"]);

    story.tell(
        "a source file instead of a manifest",
        &project(),
        &["tune", "kernel.c"],
    );

    let p = project();
    p.replace(
        "kiln.toml",
        "source = \"kernel.c\"",
        "source = \"kernle.c\"",
    );
    story.tell("the source is missing", &p, &["check"]);

    let p = project();
    p.replace("kiln.toml", "\"reference.c:", "\"refrence.c:")
        .replace("kiln.toml", "\"baseline.c:", "\"base.c:");
    story.tell("two files are missing", &p, &["check"]);

    let p = Project::new();
    let source = "__global__ void scale(float *y, int n) { y[threadIdx.x] = n; }\n";
    p.write("scale.cu", source);
    assert!(p.run(&["init", "scale.cu"]).status.success());
    story.tell("the first check after init", &p, &["check"]);

    let p = project();
    p.write("../outside.c", "")
        .replace("kiln.toml", "\"kernel.c\"", "\"../outside.c\"");
    story.tell("the source lies outside the project", &p, &["check"]);

    let p = project();
    p.write("../outside.c", "")
        .replace("kiln.toml", "\"kernel.c\"", "\"link.c\"");
    std::os::unix::fs::symlink("../outside.c", p.root.join("link.c")).unwrap();
    story.tell("a link leads outside the project", &p, &["check"]);

    let p = project();
    p.replace(
        "kiln.toml",
        "[shapes.tiny]",
        "[shapes.tiney]\nM = 3\n[shapes.tiny]",
    );
    story.tell("two mistakes at once", &p, &["check"]);

    let p = project();
    p.replace(
        "kiln.toml",
        "[shapes.target]",
        "[constraints]\nnone = \"N < 0\"\n[shapes.target]",
    );
    story.tell("no config is left", &p, &["tune"]);

    let p = project();
    p.replace("kiln.toml", "[baseline]\nc = \"baseline.c:baseline\"", "");
    story.tell("no baseline", &p, &["tune"]);

    let p = project();
    p.replace("kiln.toml", "baseline.c:baseline", "baseline.c:base_line");
    story.tell("the baseline's function is missing", &p, &["tune"]);

    let p = project();
    p.replace("kiln.toml", "entry = \"kernel\"", "entry = \"kernal\"");
    story.tell("the entry is misspelt", &p, &["check"]);

    let p = project();
    p.replace("reference.c", "y[i] =", "y[i - 5000000] =");
    story.tell("the reference writes outside its buffers", &p, &["tune"]);

    let p = project();
    p.replace("reference.c", "2.0 * x[i] + 1.0", "0.0 / 0.0");
    story.tell("the reference gives NaN", &p, &["tune"]);

    let p = project();
    p.replace("reference.c", "2.0 * x[i] + 1.0", "0.0");
    story.tell("the reference gives zeros", &p, &["tune"]);

    let p = project();
    p.replace(
        "kiln.toml",
        "x = { dtype = \"f32\", shape = [\"N\"] }",
        "x = { dtype = \"f32\", shape = [\"N\"], file = \"x_{shape}.npy\" }",
    );
    story.tell("an input file is missing", &p, &["tune"]);

    let p = project();
    p.write("x.npy", "not an array");
    p.replace(
        "kiln.toml",
        "x = { dtype = \"f32\", shape = [\"N\"] }",
        "x = { dtype = \"f32\", shape = [\"N\"], file = \"x.npy\" }",
    );
    story.tell("an input file is not an array", &p, &["tune"]);

    story.tell(
        "an unknown strategy",
        &project(),
        &["tune", "--strategy", "tpee"],
    );
    story.tell("no trials", &project(), &["tune", "--trials", "0"]);
    story.tell("an unknown option", &project(), &["tune", "--trails", "3"]);
    story.tell_with(
        "no compiler",
        &project(),
        &["tune"],
        &[("KILN_CC", "/nowhere/cc")],
    );
    story.tell_with(
        "a bad cache size",
        &project(),
        &["cache", "stats"],
        &[("KILN_CACHE_BYTES", "lots")],
    );

    let p = project();
    std::fs::create_dir_all(&p.home).unwrap();
    std::fs::set_permissions(&p.home, std::fs::Permissions::from_mode(0o777)).unwrap();
    story.tell("the cache folder is open to all", &p, &["tune"]);

    let p = project();
    p.write(
        ".kiln/kiln.db",
        "this is not a database, whatever its name says; it is long enough to look",
    );
    story.tell("the store is not a store", &p, &["studies", "list"]);

    let p = project();
    p.write(".kiln/.keep", "");
    rusqlite::Connection::open(p.root.join(".kiln/kiln.db"))
        .and_then(|c| c.pragma_update(None, "user_version", 99))
        .unwrap();
    story.tell("the store is from a newer kiln", &p, &["studies", "list"]);

    story.tell("no study yet", &project(), &["studies", "show"]);
    let p = project();
    p.run(&["tune", "--trials", "1"]);
    story.tell("no such study", &p, &["studies", "show", "7"]);

    story.tell(
        "a manifest is there already",
        &project(),
        &["init", "kernel.c"],
    );
    story.tell("init on something else", &project(), &["init", "kiln.toml"]);
    story.tell("init on nothing", &project(), &["init", "nothing.c"]);

    let p = Project::with("kernels/vector_add");
    story.tell(
        "an unknown architecture",
        &p,
        &["check", "kiln.cuda.toml", "--arch", "sm_999"],
    );

    insta::assert_snapshot!("mistakes", story.0);
}

/// Compilers word these differently, so only what kiln adds is looked at.
#[test]
fn the_compiler_checks_signatures() {
    let p = project();
    p.replace("reference.c", "double *y", "float *y");
    let output = p.run(&["tune"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("error: the reference does not compile: "),
        "{said}"
    );
    assert!(
        said.contains("hint: the reference takes the kernel's parameters with `double`"),
        "{said}"
    );
}

#[test]
fn a_full_disk_stops_with_a_clear_error_and_loses_nothing() {
    let project = project();
    let small = project.root.join("small");
    std::fs::create_dir_all(&small).unwrap();
    let mounted = std::process::Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=192k", "tmpfs"])
        .arg(&small)
        .output();
    if !mounted.is_ok_and(|o| o.status.success()) {
        println!("skipped: cannot mount a small file system here");
        return;
    }
    let output = project
        .command(&["tune", "--trials", "30"])
        .env("KILN_HOME", small.join("home"))
        .output()
        .unwrap();
    let said = text(&output.stderr);
    let list = project.json(&["studies", "list", "--json"], &[0]);
    let _ = std::process::Command::new("umount").arg(&small).status();
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("space"), "{said}");
    assert_eq!(list["studies"].as_array().unwrap().len(), 1);
    // With room again the study goes on.
    let output = project.run(&["tune", "--trials", "3", "--json"]);
    assert!(matches!(output.status.code(), Some(0 | 1 | 4)));
}

/// Nobody reads from the start, so the very first write meets a closed pipe.
#[test]
fn a_closed_pipe_is_not_an_error() {
    let project = project();
    let mut child = project
        .command(&["schema"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(text(&output.stderr), "");
    assert_eq!(output.status.code(), Some(0));
}

/// A kernel without tunables has one config, and nothing to show of it.
#[test]
fn an_example_without_values_is_left_out() {
    let project = Project::with("kernels/vector_add");
    let manifest = std::fs::read_to_string(project.root.join("kiln.toml")).unwrap();
    let (before, rest) = manifest.split_once("[tunables]").unwrap();
    let (_, after) = rest.split_once("[shapes.target]").unwrap();
    let none = "[constraints]\nnever = \"N < 0\"\n\n[shapes.target]";
    project.write("kiln.toml", &format!("{before}{none}{after}"));
    let output = project.run(&["check", "--explain"]);
    let told = text(&output.stdout);
    assert!(told.contains("1 rejected by constraint `never`"), "{told}");
    assert!(!told.contains("e.g."), "{told}");
}

/// A folder in the place of a study says where to look, not which one.
#[test]
fn a_folder_is_no_study() {
    let project = project();
    for verb in [&["report"][..], &["explain"], &["export", "--to", "json"]] {
        let output = project.run(&[verb, &["."]].concat());
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{verb:?}: {said}");
        assert!(said.contains("a study is named by its number"), "{said}");
        assert!(said.contains("`--project .`"), "{said}");
    }
    let output = project.run(&["explain", "nowhere"]);
    let said = text(&output.stderr);
    assert!(said.contains("`kiln studies list`"), "{said}");
}

#[test]
fn a_gpu_may_be_called_by_the_name_it_is_sold_under() {
    let project = Project::with("kernels/attention");
    for (product, architecture) in [("h100", "sm_90"), ("a100", "sm_80"), ("rtx4090", "sm_89")] {
        let output = project.run(&["check", "--arch", product]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{product}: {said}");
        assert!(
            said.contains(&format!("did you mean `{architecture}`?")),
            "{said}"
        );
    }
}
