//! What a strategy costs on large spaces: processor time per trial, averaged over 200 trials.
//! `cargo bench --bench ask` prints the table.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use kiln_core::input;
use kiln_core::interchange::t1::Definition;
use kiln_core::search::{STRATEGIES, strategy};
use kiln_core::space::{BuildLimits, Config, Space};
use kiln_core::trial::{CompileFailure, Measurement, Outcome, SampleStop};

const TRIALS: usize = 200;
const REPEATS: u64 = 5;

/// A made-up time: smooth in every tunable, rough between neighbours, and one config in eight fails.
fn outcome(space: &Space, config: &Config) -> Outcome {
    let rough = input::mix(&config.0.iter().map(|&p| u64::from(p)).collect::<Vec<_>>());
    if rough.is_multiple_of(8) {
        return Outcome::NotCompiled(CompileFailure {
            first_error: String::new(),
            log: String::new(),
        });
    }
    let smooth: f64 = (config.0.iter().zip(space.tunables()))
        .map(|(&p, t)| (f64::from(p) / t.values.len() as f64 - 0.4).powi(2))
        .sum();
    Outcome::Measured(Measurement {
        samples_ns: vec![1e5 * (1.0 + smooth) * (1.0 + 1e-4 * (rough % 1000) as f64)],
        batch: 1,
        stop: SampleStop::Precise,
        error_ratio: 0.0,
        conditions: None,
    })
}

fn main() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/spaces/construction");
    println!("milliseconds in the strategy per trial, {TRIALS} trials, best of {REPEATS}\n");
    println!("| strategy | expdist | hotspot |");
    println!("| --- | --- | --- |");
    let spaces: Vec<Arc<Space>> = ["expdist", "hotspot"]
        .iter()
        .map(|name| {
            let path = folder.join(format!("{name}.json"));
            let text = std::fs::read_to_string(&path).expect("the repository has the space");
            let definition = Definition::parse(&text).expect("it is a T1 file");
            Arc::new(definition.build(BuildLimits::default()).expect("it builds"))
        })
        .collect();
    for (name, _) in STRATEGIES {
        print!("| `{name}` |");
        for space in &spaces {
            let run = |seed: u64| {
                let mut strategy =
                    strategy(name, Arc::clone(space), seed, 20).expect("it is known");
                let mut seconds = 0.0;
                for _ in 0..TRIALS {
                    let started = Instant::now();
                    let config = strategy.ask(1).remove(0);
                    seconds += started.elapsed().as_secs_f64();
                    let outcome = outcome(space, &config);
                    let started = Instant::now();
                    strategy.tell(&config, &outcome);
                    seconds += started.elapsed().as_secs_f64();
                }
                1e3 * seconds / TRIALS as f64
            };
            let best = (0..REPEATS).map(run).fold(f64::INFINITY, f64::min);
            print!(" {best:.3} |");
        }
        println!();
    }
}
