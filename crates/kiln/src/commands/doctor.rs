//! `kiln doctor`: what this machine can do, and the command that mends what it cannot.
//!
//! Every part looks for itself, in a thread with a deadline; judging what was found comes after and
//! touches nothing. The driver is asked through NVML, so no CUDA context is ever made here.

mod finding;
mod gpu;
mod machine;
mod needs;
mod probe;
mod python;
mod report;
mod toolkit;
mod tools;
mod walls;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kiln_core::journal::{DoctorRun, Entry};

use crate::cli::DoctorArgs;
use crate::engine::{children, interrupt, interrupted};
use crate::exit::{Exit, Failure};
use crate::learn::now_unix_ms;
use crate::nvml;
use crate::project::ManifestFile;
use crate::store::{SqliteStore, Store};
use crate::{printer, project};

use finding::Finding;
use needs::Needs;
use report::Report;

/// Everything together stays below the five seconds a person waits without wondering.
const PATIENCE: Duration = Duration::from_millis(4500);

pub fn run(args: &DoctorArgs) -> Result<Exit, Failure> {
    interrupt::install().map_err(|e| Failure::machine(format!("cannot watch for Ctrl-C: {e}")))?;
    let until = Instant::now() + PATIENCE;
    let file = match &args.path {
        Some(path) => Some(project::read(&project::locate(Some(path))?)?),
        None => None,
    };
    let needs = file.as_ref().map(Needs::of);
    let root = file.as_ref().map_or_else(here, |file| file.root.clone());
    let noted_root = root.clone();
    let report = Report::new(examine(needs.as_ref(), root, until), needs.as_ref());
    // Whatever did not answer is not waited for, and must not live on.
    children::kill_all();
    if interrupt::asked() {
        return Err(interrupted());
    }
    note(&noted_root, file.as_ref(), &report);
    match args.json {
        true => printer::document(&report.json()),
        false => printer::data(&report.text()),
    }
    Ok(report.exit())
}

/// That somebody looked, for the record of a project that has one. A store that cannot be used is for others to report.
fn note(root: &Path, file: Option<&ManifestFile>, report: &Report) {
    // Before the first study there is no store yet; where a manifest is, there will be one.
    let has_manifest = file.is_some() || Path::new(project::MANIFEST_NAME).is_file();
    let store = match has_manifest {
        true => SqliteStore::open(root).map(Some),
        false => SqliteStore::open_existing(root),
    };
    let Ok(Some(mut store)) = store else {
        return;
    };
    let run = DoctorRun {
        manifest: file.map_or_else(String::new, ManifestFile::name),
        problems: report.problems(),
    };
    let _ = store.enter(now_unix_ms(), &Entry::DoctorRan(run));
}

fn here() -> PathBuf {
    let current = std::env::current_dir().unwrap_or_else(|_| ".".into());
    project::project_root(&current)
}

fn examine(needs: Option<&Needs>, root: PathBuf, until: Instant) -> Vec<Finding> {
    let functions = needs.map_or_else(Vec::new, |needs| needs.python.clone());
    let nvml = probe::start(nvml::look);
    let toolkit = probe::start(toolkit::look);
    let python = probe::start(move || python::look(&functions));
    let tools = probe::start(tools::look);
    let compiler = probe::start(tools::look_for_c_compiler);
    let machine = probe::start(move || machine::look(&root));
    let walls = probe::start(walls::look);

    let nvml = nvml.take(until);
    let toolkit = toolkit.take(until);
    let driver_cuda = nvml.as_ref().and_then(nvml::Answer::driver_cuda);

    let architectures = nvml
        .as_ref()
        .map_or_else(Vec::new, nvml::Answer::architectures);

    let mut findings = match &nvml {
        Some(answer) => gpu::judge(answer),
        None => vec![unanswered("driver", "the NVIDIA driver").fix("sudo dmesg | grep -i nvidia")],
    };
    findings.extend(match &toolkit {
        Some(found) => toolkit::judge(found, driver_cuda, &architectures, needs),
        None => vec![unanswered("nvrtc", "looking for a CUDA compiler")],
    });
    findings.extend(match python.take(until) {
        Some(found) => python::judge(&found, driver_cuda, needs),
        None => vec![unanswered("python", "the Python interpreter")],
    });
    findings.extend(match tools.take(until) {
        Some(found) => tools::judge(&found),
        None => vec![unanswered("ncu", "looking for profilers")],
    });
    findings.extend(match compiler.take(until) {
        Some(found) => vec![tools::judge_c_compiler(&found)],
        None => vec![unanswered("c_compiler", "the C compiler")],
    });
    findings.extend(match machine.take(until) {
        Some(found) => machine::judge(&found, needs.is_some()),
        None => vec![unanswered("home", "the file system")],
    });
    findings.push(match walls.take(until) {
        Some(found) => walls::judge(&found),
        None => unanswered("sandbox", "a worker in its sandbox"),
    });
    findings
}

fn unanswered(check: &'static str, what: &str) -> Finding {
    let seconds = PATIENCE.as_secs_f64();
    Finding::missing(check, format!("{what} did not answer within {seconds} s"))
        .why("what does not answer now will hold up a study too")
        .fix("look for hanging mounts and programs, then run `kiln doctor` again")
}
