//! The kernel iteration loop as one program. This file is a table of contents.
#![forbid(unsafe_code)]

mod cache;
mod cli;
mod commands;
mod durable;
mod engine;
mod exit;
mod export;
mod gate;
mod gates;
mod image;
mod interchange;
mod learn;
mod manual;
mod nvml;
mod packed;
mod printer;
mod profile;
mod project;
mod publishable;
mod recording;
mod redteam;
mod report;
mod rows;
mod selftest;
mod serve;
mod settings;
mod simulate;
mod since;
mod store;
mod task;
mod toolchain;

use clap::Parser;

use cli::{Cli, Verb, WorkerArg};
use exit::{Exit, Failure};
use kiln_device::sandbox::Jail;

fn main() {
    let cli = Cli::parse();
    // Without it a limit on the size of files is met less gracefully, and that is all. A kernel meets it as it will.
    if !matches!(cli.verb, Verb::Worker { .. }) {
        let _ = engine::interrupt::outlive_file_limit();
    }
    let result = match cli.verb {
        Verb::Doctor(args) => commands::doctor::run(&args),
        Verb::Tune(args) => commands::tune::run(&args),
        Verb::Check(args) => commands::check::run(&args),
        Verb::Space(args) => commands::space::run(&args),
        Verb::Compare(args) => commands::compare::run(&args),
        Verb::Profile(args) => commands::profile::run(&args),
        Verb::Gate(args) => commands::gate::run(&args),
        Verb::Export(args) => commands::export::run(&args),
        Verb::Verify(args) => commands::verify::run(&args),
        Verb::Init(args) => commands::init::run(&args),
        Verb::Iterate(args) => commands::iterate::run(&args),
        Verb::Lessons(args) => commands::lessons::run(&args),
        Verb::Studies(args) => commands::studies::run(&args),
        Verb::Report(args) => commands::report::run(&args),
        Verb::Explain(args) => commands::explain::run(&args),
        Verb::Replay(args) => commands::replay::run(&args),
        Verb::Cache(args) => commands::cache::run(&args),
        Verb::Toolchain(args) => commands::toolchain::run(&args),
        Verb::Selftest(args) => commands::selftest::run(&args),
        Verb::Redteam(args) => commands::redteam::run(&args),
        Verb::Schema => commands::schema::run(),
        Verb::Completions(args) => commands::completions::run(&args),
        Verb::Man(args) => commands::man::run(&args),
        Verb::Worker {
            kind,
            support,
            jail,
        } => worker(kind, support.as_deref(), jail.as_deref()),
    };
    let exit = result.unwrap_or_else(|failure| {
        printer::talk(&failure.to_string());
        failure.exit
    });
    std::process::exit(exit as i32);
}

fn worker(kind: WorkerArg, support: Option<&str>, jail: Option<&str>) -> Result<Exit, Failure> {
    let jail = jail
        .map(serde_json::from_str::<Jail>)
        .transpose()
        .map_err(|e| {
            Failure::new(
                Exit::Bug,
                format!("worker: a jail that cannot be read: {e}"),
            )
        })?;
    let jail = jail.as_ref();
    let ended = match kind {
        WorkerArg::Compile => kiln_device::worker::compile_main(jail),
        WorkerArg::Cpu => kiln_device::worker::cpu_main(jail),
        WorkerArg::Cuda => kiln_device::worker::cuda_main(support, jail),
    };
    ended
        .map(|()| Exit::Success)
        .map_err(|e| Failure::new(Exit::Bug, format!("worker: {e}")))
}
