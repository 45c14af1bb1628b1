//! Arrays in shared memory: a launch has to say how large those are whose size the source leaves open.

use super::source::{Function, words};
use crate::dtype::DType;

#[derive(Debug, PartialEq)]
pub(super) struct SharedArray {
    pub name: String,
    /// `extern __shared__ float s[]`: as large as the launch says.
    pub is_dynamic: bool,
    /// Where the type is one that kiln knows.
    pub dtype: Option<DType>,
}

/// The arrays that a kernel declares, and those that stand outside of all functions.
pub(super) fn arrays(plain: &str, functions: &[Function], entry: &Function) -> Vec<SharedArray> {
    let others = functions.iter().filter(|f| f.name != entry.name);
    let own = others.fold(plain.to_string(), |text, other| match other.body.trim() {
        "" => text,
        _ => text.replacen(&other.body, "", 1),
    });
    let mut found: Vec<SharedArray> = Vec::new();
    for (at, word) in own.match_indices("__shared__") {
        let before = words(&own[..at]).last();
        let after = &own[at + word.len()..];
        let declaration = &after[..after.find(';').unwrap_or(0)];
        // A variable of its own, or one whose type is a template of a library, needs nothing either.
        let Some((declared, _)) = declaration.split_once('[') else {
            continue;
        };
        let names: Vec<&str> = words(declared).filter(|w| !is_attribute(w)).collect();
        let Some((name, type_words)) = names.split_last() else {
            continue;
        };
        if found.iter().all(|known| known.name != *name) {
            found.push(SharedArray {
                name: name.to_string(),
                is_dynamic: before == Some("extern") || type_words.contains(&"extern"),
                dtype: DType::from_foreign_name(&type_words.join(" ")),
            });
        }
    }
    found
}

/// `__align__(16)`, `alignas(16)` and their numbers; and `volatile`.
fn is_attribute(word: &str) -> bool {
    let is_number = word.starts_with(|c: char| c.is_ascii_digit());
    is_number || ["__align__", "alignas", "volatile"].contains(&word)
}

#[cfg(test)]
mod tests {
    use super::super::source::functions;
    use super::*;

    fn found(text: &str) -> Vec<(String, bool, Option<DType>)> {
        let functions = functions(text);
        let entry = functions.iter().find(|f| f.name == "k").expect("a kernel");
        let arrays = arrays(text, &functions, entry).into_iter();
        arrays.map(|a| (a.name, a.is_dynamic, a.dtype)).collect()
    }

    #[test]
    fn dynamic_and_static_arrays_are_told_apart() {
        let kernel = |body: &str| found(&format!("__global__ void k(float *x) {{ {body} }}"));
        let f32 = Some(DType::F32);
        assert_eq!(
            kernel("extern __shared__ float s[]; s[0] = 1;"),
            [("s".to_string(), true, f32)]
        );
        assert_eq!(
            kernel("extern __shared__ __align__(16) unsigned char raw[];"),
            [("raw".to_string(), true, Some(DType::U8))]
        );
        assert_eq!(
            kernel("__shared__ float tile[16][17]; __shared__ int last;"),
            [("tile".to_string(), false, f32)]
        );
        assert_eq!(
            kernel("extern __shared__ float4 s[];"),
            [("s".to_string(), true, None)]
        );
        assert_eq!(kernel("__shared__"), []);
        assert_eq!(kernel("x[0] = 1;"), []);
    }

    #[test]
    fn other_kernels_keep_theirs() {
        let text = "extern __shared__ int all[];\n\
            __global__ void other(float *x) { extern __shared__ float s[]; s[0] = 1; }\n\
            __global__ void k(float *x) { all[0] = 1; }";
        assert_eq!(found(text), [("all".to_string(), true, Some(DType::I32))]);
    }
}
