//! A task is admitted when its check can tell work from pretence: kernels that do none of the work
//! stand in for candidates, and each has to be found wrong.

mod inputs;
mod weakness;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use kiln_core::admission::{
    self, Admission, Probe, StandIn, Telling, coarser_output, honest_ratio, idle, judge_coarser,
    summing_ratio,
};
use kiln_core::input;
use kiln_core::manifest::{Shape, Tolerance};
use kiln_core::numerics::Expected;
use kiln_core::precision::Coarser;
use kiln_core::protocol::{Problem, Variation};

use super::Stream;
use super::evaluate::Seeds;
use super::oracle::Oracle;
use crate::exit::Failure;
use crate::task::{Part, Task};
pub use inputs::summands;
use inputs::{input_kinds, inputs_of, is_drawn_input, rounds_inputs};
use weakness::Weakness;

/// A reference slower than this on the target is asked further questions on a smaller shape.
const SLOW_REFERENCE: Duration = Duration::from_secs(5);
/// Whether every input matters is only asked where it costs little.
const QUICK_REFERENCE: Duration = Duration::from_secs(1);
const MOST_INPUTS_ASKED: usize = 8;
/// Sets of inputs on which a coarser format may be told.
const SETS: u64 = 3;
/// The same for an answer of a few sums: each is near the right one by chance, up to three times of four at a tolerance
/// that long sums in the output's own type need. With 16 sets one sound task of a hundred was refused.
const SETS_OF_SUMS: u64 = 64;
/// What all of them may take.
const TIME_FOR_SUMS: Duration = Duration::from_secs(10);
const MOST_PROBES_KEPT: usize = 64;

/// Refuses a task whose check is weak; says what it can tell otherwise.
pub fn admit(task: &Task, oracle: &mut Oracle, secret: u64) -> Result<Admission, Failure> {
    let target = task.manifest().target();
    // A reference that fails does so soonest on the smallest shape.
    let smallest = task.checked_shapes()[0];
    let seed = baseline_seeds(secret).inputs(Stream::Check, 0);
    oracle.writes_every_element(task, smallest, seed)?;
    oracle.expected(task, smallest, seed)?;
    let mut gate = Gate {
        task,
        oracle,
        secret,
        weak: Vec::new(),
        admission: Admission {
            shape: target.name.clone(),
            ..Admission::default()
        },
        sets_of_sums: SETS,
        supposed: None,
    };
    let started = Instant::now();
    let first = gate.expected(target, 0)?;
    let took = started.elapsed();
    let affordable = TIME_FOR_SUMS.as_secs_f64() / took.as_secs_f64().max(1e-6);
    gate.sets_of_sums = (affordable as u64).clamp(SETS, SETS_OF_SUMS);
    can_be_met(&first, target)?;
    let shape = match took > SLOW_REFERENCE {
        true => smaller_shape(task),
        false => target,
    };
    if shape.name != target.name {
        gate.admission.notes.push(format!(
            "the reference takes {:.0} s on the target, so the check was tried on shape `{}`",
            took.as_secs_f64(),
            shape.name
        ));
        let probes = idle(&first, None, &inputs_of(&gate.problem(target, 0)?)?);
        gate.take_idle(&probes, target, &first);
    }
    let first = gate.expected(shape, 0)?;
    gate.try_idle(shape, &first)?;
    gate.try_coarser(shape)?;
    if took < QUICK_REFERENCE {
        gate.find_idle_inputs(shape, &first)?;
    }
    gate.conclude()
}

/// The stand-ins that would pass the target if an output were allowed otherwise, and that the manifest does not accept.
pub fn passing_with(
    task: &Task,
    oracle: &mut Oracle,
    secret: u64,
    supposed: (&str, Tolerance),
) -> Result<Vec<StandIn>, Failure> {
    let target = task.manifest().target();
    let mut gate = Gate {
        task,
        oracle,
        secret,
        weak: Vec::new(),
        admission: Admission::default(),
        sets_of_sums: SETS_OF_SUMS,
        supposed: Some(supposed),
    };
    let first = gate.expected(target, 0)?;
    gate.try_idle(target, &first)?;
    gate.try_coarser(target)?;
    Ok(gate.weak.into_iter().map(|w| w.probe.stand_in).collect())
}

struct Gate<'t> {
    task: &'t Task,
    oracle: &'t mut Oracle,
    secret: u64,
    weak: Vec<Weakness>,
    admission: Admission,
    sets_of_sums: u64,
    /// The tolerance of an output as it might be, and not as the manifest has it.
    supposed: Option<(&'t str, Tolerance)>,
}

