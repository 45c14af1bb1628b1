//! What a finalist has to pass beside being fast: in fresh processes, on inputs and shapes nobody
//! has seen, again and again.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use kiln_core::acceptance::{Acceptance, Repeats, UnseenShape};
use kiln_core::input;
use kiln_core::manifest::{Shape, ShapePurpose};
use kiln_core::protocol::{Cores, Request};
use kiln_core::trial::{Assignment, Fault, Outcome, Phase};
use kiln_core::unseen::Unseen;
use kiln_core::value::Value;

use super::{Confirmer, greet};
use crate::engine::evaluate::{self, Contender, Place, Stop};
use crate::engine::worker::{OUTSIDE_KILLS_FORGIVEN, Worker, WorkerEnd};
use crate::engine::{Stream, run_deadline};
use crate::exit::Failure;
use crate::task::{Part, Task};

/// Repeats take no longer than this, as long as there are a few.
const REPEAT_BUDGET: Duration = Duration::from_secs(10);
const FEWEST_REPEATS: u64 = 3;
/// Shapes at the config's tiles, beside them and in whole ones; they are small.
const MOST_EDGES: usize = 40;
/// Shapes beside one tile and large otherwise: enough for three dimensions and six different numbers in a config.
const MOST_LARGE_EDGES: usize = 36;
/// The same on a GPU, where the reference takes far longer than the candidate.
const MOST_LARGE_EDGES_ON_A_GPU: usize = 4;

