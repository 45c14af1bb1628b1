//! `kiln toolchain`: the CUDA compilers of this machine, and kiln's own.

use serde_json::{Value, json};

use crate::cli::{ToolchainArgs, ToolchainVerb};
use crate::exit::{Exit, Failure};
use crate::printer;
use crate::report::terminal::human_bytes;
use crate::toolchain::install::{self, Done, Installed};
use crate::toolchain::{CudaToolchain, Found, Survey};

pub fn run(args: &ToolchainArgs) -> Result<Exit, Failure> {
    match &args.verb {
        None => list(args.json),
        Some(ToolchainVerb::Install {
            cuda,
            python,
            dry_run,
        }) => install(cuda, python.as_deref(), *dry_run),
        Some(ToolchainVerb::Verify) => verify(),
        Some(ToolchainVerb::Remove { cuda }) => remove(cuda.as_deref()),
    }
}

fn list(json: bool) -> Result<Exit, Failure> {
    let survey = Survey::make()?;
    match json {
        true => printer::document(&as_json(&survey)),
        false => printer::data(&as_text(&survey)),
    }
    Ok(Exit::Success)
}

fn as_text(survey: &Survey) -> String {
    let used = survey.used();
    let mut lines = Vec::new();
    for (index, found) in survey.found.iter().enumerate() {
        let mark = if used == Some(index) {
            "used "
        } else {
            "     "
        };
        match &found.result {
            Ok(toolchain) => lines.extend(describe(mark, toolchain)),
            Err(why) => lines.push(format!("{mark}unusable, from {}: {why}", found.origin)),
        }
    }
    if used.is_none() {
        lines.push("no CUDA compiler (NVRTC) was found".into());
        let empty = survey.empty.iter();
        lines.extend(empty.map(|place| format!("     not in {place}")));
        lines.push("`kiln toolchain install` fetches one for kiln alone, without root".into());
    }
    lines.join("\n")
}

fn describe(mark: &str, toolchain: &CudaToolchain) -> Vec<String> {
    let architectures: Vec<String> = toolchain
        .architectures
        .iter()
        .map(|number| format!("sm_{number}"))
        .collect();
    let mut lines = vec![
        format!("{mark}CUDA {} from {}", toolchain.version, toolchain.origin),
        format!("       NVRTC    {}", toolchain.library.display()),
    ];
    let dirs = toolchain.include_dirs.iter();
    lines.extend(dirs.map(|dir| format!("       headers  {}", dir.display())));
    if !toolchain.missing_headers.is_empty() {
        let missing = toolchain.missing_headers.join(", ");
        lines.push(format!("       missing  {missing}"));
    }
    if let Some(nvcc) = &toolchain.nvcc {
        lines.push(format!("       nvcc     {}", nvcc.display()));
    }
    lines.push(format!("       targets  {}", architectures.join(" ")));
    lines
}

fn as_json(survey: &Survey) -> Value {
    let found: Vec<Value> = survey.found.iter().map(found_json).collect();
    json!({
        "schema_version": 1,
        "used": survey.used(),
        "found": found,
        "searched_in_vain": survey.empty,
    })
}

fn found_json(found: &Found) -> Value {
    let mut value = json!({ "origin": found.origin, "library": found.library });
    match &found.result {
        Err(why) => value["problem"] = json!(why),
        Ok(toolchain) => {
            value["version"] = json!(toolchain.version);
            value["builtins"] = json!(toolchain.builtins);
            value["include_dirs"] = json!(toolchain.include_dirs);
            value["missing_headers"] = json!(toolchain.missing_headers);
            value["nvcc"] = json!(toolchain.nvcc);
            value["architectures"] = json!(toolchain.architectures);
            value["identity"] = json!(toolchain.identity);
        }
    }
    value
}

fn install(cuda: &str, python: Option<&str>, dry_run: bool) -> Result<Exit, Failure> {
    let plan = install::plan(cuda, python)?;
    if dry_run {
        printer::data(&format!(
            "would fetch {} with the pip of `{}` into {}",
            plan.packages.join(" "),
            plan.python,
            plan.folder.display()
        ));
        return Ok(Exit::Success);
    }
    let damage = plan.damage();
    if let Some(first) = damage.as_ref().and_then(|damage| damage.first()) {
        printer::talk(&format!(
            "CUDA {} is damaged ({first}) and is replaced",
            plan.version
        ));
    }
    let done = if damage.is_some_and(|damage| damage.is_empty()) {
        Done::WasThere
    } else {
        printer::talk(&format!(
            "fetching the compiler of CUDA {} with the pip of `{}`: some 150 MB",
            plan.version, plan.python
        ));
        plan.run()?
    };
    let done = match done {
        Done::Installed => "installed and compiled with",
        Done::WasThere => "was already installed",
    };
    printer::data(&format!(
        "CUDA {} {done}, in {}",
        plan.version,
        plan.folder.display()
    ));
    Ok(Exit::Success)
}

fn verify() -> Result<Exit, Failure> {
    let installed = install::installed();
    if installed.is_empty() {
        printer::data("kiln has installed no toolchain");
    }
    let mut exit = Exit::Success;
    for own in &installed {
        let damage = install::verify(own);
        if damage.is_empty() {
            printer::data(&format!("CUDA {} is as it was installed", own.version));
            continue;
        }
        exit = Exit::No;
        printer::data(&format!(
            "CUDA {} is damaged: {}",
            own.version,
            damage.join(", ")
        ));
        printer::talk(&format!(
            "hint: `kiln toolchain install --cuda {}` replaces it",
            own.version
        ));
    }
    Ok(exit)
}

fn remove(cuda: Option<&str>) -> Result<Exit, Failure> {
    let installed = install::installed();
    let wanted: Vec<&Installed> = installed
        .iter()
        .filter(|own| cuda.is_none_or(|version| version == own.version))
        .collect();
    if wanted.is_empty() {
        printer::data(&match cuda {
            Some(version) => format!("kiln has not installed CUDA {version}"),
            None => "kiln has installed no toolchain".into(),
        });
    }
    for own in wanted {
        let bytes = install::remove(own)?;
        printer::data(&format!(
            "removed CUDA {}, {}",
            own.version,
            human_bytes(bytes)
        ));
    }
    Ok(Exit::Success)
}
