//! Whether Python takes an exported module: before it is given to anybody, and where it is used.
//!
//! With PyTorch there the module is imported, which registers its operators; without, it is compiled, which finds
//! whatever is no Python. The fallback is only read, never run: it must not ask for what no call can give.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use kiln_core::diagnostic::printable;
use serde::Deserialize;
use serde_json::json;

use super::plan::Fallback;
use crate::exit::{Exit, Failure};
use crate::{settings, toolchain};

/// PyTorch on a slow disk takes its time.
const DEADLINE: Duration = Duration::from_secs(120);

#[derive(Debug, PartialEq, Eq)]
pub enum Importable {
    /// By the PyTorch of this version.
    Imported(String),
    /// It is Python, but nobody could import it: why.
    Compiled(String),
    /// Nothing was found out: why.
    Unknown(String),
    Broken(String),
    /// The fallback asks for something that no call can give.
    Unusable(String),
}

#[derive(Deserialize)]
struct Answer {
    kind: String,
    text: String,
}

/// A fallback, and the names of what a call can give it.
pub struct Offered<'p> {
    pub fallback: &'p Fallback,
    pub names: Vec<String>,
}

pub fn examine(folder: &Path, offered: Option<&Offered<'_>>) -> Importable {
    let fallback = offered.map(
        |o| json!({"file": o.fallback.file, "function": o.fallback.function, "known": o.names}),
    );
    // Python runs in no other folder than it is called in, so the path has to be whole.
    let whole = match folder.canonicalize() {
        Ok(whole) => whole,
        Err(e) => return Importable::Unknown(e.to_string()),
    };
    let Some(whole) = whole.to_str() else {
        return Importable::Unknown("its folder's path is not in UTF-8".into());
    };
    let asked = json!({"folder": whole, "fallback": fallback});
    let mut python = Command::new(settings::python());
    python
        .args(["-c", include_str!("templates/check_module.py")])
        .arg(asked.to_string());
    let output = match toolchain::child::output(&mut python, Some(DEADLINE)) {
        Ok(output) => output,
        Err(e) => return Importable::Unknown(format!("{}: {e}", settings::python_in_words())),
    };
    let answer = output
        .stdout
        .lines()
        .last()
        .map(serde_json::from_str::<Answer>);
    let Some(Ok(Answer { kind, text })) = answer else {
        let said = &output.stderr;
        let last = printable(said.lines().last().unwrap_or("it says nothing")).to_string();
        return Importable::Unknown(format!("{}: {last}", settings::python_in_words()));
    };
    let text = printable(&text).to_string();
    match kind.as_str() {
        "imported" => Importable::Imported(text),
        "compiled" => Importable::Compiled(text),
        "unusable" => Importable::Unusable(text),
        _ => Importable::Broken(text),
    }
}

/// A module that Python does not take is not exported. Otherwise what is left unproven, where something is.
pub fn prove(folder: &Path, offered: Option<&Offered<'_>>) -> Result<Option<String>, Failure> {
    match examine(folder, offered) {
        Importable::Imported(_) => Ok(None),
        Importable::Compiled(why) => Ok(Some(format!(
            "the module was compiled and not imported: {} cannot import PyTorch ({why})",
            settings::python_in_words()
        ))),
        Importable::Unknown(why) => Ok(Some(format!("the module was not tried in Python: {why}"))),
        Importable::Broken(why) => Err(Failure::new(
            Exit::Bug,
            format!("the module that was made cannot be imported: {why}"),
        )
        .hint("another name for the argument or dimension may help; please report it")),
        Importable::Unusable(why) => {
            let function = offered.map_or("", |o| o.fallback.function.as_str());
            let names = offered.map_or(String::new(), |o| o.names.join("`, `"));
            Err(Failure::usage(format!(
                "`{function}` cannot be the fallback of a package: {why}"
            ))
            .hint(format!(
                "a fallback may take `{names}`; name one that does with `fallback = \"FILE.py:FUNCTION\"` in [export]"
            )))
        }
    }
}