impl Gate<'_> {
    /// The first set of the target is the one the baseline is checked on.
    fn seed(&self, set: u64) -> u64 {
        let target = self.task.checked_shapes().len() - 1;
        match set {
            0 => baseline_seeds(self.secret).inputs(Stream::Check, target),
            _ => input::mix(&[self.secret, Stream::Admission as u64, set]),
        }
    }

    fn expected(&mut self, shape: &Shape, set: u64) -> Result<Vec<Expected>, Failure> {
        let seed = self.seed(set);
        let answer = self.oracle.expected(self.task, shape, seed)?;
        let mut outputs = answer.as_ref().clone();
        for output in &mut outputs {
            match self.supposed {
                Some((name, tolerance)) if name == output.argument => output.tolerance = tolerance,
                _ => {}
            }
        }
        Ok(outputs)
    }

    fn problem(&self, shape: &Shape, set: u64) -> Result<Problem, Failure> {
        let config = self.task.any_config()?;
        let seed = self.seed(set);
        self.task.problem(Part::Candidate, shape, &config, seed)
    }

    fn is_accepted(&mut self, stand_in: &StandIn) -> bool {
        let word = stand_in.word();
        let accepted = self.task.manifest().admits.iter().any(|a| a == word);
        let known = &mut self.admission.accepted;
        if accepted && !known.iter().any(|k| k == word) {
            known.push(word.to_string());
        }
        accepted
    }

    fn keep(&mut self, probes: &[Probe]) {
        let room = MOST_PROBES_KEPT.saturating_sub(self.admission.probes.len());
        let kept = probes.iter().take(room).cloned();
        self.admission.probes.extend(kept);
    }

    /// Zeros, constants, copies and earlier answers.
    fn try_idle(&mut self, target: &Shape, first: &[Expected]) -> Result<(), Failure> {
        let inputs = input_kinds(self.task);
        if inputs.any && !inputs.drawn {
            return self.inputs_never_change(target, first);
        }
        let others = match inputs.drawn {
            true => Some(self.expected(target, 1)?),
            false => None,
        };
        let probes = idle(
            first,
            others.as_deref(),
            &inputs_of(&self.problem(target, 0)?)?,
        );
        self.keep(&probes);
        let mut passing: Vec<Probe> = probes.into_iter().filter(Probe::passes).collect();
        // A small output can be met by chance, hardly twice; a few sums can, as often as they lose much of what they vary by.
        let problem = self.problem(target, 0)?;
        let is_sum = |probe: &Probe| {
            let mut outputs = first.iter().filter(|o| o.argument == probe.output);
            outputs.any(|output| summands(&problem, output).is_some())
        };
        let sets = match inputs.drawn {
            true => 2..self.sets_of_sums.max(SETS),
            false => 0..0,
        };
        let mut before = first.to_vec();
        for set in sets {
            let asked = |probe: &Probe| set < SETS || is_sum(probe);
            if !passing.iter().any(asked) {
                break;
            }
            let answer = self.expected(target, set)?;
            let contents = inputs_of(&self.problem(target, set)?)?;
            let again = idle(&answer, Some(&before), &contents);
            passing.retain(|probe| !asked(probe) || passes_again(probe, &again));
            before = answer;
        }
        self.blame_all(passing, target, first);
        Ok(())
    }

    /// Blames what passes, where nothing is drawn anew that it could be tried on again.
    fn take_idle(&mut self, probes: &[Probe], shape: &Shape, first: &[Expected]) {
        self.keep(probes);
        let passing = probes.iter().filter(|probe| probe.passes()).cloned();
        self.blame_all(passing.collect(), shape, first);
    }

    fn blame_all(&mut self, passing: Vec<Probe>, shape: &Shape, first: &[Expected]) {
        for probe in passing {
            if !self.is_accepted(&probe.stand_in) {
                self.blame(probe, shape, first);
            }
        }
    }

    /// Nothing but the poison speaks against a kernel that keeps its first answer for ever.
    fn inputs_never_change(&mut self, target: &Shape, first: &[Expected]) -> Result<(), Failure> {
        let probes = idle(first, None, &inputs_of(&self.problem(target, 0)?)?);
        self.take_idle(&probes, target, first);
        if self.is_accepted(&StandIn::Previous) {
            return Ok(());
        }
        let output = &first[0];
        let probe = Probe::new(StandIn::Previous, output, |element, bytes| {
            output.write_expected(element, bytes);
        });
        self.weak.push(Weakness {
            honest: probe.error_ratio,
            probe,
            shape: target.name.clone(),
            remedy: None,
        });
        Ok(())
    }

    fn blame(&mut self, probe: Probe, shape: &Shape, outputs: &[Expected]) {
        let output = outputs.iter().find(|o| o.argument == probe.output);
        let remedy = output.and_then(|output| {
            let tolerance = admission::proposed_tolerance(output, &probe)?;
            Some(format!("{} = {tolerance}", output.dtype))
        });
        self.weak.push(Weakness {
            honest: output.map_or(0.0, honest_ratio),
            remedy,
            probe,
            shape: shape.name.clone(),
        });
    }

    /// Results and inputs in the next coarser formats, the finest first: where one is found wrong,
    /// those that are coarser still are too.
    fn try_coarser(&mut self, shape: &Shape) -> Result<(), Failure> {
        let outputs = self.expected(shape, 0)?;
        let inputs = self.problem(shape, 0)?;
        let summands: Vec<Option<u64>> = outputs.iter().map(|o| summands(&inputs, o)).collect();
        let honest = outputs.iter().zip(&summands).map(|(output, summands)| {
            let summed = summands.map_or(0.0, |summands| summing_ratio(output, summands));
            honest_ratio(output).max(summed)
        });
        let honest: Vec<f64> = honest.collect();
        for (place, (output, honest)) in outputs.iter().zip(&honest).enumerate() {
            let sets = match summands[place] {
                Some(_) => self.sets_of_sums,
                None => SETS,
            };
            for format in Coarser::than(output.dtype) {
                let first = coarser_output(output, *format);
                let probe = self.on_any_set(first, sets, |gate, set| {
                    let outputs = gate.expected(shape, set)?;
                    Ok(coarser_output(&outputs[place], *format))
                })?;
                if self.judge(probe, *honest, shape, &outputs) == Telling::Fails {
                    break;
                }
            }
        }
        if !self.oracle.computes() {
            return Ok(());
        }
        let finest = outputs
            .iter()
            .flat_map(|output| Coarser::than(output.dtype));
        let formats: BTreeSet<Coarser> = finest.copied().collect();
        let mut open: Vec<usize> = (0..outputs.len()).collect();
        for format in formats {
            let asked = |at: &usize| Coarser::than(outputs[*at].dtype).contains(&format);
            if !rounds_inputs(self.task, format) || !open.iter().any(asked) {
                continue;
            }
            let probes = self.coarser_inputs(shape, 0, format)?;
            let mut still_open = Vec::new();
            for at in open {
                if !asked(&at) {
                    still_open.push(at);
                    continue;
                }
                let sets = match summands[at] {
                    Some(_) => self.sets_of_sums,
                    // The worst of many elements is much the same on any set.
                    None => 1,
                };
                let probe = self.on_any_set(probes[at].clone(), sets, |gate, set| {
                    Ok(gate.coarser_inputs(shape, set, format)?.swap_remove(at))
                })?;
                if self.judge(probe, honest[at], shape, &outputs) != Telling::Fails {
                    still_open.push(at);
                }
            }
            open = still_open;
        }
        Ok(())
    }

    /// The answers to inputs that were rounded to a coarser format, on each output.
    fn coarser_inputs(
        &mut self,
        shape: &Shape,
        set: u64,
        format: Coarser,
    ) -> Result<Vec<Probe>, Failure> {
        let outputs = self.expected(shape, set)?;
        let seed = self.seed(set);
        let variation = Variation::Rounded(format);
        let varied = self.oracle.varied(self.task, shape, seed, variation)?;
        let both = outputs.iter().zip(&varied);
        Ok(both
            .map(|(output, other)| {
                Probe::new(StandIn::CoarserInputs(format), output, |element, bytes| {
                    other.write_expected(element, bytes)
                })
            })
            .collect())
    }

    /// A format is told by the few elements that lie badly for it. A candidate is checked on many
    /// inputs, so it is enough that one of some sets has them.
    fn on_any_set(
        &mut self,
        first: Probe,
        sets: u64,
        probe: impl Fn(&mut Self, u64) -> Result<Probe, Failure>,
    ) -> Result<Probe, Failure> {
        let mut worst = first;
        let more = match input_kinds(self.task).drawn && worst.error_ratio > 0.0 {
            true => 1..sets,
            false => 0..0,
        };
        for set in more {
            if !worst.passes() {
                break;
            }
            let other = probe(self, set)?;
            if other.error_ratio > worst.error_ratio {
                worst = other;
            }
        }
        Ok(worst)
    }

    fn judge(&mut self, probe: Probe, honest: f64, shape: &Shape, outputs: &[Expected]) -> Telling {
        let telling = judge_coarser(&probe, honest);
        self.keep(std::slice::from_ref(&probe));
        match telling {
            Telling::Fails => {}
            Telling::Alike => {
                let output = outputs.iter().find(|o| o.argument == probe.output);
                let is_summed = output.is_some_and(|output| honest > honest_ratio(output));
                let limit = match is_summed {
                    true => "a sum of so many numbers in its type",
                    false => "its type allows",
                };
                self.admission.notes.push(format!(
                    "output `{}` cannot tell a kernel that {} on these inputs: what it gets is as near to the \
                     right answer as {limit}",
                    probe.output,
                    probe.stand_in.deed()
                ));
            }
            Telling::Weak if self.is_accepted(&probe.stand_in) => {}
            Telling::Weak => self.blame(probe, shape, outputs),
        }
        telling
    }

    /// Inputs whose values make no difference within tolerance: a kernel need not read them.
    fn find_idle_inputs(&mut self, target: &Shape, first: &[Expected]) -> Result<(), Failure> {
        if !self.oracle.computes() {
            return Ok(());
        }
        let drawn: Vec<(usize, String)> = self
            .task
            .manifest()
            .arguments
            .iter()
            .enumerate()
            .filter(|(_, argument)| is_drawn_input(&argument.kind))
            .map(|(at, argument)| (at, argument.name.clone()))
            .take(MOST_INPUTS_ASKED)
            .collect();
        // With one input that is what `Previous` has asked.
        for (argument, name) in drawn.iter().filter(|_| drawn.len() > 1) {
            let variation = Variation::Redrawn {
                argument: *argument,
                seed: self.seed(1),
            };
            let seed = self.seed(0);
            let varied = self.oracle.varied(self.task, target, seed, variation)?;
            let same = first.iter().zip(&varied).all(|(output, other)| {
                output.error_of(|element, bytes| other.write_expected(element, bytes)) <= 1.0
            });
            if same {
                self.admission.notes.push(format!(
                    "input `{name}` makes no difference within tolerance: a kernel that never reads it would pass"
                ));
            }
        }
        Ok(())
    }

    fn conclude(self) -> Result<Admission, Failure> {
        match weakness::refusal(self.weak, &self.task.manifest().admits) {
            Some(failure) => Err(failure),
            None => Ok(self.admission),
        }
    }
}

