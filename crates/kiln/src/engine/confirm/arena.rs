//! One duel: two processes take turns, and everything they write is looked at.

use std::sync::Arc;
use std::time::Duration;

use kiln_core::event::{EnergyPair, OtherCaches};
use kiln_core::input;
use kiln_core::numerics::Expected;
use kiln_core::protocol::{Caches, Problem, Request, SamplePlan};
use kiln_core::stats;

use super::fresh::{self, Meeting};
use super::{Duel, suspicion};
use crate::engine::evaluate::{self, Contender, Stop};
use crate::engine::oracle::Oracle;
use crate::engine::sampling::{self, Style};
use crate::engine::worker::{Worker, WorkerEnd, WorkerKind};
use crate::engine::{Stream, run_deadline};
use crate::exit::Failure;
use crate::task::Task;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Baseline = 0,
    Candidate = 1,
}

/// One side at work: its process, frozen while the other one runs.
pub(super) struct Corner<'a> {
    pub(super) worker: Worker,
    pub(super) contender: &'a Contender,
    /// What one sample is; known after warming up.
    pub(super) plan: Option<SamplePlan>,
    pub(super) samples_ns: Vec<f64>,
    /// How many of them other programs took a core from.
    pub(super) interrupted: usize,
    /// The clock at each of them, as far as it is known.
    pub(super) clocks_mhz: Vec<u32>,
    /// How launches on inputs met for the first time compare with others.
    pub(super) meetings: Vec<Meeting>,
    pub(super) other_caches_ns: Option<f64>,
    pub(super) energy_mj: Option<f64>,
    /// Inputs whose outputs have been compared.
    pub(super) found_right: Vec<u64>,
}

impl<'a> Corner<'a> {
    pub(super) fn new(worker: Worker, contender: &'a Contender) -> Corner<'a> {
        Corner {
            worker,
            contender,
            plan: None,
            samples_ns: Vec::new(),
            interrupted: 0,
            clocks_mhz: Vec::new(),
            meetings: Vec::new(),
            other_caches_ns: None,
            energy_mj: None,
            found_right: Vec::new(),
        }
    }

    /// Whether its process may serve once more; only a GPU's says so.
    pub(super) fn is_sound(&mut self) -> bool {
        let on_gpu = matches!(self.contender.program.worker, WorkerKind::Cuda { .. });
        on_gpu && evaluate::unload(&mut self.worker).is_some()
    }
}

pub(super) struct Arena<'a> {
    pub(super) task: &'a Task,
    pub(super) oracle: &'a mut Oracle,
    pub(super) seed: u64,
    pub(super) secret: u64,
    /// Also measure what is shown beside the verdict.
    pub(super) extras: bool,
    /// Whose turn it is; whatever goes wrong is that side's doing.
    pub(super) acting: Side,
}