impl Confirmer<'_> {
    /// Looks at a finalist where the search did not. `Ok(Err(outcome))`: it failed.
    pub fn accept(
        &mut self,
        candidate: &Contender,
    ) -> Result<Result<Acceptance, Outcome>, Failure> {
        let (shapes, no_unseen) = self.unseen_shapes(candidate);
        (self.status)("confirming: shapes the search never saw");
        // One process for both: what it did on other shapes must not show in the repeats either.
        let found = self.alone(candidate, |confirmer, worker, place| {
            let unseen = confirmer.check_shapes(candidate, &shapes, worker, place)?;
            (confirmer.status)("confirming: the same inputs again and again");
            let repeats = confirmer.repeat(candidate, worker, place)?;
            Ok((unseen, repeats))
        })?;
        let (unseen, repeats) = match found {
            Ok(found) => found,
            Err(outcome) => return Ok(Err(outcome)),
        };
        let checked = self.check_memory(candidate, &shapes)?;
        Ok(checked.map(|sanitizer| Acceptance {
            unseen,
            no_unseen,
            repeats,
            fresh_inputs: None,
            sanitizer,
        }))
    }

    /// Runs something on a candidate in a fresh process of its own.
    pub(super) fn alone<T>(
        &mut self,
        candidate: &Contender,
        mut act: impl FnMut(&mut Self, &mut Worker, &mut Place) -> Result<T, Stop>,
    ) -> Result<Result<T, Outcome>, Failure> {
        let mut forgiven = 0;
        loop {
            let starting = self.start(candidate)?;
            let mut worker = greet(starting, candidate)?;
            let mut place = Place {
                phase: Phase::Accept,
                shape: None,
            };
            let deadline = run_deadline(self.task);
            let done = match evaluate::load(&mut worker, &candidate.program, deadline) {
                Ok(()) => act(self, &mut worker, &mut place),
                Err(end) => Err(end.into()),
            };
            match done {
                Ok(value) => return Ok(Ok(value)),
                Err(Stop::Worker(WorkerEnd::Signal(9))) if forgiven < OUTSIDE_KILLS_FORGIVEN => {
                    forgiven += 1;
                }
                Err(stop) => return Ok(Err(place.outcome_of(stop, self.task, &worker)?)),
            }
        }
    }

    /// Some that are the same for all finalists, as far as their configs allow, and some at the edges of this
    /// one's tiles.
    fn unseen_shapes(&self, candidate: &Contender) -> (Vec<Shape>, Option<String>) {
        let manifest = self.task.manifest();
        let unseen = match Unseen::of(manifest) {
            Ok(unseen) => unseen,
            Err(why) => return (Vec::new(), Some(why)),
        };
        let seed = input::mix(&[self.secret, Stream::Unseen as u64]);
        let count = manifest.confirm.unseen_shapes as usize;
        let suits = |shape: &Shape| suits(self.task, shape, &candidate.config);
        let mut shapes = unseen.draw(seed, count, suits);
        let tiles: BTreeSet<i64> = candidate.config.iter().filter_map(tile_size).collect();
        let tiles: Vec<i64> = tiles.into_iter().collect();
        shapes.extend(unseen.at_edges(seed, &tiles, MOST_EDGES, suits));
        let most = match self.task.is_cuda() {
            true => MOST_LARGE_EDGES_ON_A_GPU,
            false => MOST_LARGE_EDGES,
        };
        let large = unseen.at_edges_of_large(seed, &tiles, most, suits);
        let is_new = |shape: &Shape| shapes.iter().all(|s| s.dimensions != shape.dimensions);
        let large: Vec<Shape> = large.into_iter().filter(is_new).collect();
        shapes.extend(large);
        let none = shapes.is_empty().then(|| {
            "no other shape could be found that its constraints and launch allow".to_string()
        });
        (shapes, none)
    }

    /// The manifest's shapes on inputs of their own, then those the search never saw. The target's
    /// turn comes with the samples.
    pub(super) fn check_shapes(
        &mut self,
        candidate: &Contender,
        unseen: &[Shape],
        worker: &mut Worker,
        place: &mut Place,
    ) -> Result<Vec<UnseenShape>, Stop> {
        let task = self.task;
        let known = task.checked_shapes().into_iter();
        let known: Vec<&Shape> = known
            .filter(|shape| shape.purpose != ShapePurpose::Target)
            .filter(|shape| task.skips(shape, &candidate.config).is_none())
            .collect();
        let mut passed = Vec::new();
        for (index, shape) in known.iter().copied().chain(unseen).enumerate() {
            place.shape = Some(shape.name.clone());
            let seed = input::mix(&[self.secret, Stream::Accept as u64, index as u64]);
            let error_ratio = self.check(candidate, shape, seed, worker)?;
            if index >= known.len() {
                passed.push(UnseenShape {
                    dimensions: shape.dimensions.clone(),
                    error_ratio,
                });
            }
        }
        Ok(passed)
    }

    fn check(
        &mut self,
        candidate: &Contender,
        shape: &Shape,
        seed: u64,
        worker: &mut Worker,
    ) -> Result<f64, Stop> {
        let judged = self.judge(candidate, shape, seed, worker);
        if matches!(judged, Err(Stop::Wrong(_) | Stop::Worker(_))) {
            // No kernel is right where the reference itself reads outside its buffers, and not every such read
            // meets a guard page: on a shape that kiln made up, the manifest is at fault, not the kernel.
            self.oracle.writes_every_element(self.task, shape, seed)?;
        }
        judged
    }

    fn judge(
        &mut self,
        candidate: &Contender,
        shape: &Shape,
        seed: u64,
        worker: &mut Worker,
    ) -> Result<f64, Stop> {
        let deadline = run_deadline(self.task);
        let expected = self.oracle.expected(self.task, shape, seed)?;
        let problem = candidate.problem(self.task, shape, seed)?;
        worker.prepare(&problem, deadline)?;
        let poison = |which: u64| input::mix(&[seed, Stream::Poison as u64, which]);
        let mut launch = |poison: u64| -> Result<Vec<u8>, Stop> {
            let check = Request::Check {
                cores: candidate.style.cores,
                poison,
            };
            Ok(evaluate::answer_outputs(worker.request(&check, deadline)?)?)
        };
        let outputs = launch(poison(0))?;
        let ratio = evaluate::compare(&problem, &expected, &outputs, poison(0));
        let ratio = ratio.map_err(Stop::Wrong)?;
        if !self.task.is_cuda() && depends_on_leftovers(&outputs, |which| launch(poison(which)))? {
            return Err(Stop::Wrong(Fault::Sanitizer {
                tool: "leftovers".into(),
                count: 1,
                findings: vec!["its answer changes with memory that nobody has written".into()],
            }));
        }
        Ok(ratio)
    }

    /// Launches on the same inputs, wherever the system puts the threads and where they are pinned.
    /// Outputs that differ have to be right all the same.
    fn repeat(
        &mut self,
        candidate: &Contender,
        worker: &mut Worker,
        place: &mut Place,
    ) -> Result<Option<Repeats>, Stop> {
        let launches = self.task.manifest().confirm.repeats;
        if launches < 2 {
            return Ok(None);
        }
        let target = self.task.manifest().target();
        place.shape = Some(target.name.clone());
        // The inputs of the first round to come, whose answer is needed anyway.
        let seed = self.seed_of(Stream::Final, 0);
        let deadline = run_deadline(self.task);
        let expected = self.oracle.expected(self.task, target, seed)?;
        let problem = candidate.problem(self.task, target, seed)?;
        worker.prepare(&problem, deadline)?;
        let started = Instant::now();
        let mut found = Repeats {
            launches: 0,
            differing: 0,
            error_ratio: 0.0,
        };
        let mut first = None;
        while found.launches < launches
            && (found.launches < FEWEST_REPEATS || started.elapsed() < REPEAT_BUDGET)
        {
            let poison = input::mix(&[seed, Stream::Accept as u64, found.launches]);
            let cores = match found.launches % 2 {
                0 => candidate.style.cores,
                _ => Cores::Any,
            };
            let check = Request::Check { cores, poison };
            let outputs = evaluate::answer_outputs(worker.request(&check, deadline)?)?;
            found.launches += 1;
            if first.as_ref() == Some(&outputs) {
                continue;
            }
            let ratio = evaluate::compare(&problem, &expected, &outputs, poison);
            found.error_ratio = found.error_ratio.max(ratio.map_err(Stop::Wrong)?);
            match first {
                None => first = Some(outputs),
                Some(_) => found.differing += 1,
            }
        }
        Ok(Some(found))
    }
}

