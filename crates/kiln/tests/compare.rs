//! `kiln compare` through the real program: every kind of side, every verdict, every refusal.
#![allow(clippy::unwrap_used)]

mod common;

use std::sync::{Mutex, MutexGuard};

use common::{NO_DIFFERENCE, Project, READS_UNROLL, SLOW, refused, scale_source, text};

/// They time things, so they take turns.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

const FASTER: i32 = 0;
const SLOWER: i32 = 1;
const UNDECIDED: i32 = 4;
const SAME: i32 = 5;
const WRONG: i32 = 6;

#[test]
fn configs_and_files_and_the_baseline() {
    let _turn = turn();
    let project = Project::with_scale();
    project.write("slow.c", &scale_source(SLOW));
    let same = [
        "compare",
        "UNROLL=1",
        "UNROLL=2",
        "--margin",
        NO_DIFFERENCE,
        "--json",
    ];
    let document = project.json(&same, &[SAME, UNDECIDED]);
    match document["verdict"].as_str() {
        Some("SAME") => assert_eq!(document["exit_code"], SAME),
        other => assert_eq!(
            (other, &document["exit_code"]),
            (Some("UNDECIDED"), &UNDECIDED.into())
        ),
    }
    assert_eq!(document["margin"], 0.9);
    let shape = &document["shapes"][0];
    assert_eq!(shape["shape"], "target");
    assert_eq!(shape["a_config"], "UNROLL=1");
    assert_eq!(shape["b_config"], "UNROLL=2");
    assert_eq!(shape["level"], 0.9875);
    assert!(shape["cycles"].is_null(), "a CPU's clock is not known");
    assert!(shape["rounds"].as_u64().unwrap() >= 3);

    let document = project.json(&["compare", "UNROLL=1", "slow.c", "--json"], &[SLOWER]);
    let shape = &document["shapes"][0];
    assert_eq!(shape["b_config"], "UNROLL=1", "the other side's");
    let (speedup, delta) = (shape["speedup"].as_f64(), shape["cliffs_delta"].as_f64());
    assert!((0.02..0.5).contains(&speedup.unwrap()), "{shape}");
    assert!(delta.unwrap() < -0.5 && shape["p_value"].as_f64().unwrap() < 0.01);
    assert!(
        shape["rounds"].as_u64().unwrap() >= 6,
        "not at the first look"
    );

    let output = project.run(&["compare", "slow.c", "baseline"]);
    assert_eq!(
        output.status.code(),
        Some(2),
        "which config? {}",
        text(&output.stderr)
    );
    let output = project.run(&["compare", "slow.c@UNROLL=4", "baseline"]);
    assert_eq!(
        output.status.code(),
        Some(FASTER),
        "{}",
        text(&output.stderr)
    );
    let table = text(&output.stdout);
    assert!(
        table.contains("FASTER") && table.contains("slow.c@UNROLL=4"),
        "{table}"
    );
}

#[test]
fn a_wrong_side_is_refused_before_any_timing() {
    let _turn = turn();
    let project = Project::with_scale();
    project
        .write("wrong.c", &scale_source(1).replace("0.5f", "0.6f"))
        .write(
            "broken.c",
            "void scale(const float *x, float *y, int n) { oops }\n",
        )
        .write(
            "crash.c",
            "void scale(const float *x, float *y, int n) { *(volatile int *)8 = n; }\n",
        );
    for (file, said) in [
        ("wrong.c", "wrong result on shape `tiny`"),
        ("broken.c", "does not compile"),
        ("crash.c", "SIGSEGV"),
    ] {
        for (a, b) in [(file, "UNROLL=1"), ("UNROLL=1", file)] {
            let output = project.run(&["compare", a, b]);
            assert_eq!(
                output.status.code(),
                Some(WRONG),
                "{}",
                text(&output.stderr)
            );
            let table = text(&output.stdout);
            assert!(table.contains("WRONG") && table.contains(said), "{table}");
            let letter = if a == file { 'A' } else { 'B' };
            let blamed = format!("{letter} (`{file}`): ");
            assert!(table.contains(&blamed), "{table}");
            assert!(!table.contains("(`UNROLL=1`)"), "{table}");
        }
    }
    let document = project.json(&["compare", "UNROLL=1", "wrong.c", "--json"], &[WRONG]);
    let shape = &document["shapes"][0];
    assert_eq!(shape["side"], "b");
    assert_eq!(shape["reason"], "numerics");
    assert!(shape["a_ns"].is_null());
}