impl Arena<'_> {
    pub(super) fn fight(
        &mut self,
        corners: &mut [Corner<'_>; 2],
        samples: usize,
    ) -> Result<Duel, Stop> {
        let deadline = run_deadline(self.task);
        // Answers first: the reference may use the same device.
        for set in 0..self.input_sets() {
            self.expected(self.inputs_seed(set))?;
        }
        if self.task.is_cuda() {
            self.bring_both(corners, deadline)?;
        }
        for side in [Side::Baseline, Side::Candidate] {
            self.turn(corners, side, |arena, corner| {
                arena.set_up(corner, deadline)
            })?;
        }
        for step in 0..samples as u64 {
            for side in self.order(step) {
                self.turn(corners, side, |arena, corner| {
                    arena.take_sample(corner, step, deadline)
                })?;
            }
        }
        // Once per candidate will do: it costs new inputs and answers.
        if self.extras {
            self.turn(corners, Side::Candidate, |arena, corner| {
                arena.meet_fresh_inputs(corner, deadline)
            })?;
            for side in [Side::Baseline, Side::Candidate] {
                self.turn(corners, side, |arena, corner| {
                    arena.measure_extras(corner, deadline)
                })?;
            }
        }
        let [baseline, candidate] = corners;
        if let Some(fault) = fresh::remembers_inputs(&candidate.meetings) {
            return Err(Stop::Wrong(fault));
        }
        let clocks_mhz = [&mut *baseline, &mut *candidate].map(|corner| {
            let all_known = corner.clocks_mhz.len() == corner.samples_ns.len();
            all_known.then(|| std::mem::take(&mut corner.clocks_mhz))
        });
        let [of_baseline, of_candidate] = clocks_mhz;
        Ok(Duel {
            clocks_mhz: of_baseline.zip(of_candidate).map(<[Vec<u32>; 2]>::from),
            interrupted: baseline.interrupted + candidate.interrupted,
            fresh_inputs: fresh::recorded(&candidate.meetings),
            baseline_ns: std::mem::take(&mut baseline.samples_ns),
            candidate_ns: std::mem::take(&mut candidate.samples_ns),
            other_caches: baseline.other_caches_ns.zip(candidate.other_caches_ns).map(
                |(baseline_ns, winner_ns)| OtherCaches {
                    caches: other(self.task.manifest().measure.caches),
                    baseline_ns,
                    winner_ns,
                },
            ),
            energy_mj: baseline
                .energy_mj
                .zip(candidate.energy_mj)
                .map(|(baseline, winner)| EnergyPair { baseline, winner }),
        })
    }

    /// Lets one side run while the other is frozen: threads a candidate leaves behind, its
    /// floating-point modes and its memory cannot touch the other side's times.
    fn turn(
        &mut self,
        corners: &mut [Corner<'_>; 2],
        side: Side,
        act: impl FnOnce(&mut Self, &mut Corner<'_>) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        self.acting = side;
        let corner = &mut corners[side as usize];
        // On a GPU the worker's own code is all that runs in it, and it waits for us.
        if self.task.is_cuda() {
            return act(self, corner);
        }
        corner.worker.thaw();
        act(self, corner)?;
        corner.worker.freeze();
        Ok(())
    }

    /// Who goes first is drawn for each pair, so that neither side always runs on the other's
    /// caches and clocks.
    fn order(&self, step: u64) -> [Side; 2] {
        if input::mix(&[self.seed, Stream::Order as u64, step]) & 1 == 0 {
            [Side::Baseline, Side::Candidate]
        } else {
            [Side::Candidate, Side::Baseline]
        }
    }

    /// Both sides draw their inputs side by side, which on a GPU takes longer than the samples do
    /// and is not timed.
    fn bring_both(
        &mut self,
        corners: &mut [Corner<'_>; 2],
        deadline: Duration,
    ) -> Result<(), Stop> {
        let (task, target) = (self.task, self.task.manifest().target());
        // The first set last: it is the one to begin with.
        let seeds: Vec<u64> = (0..self.input_sets())
            .rev()
            .map(|set| self.inputs_seed(set))
            .collect();
        let bring = |corner: &mut Corner<'_>| -> Result<(), Stop> {
            evaluate::load(&mut corner.worker, &corner.contender.program, deadline)?;
            for seed in &seeds {
                let problem = corner.contender.problem(task, target, *seed)?;
                corner.worker.prepare(&problem, deadline)?;
            }
            Ok(())
        };
        let brought = std::thread::scope(|scope| {
            let bring = &bring;
            let running = corners
                .each_mut()
                .map(|corner| scope.spawn(move || bring(corner)));
            running.map(|side| {
                let ended = side.join();
                ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })
        });
        for (side, result) in [Side::Baseline, Side::Candidate].into_iter().zip(brought) {
            self.acting = side;
            result?;
        }
        Ok(())
    }

    fn set_up(&mut self, corner: &mut Corner<'_>, deadline: Duration) -> Result<(), Stop> {
        if !self.task.is_cuda() {
            evaluate::load(&mut corner.worker, &corner.contender.program, deadline)?;
        }
        self.prepare(corner, self.inputs_seed(0), deadline)?;
        let poison = input::mix(&[self.seed, 10]);
        let style = corner.contender.style;
        corner.plan = Some(sampling::warm_up(&mut corner.worker, style, poison, deadline)?.0);
        if style.on_gpu && matches!(corner.contender.program.worker, WorkerKind::Cuda { .. }) {
            // What warming up left in the image's variables goes with the module; the first launch
            // of the new one is not timed.
            evaluate::load(&mut corner.worker, &corner.contender.program, deadline)?;
            sampling::single_launch(&mut corner.worker, style, poison, deadline)?;
        }
        Ok(())
    }

    /// Samples alternate between inputs at different addresses, so that nothing a launch keeps
    /// about its inputs serves the next one.
    pub(super) fn input_sets(&self) -> u64 {
        const MOST_BYTES: u64 = 1 << 29;
        let small = self.task.target_bytes().is_some_and(|b| b <= MOST_BYTES);
        if small { 2 } else { 1 }
    }

    /// On a CPU every duel has a first set of its own, and all share the second: each process meets
    /// both for the first time, and answers for more would take longer than all the rest.
    fn inputs_seed(&self, step: u64) -> u64 {
        let base = match self.task.is_cuda() {
            true => self.seed,
            false => self.secret,
        };
        match step % self.input_sets() {
            0 => self.seed,
            set => input::mix(&[base, Stream::Inputs as u64, set]),
        }
    }

    pub(super) fn expected(&mut self, seed: u64) -> Result<Arc<Vec<Expected>>, Failure> {
        let target = self.task.manifest().target();
        self.oracle.expected(self.task, target, seed)
    }

    pub(super) fn prepare(
        &self,
        corner: &mut Corner<'_>,
        seed: u64,
        deadline: Duration,
    ) -> Result<Problem, Stop> {
        let target = self.task.manifest().target();
        let problem = corner.contender.problem(self.task, target, seed)?;
        corner.worker.prepare(&problem, deadline)?;
        Ok(problem)
    }

    /// One timed burst, and what it wrote must be right: a kernel that is wrong now and then is
    /// wrong.
    fn take_sample(
        &mut self,
        corner: &mut Corner<'_>,
        step: u64,
        deadline: Duration,
    ) -> Result<(), Stop> {
        let seed = self.inputs_seed(step);
        let poison = input::mix(&[self.seed, 100 + step]);
        let problem = self.prepare(corner, seed, deadline)?;
        let plan = corner.plan.expect("set up before sampling");
        let taken = sampling::run_bursts(&mut corner.worker, plan, poison, deadline)?;
        corner.samples_ns.extend(taken.nanos);
        corner.interrupted += usize::from(taken.interruptions > 0);
        let conditions = taken.conditions.into_iter();
        corner
            .clocks_mhz
            .extend(conditions.flat_map(|c| c.clocks_mhz));
        self.check_outputs(corner, &problem, seed, poison, deadline)
    }

    /// Times with the caches in their other state, and the energy of a launch. Shown, not judged.
    fn measure_extras(&mut self, corner: &mut Corner<'_>, deadline: Duration) -> Result<(), Stop> {
        const SAMPLES: u32 = 20;
        if !self.task.is_cuda() {
            return Ok(());
        }
        let style = Style {
            caches: other(corner.contender.style.caches),
            ..corner.contender.style
        };
        self.prepare(corner, self.seed, deadline)?;
        let poison = input::mix(&[self.seed, 11]);
        let worker = &mut corner.worker;
        let (mut plan, _) = sampling::warm_up(worker, style, poison, deadline)?;
        plan.bursts = SAMPLES;
        let taken = sampling::run_bursts(worker, plan, poison, deadline)?;
        corner.other_caches_ns = Some(stats::median(&taken.nanos));
        if self.task.manifest().measure.energy {
            let plan = SamplePlan {
                energy: true,
                ..corner.plan.expect("set up before sampling")
            };
            let taken = sampling::run_bursts(worker, plan, poison, deadline)?;
            corner.energy_mj = taken.conditions.and_then(|c| c.energy_mj);
        }
        self.catch_skipping(corner, deadline)
    }

    /// Within a burst all launches but the first find right outputs. Single launches tell whether
    /// that makes a difference: with the caches flushed nothing else does.
    fn catch_skipping(&self, corner: &mut Corner<'_>, deadline: Duration) -> Result<(), Stop> {
        const SAMPLES: u32 = 15;
        if self.acting == Side::Baseline {
            return Ok(());
        }
        let mut median = |keep_outputs: bool| {
            let plan = SamplePlan {
                launches: 1,
                bursts: SAMPLES,
                caches: Caches::Cold,
                energy: false,
                keep_outputs,
                ..corner.plan.expect("set up before sampling")
            };
            let poison = input::mix(&[self.seed, 12, u64::from(keep_outputs)]);
            let taken = sampling::run_bursts(&mut corner.worker, plan, poison, deadline)?;
            Ok::<f64, WorkerEnd>(stats::median(&taken.nanos))
        };
        let (poisoned_ns, kept_ns) = (median(false)?, median(true)?);
        match suspicion::skips_work(poisoned_ns, kept_ns) {
            Some(fault) => Err(Stop::Wrong(fault)),
            None => Ok(()),
        }
    }

    pub(super) fn check_outputs(
        &mut self,
        corner: &mut Corner<'_>,
        problem: &Problem,
        seed: u64,
        poison: u64,
        deadline: Duration,
    ) -> Result<(), Stop> {
        // Bit for bit what was found right before need not travel again.
        let same_will_do = corner.found_right.contains(&seed);
        let answer = corner
            .worker
            .request(&Request::Inspect { same_will_do }, deadline)?;
        if let Some(outputs) = evaluate::inspected(answer, same_will_do)? {
            let expected = self.expected(seed)?;
            evaluate::compare(problem, &expected, &outputs, poison).map_err(Stop::Wrong)?;
            corner.found_right.push(seed);
        }
        Ok(())
    }

    /// The same for inputs that no seed stands for.
    pub(super) fn check_against(
        &mut self,
        corner: &mut Corner<'_>,
        problem: &Problem,
        expected: &[Expected],
        poison: u64,
        deadline: Duration,
    ) -> Result<(), Stop> {
        let request = Request::Inspect {
            same_will_do: false,
        };
        let answer = corner.worker.request(&request, deadline)?;
        let outputs = evaluate::answer_outputs(answer)?;
        evaluate::compare(problem, expected, &outputs, poison).map_err(Stop::Wrong)?;
        Ok(())
    }
}

fn other(caches: Caches) -> Caches {
    match caches {
        Caches::Warm => Caches::Cold,
        Caches::Cold => Caches::Warm,
    }
}
