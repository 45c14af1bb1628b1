//! Compiled configs: from the cache, or compiled now, for every architecture asked for.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use kiln_core::diagnostic::printable;
use kiln_core::manifest::Language;
use kiln_core::protocol::DeviceInfo;
use kiln_core::trial::{Assignment, Outcome};

use super::files::{Folder, sha256};
use super::package::{Geometry, Image, Target};
use super::plan::Plan;
use super::winners::{Chosen, Winners};
use super::{Request, sources};
use crate::cache::Cache;
use crate::commands::check;
use crate::engine::compile_pool::{Build, CompilePool};
use crate::engine::{interrupt, interrupted};
use crate::exit::Failure;
use crate::project::{self, ManifestFile};
use crate::settings;
use crate::task::Task;

/// Which targets carry compiled code.
fn needs_images(target: Target, language: Language) -> bool {
    match (target, language) {
        (Target::Json | Target::Header, _) => false,
        (Target::Torch, _) => true,
        // Kernels in C are compiled by the user's compiler, for the user's processor.
        (Target::Cpp | Target::Rust | Target::Cubin, language) => language == Language::Cuda,
    }
}

/// The architecture a device's own images are made for.
fn architectures(request: &Request, winners: &Winners) -> Vec<Option<String>> {
    let own = winners.device.as_ref().and_then(|d| d.cuda.as_ref());
    match (request.architectures.as_slice(), own) {
        ([], Some(_)) => vec![None],
        ([], None) => vec![None],
        (named, _) => named.iter().cloned().map(Some).collect(),
    }
}

fn device(
    file: &ManifestFile,
    winners: &Winners,
    architecture: Option<&str>,
) -> Result<DeviceInfo, Failure> {
    let is_cuda = file.manifest.kernel.language == Language::Cuda;
    match (&winners.device, architecture) {
        (Some(device), None) if !is_cuda || device.cuda.is_some() => Ok(device.clone()),
        (_, Some(name)) => check::device(file, name),
        (_, None) if !is_cuda => check::device(file, ""),
        (_, None) => Err(Failure::usage(
            "for which GPU? The winners' device is not known in all its limits",
        )
        .hint("name its architecture, e.g. `--arch sm_90a`")),
    }
}

/// Checks every config against its shape, compiles it where the target wants that, and notes launches and
/// data files. Returns the files of the project that the compiler reads for all this.
pub fn build(
    file: &ManifestFile,
    winners: &Winners,
    request: &Request,
    plan: &mut Plan,
    folder: &mut Folder,
) -> Result<BTreeSet<PathBuf>, Failure> {
    let wanted = needs_images(request.target, plan.language);
    let pool = wanted
        .then(|| {
            Ok::<_, Failure>(CompilePool::new(
                Arc::new(Cache::open()?),
                settings::compile_jobs(),
            ))
        })
        .transpose()?;
    let mut data_files = Vec::new();
    let mut read = BTreeSet::new();
    for architecture in architectures(request, winners) {
        let device = device(file, winners, architecture.as_deref())?;
        let mut jobs: Vec<(usize, Build, Task)> = Vec::new();
        for (index, chosen) in winners.chosen.iter().enumerate() {
            let mut own = project::read(&file.path)?;
            own.aim_at(Some(&chosen.shape))?;
            let task = Task::new(own, device.clone(), architecture.as_deref())?;
            legal_on(&task, chosen)?;
            data_files.extend(task.data_files());
            read.extend(task.read_for(std::slice::from_ref(&chosen.config))?);
            plan.dispatch[index].geometry =
                task.target_launch(&chosen.config).map(|launch| Geometry {
                    grid: launch.grid,
                    block: launch.block,
                    shared_bytes: launch.shared_bytes,
                });
            let at = plan.configs.iter().position(|c| c.values == chosen.config);
            let at = at.unwrap_or_default();
            if wanted && !jobs.iter().any(|(known, _, _)| *known == at) {
                jobs.push((at, task.candidate_build(&chosen.config), task));
            }
        }
        if let Some(pool) = &pool {
            compile(pool, jobs, plan, folder)?;
        }
    }
    data_files.sort();
    data_files.dedup();
    for path in data_files {
        let path = PathBuf::from(path);
        let bytes = sources::read(&path)?;
        sources::put(file, &path, &bytes, folder)?;
    }
    Ok(read)
}

fn legal_on(task: &Task, chosen: &Chosen) -> Result<(), Failure> {
    let refuse = |why: String| {
        Failure::usage(format!(
            "the config of shape `{}` ({}) is not valid any more: {why}",
            chosen.shape, chosen.evidence.from
        ))
        .hint("tune the shape again")
    };
    let config = task.space.config_from(&chosen.config);
    let config = config.map_err(|e| refuse(e.to_string()))?;
    if task.space.contains(&config) {
        return Ok(());
    }
    let rules = task.space.broken_rules(&config);
    let rules: Vec<String> = rules.iter().map(|r| format!("`{}`", r.name)).collect();
    Err(refuse(format!("it breaks {}", rules.join(", "))))
}

fn compile(
    pool: &CompilePool,
    jobs: Vec<(usize, Build, Task)>,
    plan: &mut Plan,
    folder: &mut Folder,
) -> Result<(), Failure> {
    let builds: Vec<Build> = jobs.iter().map(|(_, build, _)| build.clone()).collect();
    let results = pool.build_all(&builds)?;
    if interrupt::asked() {
        return Err(interrupted());
    }
    for ((at, build, task), result) in jobs.into_iter().zip(results) {
        let config = &mut plan.configs[at];
        let built = result.map_err(|outcome| not_compiled(&config.values, &outcome))?;
        let bytes = std::fs::read(&built.artifact.image)
            .map_err(|e| Failure::io("cannot read an image from the cache", &e))?;
        let (architecture, suffix) = match plan.language {
            Language::Cuda => (task.architecture.clone(), "cubin"),
            Language::C => (std::env::consts::ARCH.to_string(), "so"),
        };
        let name = format!(
            "images/{}_{}.{architecture}.{suffix}",
            plan.identifier, config.id
        );
        folder.bytes(&name, &bytes)?;
        config.images.push(Image {
            architecture,
            file: name,
            symbol: built.program(&build).symbol,
            sha256: sha256(&bytes),
            resources: built.artifact.compiled.resources,
            compiler: task.compiler_identity(),
        });
    }
    Ok(())
}

fn not_compiled(config: &Assignment, outcome: &Outcome) -> Failure {
    let log = match outcome {
        Outcome::NotCompiled(failure) => format!("\n{}", failure.log.trim_end()),
        _ => String::new(),
    };
    Failure::usage(format!(
        "a winner does not compile here: {outcome} ({}){log}",
        printable(&crate::report::terminal::config_text(config))
    ))
    .hint("`kiln toolchain` shows which compiler is used")
}
