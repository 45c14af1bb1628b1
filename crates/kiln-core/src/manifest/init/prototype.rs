//! A source held against the manifest before any compiler sees it: whether code names a function, and whether its
//! parameters can be the arguments. What cannot be read is not judged; the compiler will.

use super::source::{self, Parameter, Passing, words};
use crate::manifest::{Argument, ArgumentKind};

/// The code of a C or CUDA source: without comments, contents of literals, and lines that include files. Other
/// directives stay, for a macro may make the name of a function.
pub fn code_only(text: &str) -> String {
    let plain = source::without_comments(text);
    let is_include = |line: &str| {
        let directive = line.trim_start().strip_prefix('#');
        directive.is_some_and(|d| d.trim_start().starts_with("include"))
    };
    let lines = plain
        .lines()
        .map(|line| if is_include(line) { "" } else { line });
    lines.collect::<Vec<_>>().join("\n")
}

/// A function whose parameters cannot be the arguments of the manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrongParameters {
    /// What is wrong, after "`NAME` in `FILE`".
    pub problem: String,
    /// What to do about it.
    pub fix: String,
}

/// How the parameters of a function in C differ from the arguments; `None` where they do not, and where that cannot be
/// told: no definition, more than one, or a type that is the source's own.
pub fn wrong_parameters(
    text: &str,
    entry: &str,
    arguments: &[Argument],
) -> Option<WrongParameters> {
    let plain = source::without_comments(text);
    if has_conditional_parameters(&plain, entry) {
        return None;
    }
    let mut functions = source::functions(&plain).into_iter();
    let mut named = functions.by_ref().filter(|f| f.name == entry);
    let function = named.next()?;
    if named.next().is_some() {
        return None;
    }
    let parameters = &function.parameters;
    // A value of an unknown type may be a macro that stands for several parameters, or a pointer by another name.
    let is_readable = |p: &Parameter| p.passing != Passing::Value || p.dtype.is_some();
    let is_plain = |a: &Argument| !matches!(a.kind, ArgumentKind::Tma { .. });
    if !parameters.iter().all(is_readable) || !arguments.iter().all(is_plain) {
        return None;
    }
    let shown: Vec<String> = parameters.iter().map(declared).collect();
    let in_its_order = format!(
        "[arguments] lists what the function takes, in its order: `{entry}({})`",
        shown.join(", ")
    );
    if parameters.len() != arguments.len() {
        return Some(WrongParameters {
            problem: format!(
                "takes {}, and [arguments] has {}",
                counted(parameters.len(), "parameter"),
                arguments.len()
            ),
            fix: in_its_order,
        });
    }
    let mut pairs = parameters.iter().zip(arguments).enumerate();
    pairs.find_map(|(place, (parameter, argument))| {
        let is = mismatch(parameter, argument)?;
        let is_buffer = matches!(argument.kind, ArgumentKind::Buffer { .. });
        let Parameter { name, c_type, .. } = parameter;
        Some(WrongParameters {
            problem: format!(
                "takes `{}` as parameter {}, but argument `{}` is {is}",
                declared(parameter),
                place + 1,
                argument.name
            ),
            fix: match parameter.is_nested() && is_buffer {
                true => format!(
                    "let the function take `{c_type} *{name}`, and compute the place in it, as in `{name}[y * width + x]`"
                ),
                false => in_its_order.clone(),
            },
        })
    })
}

/// What the argument is, where the parameter cannot take it.
fn mismatch(parameter: &Parameter, argument: &Argument) -> Option<String> {
    let dtype = argument.dtype;
    match (&argument.kind, parameter.passing) {
        (ArgumentKind::Buffer { .. }, Passing::Value) => Some(format!("a buffer of {dtype}")),
        (ArgumentKind::Buffer { .. }, _) => {
            // Types without a name in C pass as `void *`, and `void *` takes all.
            let c_type = dtype.c_type()?;
            let found = parameter.dtype?;
            match parameter.is_nested() {
                true => Some(format!(
                    "handed over as `{c_type} *`, not as an array of arrays"
                )),
                // A sign more or less is no other type to C's compilers.
                false => (found.is_float() != dtype.is_float()
                    || found.size_bytes() != dtype.size_bytes())
                .then(|| format!("a buffer of {dtype}")),
            }
        }
        (ArgumentKind::Scalar { .. }, Passing::Value) => {
            // C converts one number into another; only a fraction is lost on the way.
            let loses = dtype.is_float() && parameter.dtype.is_some_and(|found| !found.is_float());
            loses.then(|| format!("a scalar of {dtype}"))
        }
        (ArgumentKind::Scalar { .. }, _) => Some(format!("a scalar of {dtype}")),
        (ArgumentKind::Tma { .. }, _) => None,
    }
}

