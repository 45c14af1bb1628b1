//! kiln's promises, tried on the user's own machine through the same engine that tunes.
//!
//! Flow: a [`Ground`] unpacks the embedded kernels into a temporary folder, each section runs what
//! it is about and writes into its [`Report`], and the command shows them all.

mod aa;
mod arguments;
mod bottlenecks;
pub mod configs;
mod faults;
mod gate;
mod ground;
mod hello;
mod kernels;
mod occupancy;
mod report;
mod throughput;
mod timing;
mod torch;
mod walls;
mod watch;

pub use ground::{Ground, Size};
pub use report::{Report, document, table};

use crate::cli::Backend;
use crate::exit::Failure;

/// One question, and how it is answered.
pub struct Section {
    pub name: &'static str,
    pub question: &'static str,
    run: fn(&Ground, &mut Report) -> Result<(), Failure>,
}

impl Section {
    /// Runs the section. What keeps it from its end is a finding like any other.
    pub fn run(&self, ground: &Ground) -> Result<Report, Failure> {
        let mut report = Report::new(self.name, self.question);
        match (self.run)(ground, &mut report) {
            Ok(()) => {}
            Err(failure) if failure.exit == crate::exit::Exit::Interrupted => return Err(failure),
            Err(failure) => report.broke(&failure),
        }
        report.close();
        Ok(report)
    }
}

const HELLO: Section = Section {
    name: "hello",
    question: "does the whole loop run, and how soon is there a verdict?",
    run: hello::run,
};

const FAULTS: Section = Section {
    name: "faults",
    question: "is every fault called by its name, and is the next kernel none the worse?",
    run: faults::run,
};

const AA: Section = Section {
    name: "aa",
    question: "is a kernel the same as itself, and slower when it is?",
    run: aa::run,
};

const GATE: Section = Section {
    name: "gate",
    question: "does `kiln gate` let the same kernel pass, and stop a slower one?",
    run: gate::run,
};

const WALLS: Section = Section {
    name: "walls",
    question: "is a kernel as fast in its sandbox as without?",
    run: walls::run,
};

const CUDA: &[Section] = &[
    HELLO,
    FAULTS,
    Section {
        name: "arguments",
        question: "do tensor maps, clusters and cooperative launches arrive as written?",
        run: arguments::run,
    },
    Section {
        name: "occupancy",
        question: "does kiln count the blocks on a multiprocessor as the driver does?",
        run: occupancy::run,
    },
    Section {
        name: "timing",
        question: "does kiln's clock agree with PyTorch's?",
        run: timing::run,
    },
    AA,
    WALLS,
    GATE,
    Section {
        name: "bottlenecks",
        question: "is what binds a kernel named, and does the advice bring what it promises?",
        run: bottlenecks::run,
    },
    Section {
        name: "throughput",
        question: "how many configs are compiled, checked and timed per minute?",
        run: throughput::run,
    },
];

const CPU: &[Section] = &[HELLO, FAULTS, AA, WALLS, GATE];

/// The sections a user wants, in their usual order.
pub fn sections(backend: Backend, only: &[String]) -> Result<Vec<&'static Section>, Failure> {
    let all = match backend {
        Backend::Cuda => CUDA,
        Backend::Cpu => CPU,
    };
    if let Some(unknown) = only.iter().find(|n| all.iter().all(|s| s.name != **n)) {
        let names: Vec<&str> = all.iter().map(|s| s.name).collect();
        return Err(
            Failure::usage(format!("there is no section `{unknown}` for this backend"))
                .hint(format!("sections: {}", names.join(", "))),
        );
    }
    let wanted = |s: &&Section| only.is_empty() || only.iter().any(|n| n == s.name);
    Ok(all.iter().filter(wanted).collect())
}
