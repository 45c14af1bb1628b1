//! Which function of a source is to be tuned.

use super::source::Function;
use super::{InitError, stem};

pub(super) struct Chosen {
    pub entry: Function,
    pub others: Vec<String>,
}

/// The function that is wanted, else the one named like the file, else the last one.
pub(super) fn choose(
    file_name: &str,
    is_cuda: bool,
    found: Vec<Function>,
    wanted: Option<&str>,
) -> Result<Chosen, InitError> {
    let mut candidates: Vec<Function> = found
        .into_iter()
        .filter(|f| match is_cuda {
            true => f.is_global,
            false => !f.is_local && f.name != "main",
        })
        .collect();
    let names = |functions: &[Function]| functions.iter().map(|f| f.name.clone()).collect();
    let position = |name: &str| candidates.iter().position(|f| f.name == name);
    let Some(last) = candidates.len().checked_sub(1) else {
        return Err(match is_cuda {
            true => InitError::NoKernel(file_name.to_string()),
            false => InitError::NoFunction(file_name.to_string()),
        });
    };
    let chosen = match wanted {
        Some(wanted) => position(wanted).ok_or_else(|| InitError::NoSuchFunction {
            file_name: file_name.to_string(),
            wanted: wanted.to_string(),
            candidates: names(&candidates),
        })?,
        None => position(stem(file_name)).unwrap_or(last),
    };
    let entry = candidates.remove(chosen);
    Ok(Chosen {
        entry,
        others: names(&candidates),
    })
}

/// `a`, `b` and `c`, in backticks.
pub(super) fn in_words(names: &[String]) -> String {
    let quoted: Vec<String> = names.iter().map(|n| format!("`{n}`")).collect();
    match &quoted[..] {
        [] => "none".to_string(),
        [one] => one.clone(),
        [others @ .., last] => format!("{} and {last}", others.join(", ")),
    }
}