/// Whether other garbage in memory that nobody has written makes other outputs, and the same garbage the same ones.
/// `first` is what garbage 0 gave, `launch` runs again on the same inputs. A kernel that is not deterministic, or
/// behaves differently every other time, does not keep to this order by chance.
pub(in crate::engine) fn depends_on_leftovers<E>(
    first: &[u8],
    mut launch: impl FnMut(u64) -> Result<Vec<u8>, E>,
) -> Result<bool, E> {
    const AGAIN: [u64; 10] = [1, 0, 0, 1, 0, 1, 1, 1, 0, 0];
    let other = launch(1)?;
    if other == first {
        return Ok(false);
    }
    for which in AGAIN {
        let expected = match which {
            0 => first,
            _ => &other[..],
        };
        if launch(which)? != expected {
            return Ok(false);
        }
    }
    Ok(true)
}

/// A number of a config that may be the size of a tile.
fn tile_size((_, value): &(String, Value)) -> Option<i64> {
    match value {
        Value::Int(number @ 2..) => Some(*number),
        _ => None,
    }
}

/// Whether a config and the reference can be run on a shape at all.
fn suits(task: &Task, shape: &Shape, config: &Assignment) -> bool {
    let bytes = |part: Part| {
        let problem = task.problem(part, shape, config, 0).ok()?;
        let mut arguments = problem.arguments.iter();
        arguments.try_fold(0u64, |sum, a| sum.checked_add(a.bytes()?))
    };
    let fits = |part: Part| bytes(part).is_some_and(|b| b <= task.device.memory_bytes / 4);
    task.skips(shape, config).is_none() && fits(Part::Candidate) && fits(Part::Reference)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    /// Whether a kernel is told that gives these outputs, by the garbage and the number of the launch.
    fn is_told(outputs: impl Fn(u64, u32) -> u8) -> bool {
        let first = [outputs(0, 0)];
        let mut launches = 0;
        let launch = |which| {
            launches += 1;
            Ok::<_, Infallible>(vec![outputs(which, launches)])
        };
        let Ok(told) = depends_on_leftovers(&first, launch);
        told
    }

    #[test]
    fn only_garbage_that_decides_is_told() {
        assert!(is_told(|garbage, _| garbage as u8));
        assert!(!is_told(|_, _| 7), "always the same");
        assert!(!is_told(|_, launch| launch as u8), "never the same");
        assert!(!is_told(|_, launch| (launch % 2) as u8), "every other time");
        assert!(
            !is_told(|_, launch| u8::from(launch == 0)),
            "the first time"
        );
        for period in 2..20 {
            let phase = |launch: u32| (launch % period < period / 2) as u8;
            assert!(
                !is_told(|_, launch| phase(launch)),
                "in periods of {period}"
            );
        }
    }
}
