//! The source held against the manifest before anything is compiled: functions that are there, parameters that fit.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Project, accepted, refused};

/// A kernel whose manifest is right, and which `check` accepts.
fn checked() -> Project {
    let project = Project::with_scale();
    accepted(&project, &["check"]);
    project
}

#[test]
fn a_name_in_a_comment_a_string_or_an_include_is_no_function() {
    for (source, of) in [
        ("/* scale */ void other(const float *x) { }\n", "a comment"),
        ("// scale\nvoid other(void) { }\n", "a line"),
        ("const char *name = \"scale\";\n", "a string"),
        ("#include \"scale.h\"\nvoid other(void) { }\n", "an include"),
    ] {
        let project = checked();
        project.write("scale.h", "void other(void);\n");
        project.write("scale.c", source);
        let said = refused(&project, &["check"], 2);
        assert!(
            said.contains("`scale.c` has no function `scale`"),
            "{of}: {said}"
        );
        assert!(said.contains("kiln.toml:4:"), "{of}: {said}");
        assert!(said.contains("only in a comment, a string"), "{of}: {said}");
        refused(&project, &["tune", "--trials", "1"], 2);
    }
    // A macro may make it.
    let project = checked();
    let source = common::scale_source(1).replace("void scale(", "void NAME(");
    project.write("scale.c", &format!("#define NAME scale\n{source}"));
    accepted(&project, &["check"]);
}

/// Words of a comment are no functions.
#[test]
fn a_name_that_is_nearly_right_is_held_against_functions() {
    let project = checked();
    let source = common::scale_source(1);
    project.write(
        "scale.c",
        &format!("// scales, scaled, scalex: words.\n{source}"),
    );
    project.replace("kiln.toml", "entry = \"scale\"", "entry = \"scalee\"");
    let said = refused(&project, &["check"], 2);
    assert!(said.contains("did you mean `scale`?"), "{said}");
    project.write("scale.c", "// scales\nvoid other(float *y) { y[0] = 1; }\n");
    let output = project.run(&["check"]);
    let said = common::text(&output.stderr);
    assert!(said.contains("has no function `scalee`"), "{said}");
    assert!(!said.contains("did you mean"), "{said}");
}

#[test]
fn a_header_that_is_not_there_is_named() {
    let project = checked();
    project.write("scale.c", "#include \"the_kernel.h\"\n");
    let said = refused(&project, &["check"], 2);
    assert!(
        said.contains("`scale.c` includes `the_kernel.h`, which is not there"),
        "{said}"
    );
    assert!(said.contains("include_dirs"), "{said}");
    // Where flags name a folder, what is in it is the compiler's to find.
    project.write("far/away/the_kernel.h", &common::scale_source(1));
    project.write("scale.c", "#include \"the_kernel.h\" // scale\n");
    refused(&project, &["check"], 2);
    project.replace("kiln.toml", "\"-O2\"", "\"-O2\", \"-Ifar/away\"");
    accepted(&project, &["check"]);
    project.replace("kiln.toml", "\"-Ifar/away\"", "\"-O2\"");
    project.write("the_kernel.h", &common::scale_source(1));
    accepted(&project, &["check"]);
}

#[test]
fn arguments_are_the_parameters_of_the_function() {
    let project = checked();
    let body = "{ for (int i = 0; i < n; i++) y[i] = UNROLL * x[i]; }\n";
    for (parameters, told) in [
        (
            "int n, const float *x, float *y",
            "takes `int n` as parameter 1, but argument `x` is a buffer of f32",
        ),
        (
            "const double *x, float *y, int n",
            "takes `const double *x` as parameter 1, but argument `x` is a buffer of f32",
        ),
        (
            "const float *x, float *y, int n, int m",
            "takes 4 parameters, and [arguments] has 3",
        ),
    ] {
        project.write("scale.c", &format!("void scale({parameters}) {body}"));
        let said = refused(&project, &["check"], 2);
        assert!(
            said.contains(&format!("`scale` in `scale.c` {told}")),
            "{said}"
        );
        assert!(said.contains("in its order: `scale("), "{said}");
    }
    project.write("scale.c", "void scale(float x[4][4], float *y, int n) { }");
    let said = refused(&project, &["check"], 2);
    assert!(said.contains("not as an array of arrays"), "{said}");
    assert!(said.contains("let the function take `float *x`"), "{said}");
    // What cannot be read is the compiler's to judge.
    for source in [
        "typedef float *numbers;\nvoid scale(numbers x, numbers y, int n) ",
        "#define PARAMETERS const float *x, float *y, int n\nvoid scale(PARAMETERS) ",
    ] {
        project.write("scale.c", &format!("{source}{body}"));
        accepted(&project, &["check"]);
    }
}