fn passes_again(probe: &Probe, again: &[Probe]) -> bool {
    again.iter().any(|other| {
        other.stand_in == probe.stand_in && other.output == probe.output && other.passes()
    })
}

/// Inputs the baseline is checked on, so that their answers are computed once.
fn baseline_seeds(secret: u64) -> Seeds {
    Seeds {
        secret,
        batch: u64::MAX,
        trial: 0,
        timed_inputs_are_checked: false,
    }
}

/// The largest shape that is only checked, or the target where there is none.
fn smaller_shape(task: &Task) -> &Shape {
    let shapes = task.checked_shapes();
    match shapes.as_slice() {
        [.., smaller, _] => smaller,
        _ => task.manifest().target(),
    }
}

/// No kernel can be nearer to the answer than its type allows.
fn can_be_met(outputs: &[Expected], target: &Shape) -> Result<(), Failure> {
    for output in outputs {
        let needed = honest_ratio(output);
        if needed > 1.0 {
            let failure = Failure::usage(format!(
                "no kernel can pass: on shape `{}` the right answer itself, as {}, is off by {needed:.2} times \
                 what `{}` is allowed",
                target.name, output.dtype, output.argument
            ))
            .hint(
                "allow more in [tolerance], or draw inputs whose answers the type can hold \
                 (`draw = { kind = \"normal\", std = 0.1 }`)",
            );
            // What a reference leaves as it was is garbage that no type of a kernel can hold.
            return Err(match needed.is_finite() {
                true => failure,
                false => failure.hint(format!(
                    "or does the reference leave elements of `{}` unwritten? with `role = \"inout\"` they keep what is drawn for them",
                    output.argument
                )),
            });
        }
    }
    Ok(())
}