/// Which side is at fault is said by its letter and by how it was written, and never of the other side.
#[test]
fn a_refused_side_is_named() {
    let _turn = turn();
    let project = Project::with_scale();
    project.write("other.c", &scale_source(1));
    project.replace("kiln.toml", "UNROLL = [1, 2, 4]", "UNROLL = [1, 2, 4, 8]");
    project.replace("kiln.toml", "N = 5", "N = 5 # today");
    let no_own =
        "`git:HEAD`: the config of B (`UNROLL=8`) does not fit: tunable `UNROLL` cannot be `8`";
    for (a, b, letter, said, other) in [
        // A mistake in a config is not the borrower's.
        ("git:HEAD", "UNROL=1", 'B', "`UNROL=1`: ", "git:HEAD"),
        ("UNROL=1", "git:HEAD", 'A', "`UNROL=1`: ", "git:HEAD"),
        ("other.c", "UNROLL=3", 'B', "`UNROLL=3`: ", "other.c"),
        ("UNROLL=1", "git:nowhere", 'B', "`git:nowhere`", "UNROLL=1"),
        (
            "UNROLL=1",
            "7",
            'B',
            "(`7`): no studies here yet",
            "UNROLL=1",
        ),
        ("UNROLL=1", "gone.c", 'B', "`gone.c`", "UNROLL=1"),
        ("other.c", "nonsense", 'B', "`nonsense`", "other.c"),
        // One that fits only the side that names it.
        ("git:HEAD", "UNROLL=8", 'A', no_own, "hint: B"),
        (
            "baseline",
            "other.c",
            'B',
            "(`other.c`): which config",
            "baseline",
        ),
    ] {
        let said_of = refused(&project, &["compare", a, b], 2);
        let told = said_of.split("hint:").next().unwrap();
        let blamed = format!("error: {letter}");
        assert!(told.contains(&blamed) && told.contains(said), "{said_of}");
        assert!(!told.contains(other), "{said_of}");
    }

    // What a revision's own files get wrong.
    project.replace("kiln.toml", "name = \"scale\"", "nam = \"scale\"");
    project.commit("broken");
    project.replace("kiln.toml", "nam = \"scale\"", "name = \"scale\"");
    for (a, b, letter) in [("git:HEAD", "UNROLL=1", 'A'), ("UNROLL=1", "git:HEAD", 'B')] {
        let said = refused(&project, &["compare", a, b], 2);
        assert!(
            said.contains(&format!("error: {letter} (`git:HEAD`): ")),
            "{said}"
        );
        assert!(said.contains("nam = "), "{said}");
    }

    // The reference is nobody's.
    project.write(
        "reference.c",
        "void scale(const double *x, double *y, int n) { oops }\n",
    );
    let said = refused(&project, &["compare", "git:HEAD~1", "UNROLL=1"], 2);
    assert!(said.contains("error: the reference"), "{said}");
    let failing = "void scale(const double *x, double *y, int n) { *(volatile int *)8 = n; }\n";
    project.write("reference.c", failing);
    let said = refused(&project, &["compare", "git:HEAD~1", "UNROLL=1"], 2);
    assert!(said.contains("error: the reference failed"), "{said}");
}

/// A side that is right when it is checked and fails when it is timed.
#[test]
fn a_side_that_falls_while_it_is_timed_is_named() {
    let _turn = turn();
    let project = Project::with_scale();
    // A fresh process launches more often than the check does.
    let counting = scale_source(1).replace(
        "for (int r = 0;",
        "static int launches; if (++launches > 400) __builtin_trap();\nfor (int r = 0;",
    );
    project.write("tired.c", &counting);
    for (a, b, side) in [("tired.c", "UNROLL=1", "a"), ("UNROLL=1", "tired.c", "b")] {
        let document = project.json(&["compare", a, b, "--json"], &[WRONG]);
        let shape = &document["shapes"][0];
        assert_eq!(shape["side"], side, "{shape}");
        let letter = side.to_uppercase();
        let said = format!("{letter} (`tired.c`): killed by SIGILL");
        let sentence = shape["sentence"].as_str().unwrap();
        assert!(sentence.starts_with(&said), "{sentence}");
        assert!(!sentence.contains("baseline"), "{sentence}");
    }
}

