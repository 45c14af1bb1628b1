//! Python, PyTorch and NumPy, and the functions a manifest names.

use std::path::Path;

use serde::Deserialize;

use super::finding::Finding;
use super::needs::{Needs, PythonNeed};
use super::probe;
use crate::nvml::CudaVersion;
use crate::settings;

const LOOK: &str = include_str!("look.py");

pub struct Found {
    program: String,
    facts: Result<Facts, String>,
}

#[derive(Debug, Deserialize)]
struct Facts {
    version: String,
    executable: String,
    torch: Option<Package>,
    numpy: Option<Package>,
    functions: Vec<Function>,
}

#[derive(Debug, Deserialize)]
struct Package {
    version: Option<String>,
    /// Of PyTorch: the CUDA it was built for.
    cuda: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Function {
    error: Option<String>,
    found: bool,
    has: Vec<String>,
    imports: Vec<String>,
    /// Modules it imports that the interpreter does not find.
    unresolved: Vec<String>,
}

pub fn look(functions: &[PythonNeed]) -> Found {
    let program = settings::python();
    let files: Vec<String> = functions
        .iter()
        .map(|f| f.file.display().to_string())
        .collect();
    let mut arguments = vec!["-c", LOOK];
    for (need, file) in functions.iter().zip(&files) {
        arguments.extend([file.as_str(), need.function.as_str()]);
    }
    let facts = probe::output(Path::new(&program), &arguments).and_then(|text| {
        serde_json::from_str(&text).map_err(|e| format!("its answer cannot be read: {e}"))
    });
    Found { program, facts }
}

pub fn judge(found: &Found, driver: Option<CudaVersion>, needs: Option<&Needs>) -> Vec<Finding> {
    let functions = needs.map_or(&[][..], |needs| &needs.python);
    let facts = match &found.facts {
        Ok(facts) => facts,
        Err(why) => return vec![without_python(&found.program, why, !functions.is_empty())],
    };
    let path = &facts.executable;
    let mut findings = vec![
        Finding::ok("python", format!("Python {} ({path})", facts.version))
            .fact("version", facts.version.clone())
            .fact("path", path.clone()),
    ];
    let imports = |module: &str| {
        let mut all = facts.functions.iter().flat_map(|f| &f.imports);
        all.any(|name| name == module)
    };
    let times_python = needs.is_some_and(|needs| needs.times_python);
    let wants_torch = imports("torch") || times_python;
    findings.push(judge_torch(facts, driver, wants_torch, times_python));
    // PyTorch tensors serve where NumPy is missing, unless the file itself imports NumPy.
    let wants_numpy = imports("numpy") || (!functions.is_empty() && facts.torch.is_none());
    findings.push(judge_numpy(facts, wants_numpy));
    for (need, function) in functions.iter().zip(&facts.functions) {
        findings.push(judge_function(need, function));
    }
    findings
}

fn without_python(program: &str, why: &str, needed: bool) -> Finding {
    let what = format!("Python: `{program}`: {why}");
    match needed {
        true => Finding::missing("python", what)
            .why("the manifest names Python functions")
            .fix("install Python 3, or set KILN_PYTHON to one"),
        false => Finding::note("python", what)
            .why("only references and baselines written in Python need it"),
    }
}

fn judge_torch(facts: &Facts, driver: Option<CudaVersion>, needed: bool, timed: bool) -> Finding {
    let install = format!("{} -m pip install torch", facts.executable);
    let Some(torch) = &facts.torch else {
        return match needed {
            true => Finding::missing("torch", "PyTorch: not installed")
                .why("the manifest's Python functions need it")
                .fix(install),
            false => Finding::note(
                "torch",
                "PyTorch: not installed; only Python baselines need it",
            ),
        };
    };
    let version = torch.version.as_deref().unwrap_or("of unknown version");
    let cuda = torch.cuda.as_deref().and_then(CudaVersion::parse);
    let finding = match (cuda, driver) {
        (None, _) if timed => {
            Finding::missing("torch", format!("PyTorch {version} is built without CUDA"))
                .why("a Python baseline is timed on the GPU")
                .fix(install)
        }
        (None, _) => Finding::ok("torch", format!("PyTorch {version} (no CUDA)")),
        (Some(cuda), Some(driver)) if cuda.major > driver.major => {
            let what =
                format!("PyTorch {version} is for CUDA {cuda}, the driver only for {driver}");
            let why = "it will not find the GPU";
            let fix = format!("install a PyTorch built for CUDA {}", driver.major);
            match timed {
                true => Finding::missing("torch", what).why(why).fix(fix),
                false => Finding::warning("torch", what).why(why).fix(fix),
            }
        }
        (Some(cuda), _) => Finding::ok("torch", format!("PyTorch {version} (CUDA {cuda})")),
    };
    finding
        .fact("version", torch.version.clone())
        .fact("cuda", torch.cuda.clone())
}

fn judge_numpy(facts: &Facts, needed: bool) -> Finding {
    match (&facts.numpy, needed) {
        (Some(numpy), _) => {
            let version = numpy.version.as_deref().unwrap_or("of unknown version");
            Finding::ok("numpy", format!("NumPy {version}")).fact("version", numpy.version.clone())
        }
        (None, true) => Finding::missing("numpy", "NumPy: not installed")
            .why("the manifest's Python functions need it")
            .fix(format!("{} -m pip install numpy", facts.executable)),
        (None, false) => Finding::note(
            "numpy",
            "NumPy: not installed; only Python references need it",
        ),
    }
}

fn judge_function(need: &PythonNeed, function: &Function) -> Finding {
    let name = format!("{} `{}:{}`", need.role, need.shown, need.function);
    let why = "answers and comparisons come from it";
    if let Some(error) = &function.error {
        return Finding::missing("function", format!("{name} cannot be read: {error}"))
            .why(why)
            .fix("mend the file, or name another in the manifest");
    }
    if !function.found {
        let list = function.has.join(", ");
        return Finding::missing("function", format!("{name}: the file has no such function"))
            .why(why)
            .fix(format!("name one of those it has: {list}"));
    }
    if !function.unresolved.is_empty() {
        let list = function.unresolved.join(", ");
        return Finding::missing(
            "function",
            format!("{name} imports what is not installed: {list}"),
        )
        .why(why)
        .fix("install it for this interpreter, or set KILN_PYTHON to one that has it");
    }
    Finding::ok("function", name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::doctor::finding::Status;

    fn facts(torch: Option<Option<&str>>) -> Facts {
        Facts {
            version: "3.12.3".into(),
            executable: "/usr/bin/python3".into(),
            torch: torch.map(|cuda| Package {
                version: Some("2.11.0".into()),
                cuda: cuda.map(str::to_string),
            }),
            numpy: None,
            functions: vec![],
        }
    }

    #[test]
    fn pytorch_is_judged_by_what_is_asked_of_it() {
        let driver = CudaVersion::parse("12.4");
        let status =
            |torch, needed, timed| judge_torch(&facts(torch), driver, needed, timed).status;
        assert_eq!(status(None, false, false), Status::Note);
        assert_eq!(status(None, true, false), Status::Missing);
        assert_eq!(status(Some(None), true, false), Status::Ok);
        assert_eq!(status(Some(None), true, true), Status::Missing);
        assert_eq!(status(Some(Some("12.8")), true, true), Status::Ok);
        assert_eq!(status(Some(Some("13.0")), true, false), Status::Warning);
        assert_eq!(status(Some(Some("13.0")), true, true), Status::Missing);
    }
}