fn declared(parameter: &Parameter) -> String {
    let Parameter { name, c_type, .. } = parameter;
    match parameter.passing {
        Passing::Value => format!("{c_type} {name}"),
        _ if parameter.is_nested() => format!("{c_type} {name}{}", parameter.brackets),
        Passing::Pointer => format!("{c_type} *{name}"),
        Passing::ConstPointer => format!("const {c_type} *{name}"),
    }
}

fn counted(count: usize, noun: &str) -> String {
    match count {
        1 => format!("1 {noun}"),
        many => format!("{many} {noun}s"),
    }
}

/// Whether a directive stands between the parentheses behind the name: which parameters there are then depends on macros.
fn has_conditional_parameters(plain: &str, entry: &str) -> bool {
    let mut rest = plain;
    while let Some(at) = rest.find(entry) {
        let is_word = words(rest[at..].split('(').next().unwrap_or_default())
            .next()
            .is_some_and(|word| word == entry);
        rest = &rest[at + entry.len()..];
        if !is_word || !rest.trim_start().starts_with('(') {
            continue;
        }
        let mut depth = 0_usize;
        for c in rest.chars() {
            match c {
                '(' => depth += 1,
                ')' => depth = depth.saturating_sub(1),
                '#' => return true,
                _ => {}
            }
            if depth == 0 && c == ')' {
                break;
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::Manifest;

    fn arguments() -> Vec<Argument> {
        let text = "[kernel]\nname = \"k\"\nsource = \"k.c\"\nentry = \"k\"\n[tunables]\nU = [1, 2]\n[shapes.target]\nN = 8\n\
            [arguments]\nx = { dtype = \"f32\", shape = [\"N\"] }\ny = { dtype = \"f32\", shape = [\"N\"], role = \"output\" }\n\
            n = { dtype = \"i32\", value = \"N\" }\na = { dtype = \"f32\", value = 0.5 }\n\
            [reference]\nc = \"r.c:k\"\n[baseline]\nconfig = { U = 1 }\n";
        Manifest::parse(text).expect("a manifest").arguments
    }

    fn problem(source: &str) -> Option<String> {
        wrong_parameters(source, "k", &arguments()).map(|w| w.problem)
    }

    #[test]
    fn parameters_that_cannot_be_the_arguments_are_told() {
        for (parameters, told) in [
            (
                "int n, float *x, float *y, float a",
                "takes `int n` as parameter 1, but argument `x` is a buffer of f32",
            ),
            (
                "const float *x, float *y, float a, int n",
                "takes `int n` as parameter 4, but argument `a` is a scalar of f32",
            ),
            (
                "const float *x, double *y, int n, float a",
                "takes `double *y` as parameter 2, but argument `y` is a buffer of f32",
            ),
            (
                "const float *x, float *y, int *n, float a",
                "takes `int *n` as parameter 3, but argument `n` is a scalar of i32",
            ),
            (
                "float x[4][4], float *y, int n, float a",
                "takes `float x[4][4]` as parameter 1, but argument `x` is handed over as `float *`, not as an array of arrays",
            ),
            (
                "const float *x, float *y, int n",
                "takes 3 parameters, and [arguments] has 4",
            ),
        ] {
            let source = format!("// k(int n)\nvoid k({parameters}) {{ }}\n");
            assert_eq!(problem(&source).as_deref(), Some(told), "{parameters}");
        }
    }

    #[test]
    fn what_fits_or_cannot_be_read_is_not_judged() {
        for source in [
            "void k(const float *x, float y[], long n, double a) { }",
            "void k(const float *x, float *y, unsigned n, double a) { }",
            "void k(float x[4], void *y, size_t n, float a) { }",
            "void k(NUMBERS x, float *y) { }",
            "void k(PARAMETERS) { }",
            "void k(float *x) { }\nvoid k(int n) { }",
            "void k(float *x,\n#ifdef MORE\n int n,\n#endif\n float *y) { }",
            "void K(float *x) { }\nvoid (*pointer)(int k);",
            "int kk(void) { return 1; }",
        ] {
            assert_eq!(problem(source), None, "{source}");
        }
    }

    #[test]
    fn a_sign_is_not_a_type_but_a_width_is() {
        let mut arguments = arguments();
        arguments[0].dtype = crate::dtype::DType::U8;
        let told = |c_type: &str| {
            let source = format!("void k({c_type} *x, float *y, int n, float a) {{ }}");
            wrong_parameters(&source, "k", &arguments).is_some()
        };
        assert!(!told("unsigned char") && !told("char") && !told("void"));
        assert!(told("short") && told("float"));
    }

    #[test]
    fn code_is_neither_comment_nor_literal_nor_include() {
        let text = "#include \"kernel.h\"\n# include <kernel>\n// kernel\n/* kernel\n kernel */ char *s = \"kernel\";\n";
        assert!(!code_only(text).contains("kernel"), "{}", code_only(text));
        assert!(code_only("#define NAME kernel\n").contains("kernel"));
        let separated = "int n = 1'000; void kernel(void) { }";
        assert!(code_only(separated).contains("kernel"));
    }
}