#[test]
fn revisions() {
    let _turn = turn();
    let project = Project::with_scale();
    project.write("scale.c", &scale_source(SLOW));
    project.commit("slower");
    project.write("notes.txt", "not committed\n");
    let before = project.root.join(".git/index");
    let index = std::fs::read(&before).unwrap();
    let document = project.json(&["compare", "git:HEAD~1", "UNROLL=1", "--json"], &[SLOWER]);
    assert_eq!(document["a"], "git:HEAD~1");
    let arguments = [
        "compare",
        "git:HEAD@UNROLL=1",
        "git:HEAD~1:kiln.toml",
        "--json",
    ];
    project.json(&arguments, &[FASTER]);
    assert_eq!(
        std::fs::read(&before).unwrap(),
        index,
        "the user's index is not touched"
    );
    assert!(project.root.join("notes.txt").is_file());

    for (side, said) in [
        ("git:nowhere", "git knows no revision `nowhere`"),
        ("git:HEAD:other/kiln.toml", "has no `other/kiln.toml`"),
    ] {
        let output = project.run(&["compare", side, "UNROLL=1"]);
        assert_eq!(output.status.code(), Some(2));
        assert!(
            text(&output.stderr).contains(said),
            "{}",
            text(&output.stderr)
        );
    }
    // A revision that asks another question.
    project.replace(
        "kiln.toml",
        "[shapes.target]\nN = 20000",
        "[shapes.target]\nM = 20000",
    );
    for size in ["50000", "5"] {
        project.replace(
            "kiln.toml",
            &format!("N = {size}\n"),
            &format!("M = {size}\n"),
        );
    }
    project.replace("kiln.toml", "\"N\"", "\"M\"");
    let output = project.run(&["compare", "git:HEAD", "UNROLL=1"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr).contains("another question"),
        "{}",
        text(&output.stderr)
    );

    let bare = Project::with("kernels/vector_add");
    let output = bare.run(&["compare", "git:HEAD", "baseline"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr).contains("no git repository"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn studies() {
    let _turn = turn();
    let project = Project::with_scale();
    let output = project.run(&["compare", "study:1", "UNROLL=1"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("no studies here yet"));
    project.json(&["tune", "--trials", "2", "--json"], &[0, 1, 4]);
    let arguments = [
        "compare",
        "1",
        "UNROLL=1",
        "--margin",
        NO_DIFFERENCE,
        "--json",
    ];
    let document = project.json(&arguments, &[SAME, UNDECIDED]);
    assert!(!document["notes"].to_string().contains("changed since"));
    // Files without a config now get the winner's.
    let output = project.run(&["compare", "scale.c", "baseline", "--margin", NO_DIFFERENCE]);
    assert!(
        [Some(SAME), Some(UNDECIDED)].contains(&output.status.code()),
        "{}",
        text(&output.stderr)
    );

    project.write("scale.c", &format!("{}/* edited */\n", scale_source(1)));
    let document = project.json(&arguments, &[SAME, UNDECIDED]);
    let notes = document["notes"].to_string();
    assert!(
        notes.contains("a source file changed since study 1"),
        "{notes}"
    );
    let output = project.run(&["compare", "study:7", "UNROLL=1"]);
    assert_eq!(output.status.code(), Some(2));

    // A config that nobody typed, from before a tunable was added, is said to be just that.
    project.replace("kiln.toml", "[1, 2, 4]\n", "[1, 2, 4]\nSTRIP = [0, 8]\n");
    for arguments in [
        &["compare", "study:1", "UNROLL=1,STRIP=0"][..],
        &["compare", "scale.c", "baseline"],
        &["iterate", "--hypothesis", "strips stay in the cache"],
    ] {
        let output = project.run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let said = text(&output.stderr);
        assert!(
            said.contains("study 1's winner is from before `STRIP` was added"),
            "{said}"
        );
        assert!(said.contains("`kiln tune` finds a config"), "{said}");
        assert!(said.contains(",STRIP=0`"), "{said}");
    }
    project.replace("kiln.toml", "UNROLL = [1, 2, 4]\n", "");
    let output = project.run(&["compare", "study:1", "STRIP=0"]);
    let said = text(&output.stderr);
    assert!(
        said.contains(
            "study 1's winner is from before `STRIP` was added and `UNROLL` was taken out"
        ),
        "{said}"
    );
}

#[test]
fn mistakes_say_what_to_do() {
    let _turn = turn();
    let project = Project::with_scale();
    for (arguments, said) in [
        (vec!["nonsense", "UNROLL=1"], "nothing kiln can compare"),
        (vec!["UNROL=1", "UNROLL=1"], "did you mean `UNROLL`?"),
        (vec!["UNROLL=3", "UNROLL=1"], "its values are 1, 2, 4"),
        (vec!["gone.c", "UNROLL=1"], "cannot use `gone.c`"),
        (
            vec!["UNROLL=1", "UNROLL=2", "--shape", "huge"],
            "its shapes are target, large, tiny",
        ),
        (vec!["UNROLL=1", "UNROLL=2", "--margin", "3"], "0.03 is 3 %"),
    ] {
        let mut all = vec!["compare"];
        all.extend(arguments);
        let output = project.run(&all);
        assert_eq!(output.status.code(), Some(2), "{all:?}");
        assert!(
            text(&output.stderr).contains(said),
            "{}",
            text(&output.stderr)
        );
    }
}

/// The layout `kiln init` writes: the manifest's source reads the tunables and includes the file with the function.
#[test]
fn included_files_are_compared_inside_the_source() {
    let _turn = turn();
    let project = Project::with_scale();
    // Only inside the wrapper does UNROLL=1 take longer.
    let bare = scale_source(1)
        .replace(READS_UNROLL, "#include \"repeats.h\"\n")
        .replace("r < 1", "r < REPEATS");
    project
        .write(
            "scale_tunable.c",
            "#if UNROLL == 1\n#define REPEATS 8\n#endif\n#include \"scale.c\"\n",
        )
        .write("repeats.h", "#ifndef REPEATS\n#define REPEATS 1\n#endif\n")
        .write("scale.c", &bare)
        .write("scale.old.c", &bare)
        .write("old/scale.c", &bare.replace("repeats.h", "own.h"))
        .write("old/own.h", "#include \"../repeats.h\"\n")
        .replace(
            "kiln.toml",
            "source = \"scale.c\"",
            "source = \"scale_tunable.c\"",
        );
    for (a, b, said) in [
        (
            "scale.old.c@UNROLL=1",
            "scale.c@UNROLL=2",
            "`scale.old.c` is built inside `scale_tunable.c`, in place of `scale.c`",
        ),
        (
            "scale.c@UNROLL=1",
            "UNROLL=2",
            "`scale.c` is built inside `scale_tunable.c`, which includes it",
        ),
        (
            "old/scale.c@UNROLL=1",
            "baseline",
            "`old/scale.c` is built inside `scale_tunable.c`, in place of `scale.c`",
        ),
    ] {
        let document = project.json(&["compare", a, b, "--json"], &[FASTER]);
        let notes = document["notes"].to_string();
        assert!(notes.contains(said), "{notes}");
        let shape = &document["shapes"][0];
        assert_eq!(shape["a_config"], "UNROLL=1");
        assert_eq!(shape["b_config"].is_null(), b == "baseline", "{shape}");
    }
}

#[test]
fn a_file_that_reads_no_tunable_has_no_config() {
    let _turn = turn();
    let project = Project::with_scale();
    let bare = scale_source(SLOW).replace(READS_UNROLL, "");
    project.write("bare.c", &bare);
    let document = project.json(&["compare", "UNROLL=1", "bare.c", "--json"], &[SLOWER]);
    let shape = &document["shapes"][0];
    assert_eq!(shape["a_config"], "UNROLL=1");
    assert!(shape["b_config"].is_null(), "{shape}");
    let notes = document["notes"].to_string();
    let said =
        "`bare.c` reads none of the tunables that `scale.c` reads: the config has no effect on it";
    assert!(notes.contains(said), "{notes}");
}

#[test]
fn compilers_speak_of_the_files_a_user_named() {
    let _turn = turn();
    let project = Project::with_scale();
    let broken = format!("int broken = ;\n{}", scale_source(1));
    project.write("scale.c", &broken);
    project.commit("broken");
    project.write("scale.c", &scale_source(1));
    let said = |a: &str, b: &str| {
        let arguments = ["compare", a, b, "--json"];
        let document = project.json(&arguments, &[WRONG]);
        document["shapes"][0]["outcome"].to_string()
    };
    let outcome = said("git:HEAD", "UNROLL=1");
    assert!(outcome.contains("\"scale.c:1:"), "{outcome}");
    assert!(!outcome.contains("kiln-tree"), "{outcome}");
    // Built inside another file, in place of a third.
    project
        .write("wrapper.c", "#define STEP UNROLL\n#include \"scale.c\"\n")
        .write("other.c", &broken)
        .replace(
            "kiln.toml",
            "source = \"scale.c\"",
            "source = \"wrapper.c\"",
        );
    let outcome = said("scale.c@UNROLL=1", "other.c");
    assert!(outcome.contains("\"other.c:1:"), "{outcome}");
    assert!(!outcome.contains("kiln-tree"), "{outcome}");
}
