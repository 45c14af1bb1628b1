//! Blocks per multiprocessor: kiln's own count against the driver's, over many compiled configs.

use std::time::Duration;

use kiln_core::protocol::{Request, Response};
use kiln_core::trial::Assignment;
use rand::SeedableRng;
use serde_json::json;

use super::configs;
use super::ground::Ground;
use super::kernels::{self, Kernel};
use super::report::{Mark, Report};
use crate::engine::compile_pool::{Build, Built};
use crate::engine::worker::{Worker, WorkerEnd, WorkerKind};
use crate::engine::{broken, evaluate, interrupt, interrupted};
use crate::exit::{Exit, Failure};
use crate::report::terminal::config_text;
use crate::task::{Part, Task};

const DEADLINE: Duration = Duration::from_secs(30);

pub fn run(ground: &Ground, report: &mut Report) -> Result<(), Failure> {
    let sampled = ground.size.pick(60, 12);
    let subjects: [(&str, Kernel, Option<usize>); 3] = [
        ("hello", kernels::HELLO, None),
        ("anchor", kernels::ANCHOR, None),
        ("matmul", kernels::MATMUL, Some(sampled)),
    ];
    let (mut compared, mut different) = (0, 0);
    for (name, kernel, sample) in subjects {
        let place = format!("occupancy-{name}");
        let task = ground.task(&kernel, &place, &[], &ground.pool)?;
        let chosen = match sample {
            Some(count) => spread(&task, count),
            None => configs::all(&task),
        };
        let counts = compare(ground, report, &task, name, &chosen)?;
        compared += counts.compared;
        different += counts.different;
    }
    report.number("compared", compared);
    report.number("different", different);
    report.judge(
        format!(
            "blocks per multiprocessor as the driver counts them: {different} of {compared} differ"
        ),
        "0",
        Mark::when(different == 0 && compared > 0),
    );
    Ok(())
}

fn spread(task: &Task, count: usize) -> Vec<Assignment> {
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(1);
    let chosen = task.space.latin_hypercube(count, &mut rng);
    chosen.iter().map(|c| task.space.assignment(c)).collect()
}

#[derive(Default)]
struct Counts {
    compared: usize,
    different: usize,
}

fn compare(
    ground: &Ground,
    report: &mut Report,
    task: &Task,
    name: &str,
    chosen: &[Assignment],
) -> Result<Counts, Failure> {
    let builds: Vec<Build> = chosen.iter().map(|c| task.candidate_build(c)).collect();
    let built = ground.pool.build_all(&builds)?;
    if interrupt::asked() {
        return Err(interrupted());
    }
    let kind = WorkerKind::cuda(task.support.clone());
    let mut worker = Worker::spawn(&kind).map_err(|end| broken(&end))?;
    let mut counts = Counts::default();
    for ((config, build), built) in chosen.iter().zip(&builds).zip(built) {
        let built = built.map_err(|outcome| {
            Failure::new(Exit::Bug, format!("{}: {outcome}", config_text(config)))
        })?;
        let ours = task
            .occupancy(built.artifact.compiled.resources.as_ref(), config)
            .map(|o| o.blocks_per_multiprocessor);
        let drivers = ask(&mut worker, task, &built, build, config)?;
        counts.compared += 1;
        let same = ours == Some(drivers);
        counts.different += usize::from(!same);
        report.item(
            "configs",
            json!({ "kernel": name, "config": config_text(config), "kiln": ours, "driver": drivers }),
        );
        if !same {
            report.row(&format!(
                "{name} {}: kiln {}, driver {drivers}{}",
                config_text(config),
                ours.map_or("nothing".into(), |n| n.to_string()),
                built
                    .artifact
                    .compiled
                    .resources
                    .map_or(String::new(), |r| format!(
                        " ({} registers, {} bytes of static shared memory, {} barriers)",
                        r.registers, r.static_shared_bytes, r.barriers
                    ))
            ));
        }
    }
    report.row(&format!("{name}: {} configs compared", counts.compared));
    Ok(counts)
}

fn ask(
    worker: &mut Worker,
    task: &Task,
    built: &Built,
    build: &Build,
    config: &Assignment,
) -> Result<u32, Failure> {
    let problem = task.problem(Part::Candidate, task.manifest().target(), config, 0)?;
    let launch = problem
        .launch
        .ok_or_else(|| Failure::new(Exit::Bug, "a CUDA problem without a launch".to_string()))?;
    let request = Request::Occupancy {
        threads: launch.block.iter().product(),
        shared_bytes: launch.shared_bytes,
    };
    let answer = evaluate::load(worker, &built.program(build), DEADLINE)
        .and_then(|()| worker.request(&request, DEADLINE));
    match answer {
        Ok((Response::Occupancy { blocks }, _)) => Ok(blocks),
        // More shared memory than there is: the driver will not even count.
        Err(WorkerEnd::Refused(kiln_core::protocol::Refusal::Device(_))) => Ok(0),
        Ok((other, _)) => Err(Failure::new(
            Exit::Bug,
            WorkerEnd::misplaced(&other, "about occupancy").to_string(),
        )),
        Err(end) => Err(broken(&end)),
    }
}
