//! Does a kernel compute, or does it remember? What is published must hold for inputs that nobody
//! has met before.

use std::time::Duration;

use kiln_core::acceptance::FreshInputs;
use kiln_core::input;
use kiln_core::protocol::{Caches, Gap, Nudge, RunUp, Variation};
use kiln_core::stats;
use kiln_core::trial::Fault;

use super::arena::{Arena, Corner};
use crate::engine::Stream;
use crate::engine::evaluate::Stop;
use crate::engine::sampling::{self, Launch, Style};

/// Where conditions are alike, but not to the last cache line, only a large difference tells.
const COARSE: Bound = Bound {
    factor: 2.5,
    beyond_ns: 0.0,
};
/// Where a GPU's caches hold the same and launches follow each other at the same distance, new
/// inputs make no difference to a kernel that computes.
const FINE: Bound = Bound {
    factor: 1.3,
    beyond_ns: 1e3,
};
/// The same on a CPU, whose clock is coarser, and whose branches are foretold by what it has met: for tens of
/// microseconds of them.
const FINE_ON_A_CPU: Bound = Bound {
    factor: 1.3,
    beyond_ns: 40e3,
};
/// Where not even the inputs differ but for a few elements.
const FINEST_ON_A_CPU: Bound = Bound {
    factor: 1.2,
    beyond_ns: 1e3,
};
/// Of each kind of launch; more than one, because a single launch may be unlucky.
const LAUNCHES: u64 = 3;
/// On new inputs behind others on a GPU, each kind: inputs and answers for more take longer than all
/// the rest.
const NEW_LAUNCHES: u64 = 2;

/// How much slower a launch on new inputs may be.
#[derive(Clone, Copy)]
struct Bound {
    factor: f64,
    beyond_ns: f64,
}

/// Launches of one kind, and the fastest of them.
#[derive(Clone, Copy)]
struct Fastest {
    nanos: f64,
    /// Launches that no other program interrupted.
    undisturbed: u64,
}

impl Fastest {
    fn none() -> Fastest {
        Fastest {
            nanos: f64::INFINITY,
            undisturbed: 0,
        }
    }

    fn add(&mut self, launch: Launch) {
        self.nanos = launch.nanos.min(self.nanos);
        self.undisturbed += u64::from(!launch.interrupted);
    }
}

/// Launches on new inputs and on known ones, the fastest of each.
#[derive(Clone, Copy)]
pub(super) struct Meeting {
    fresh: Fastest,
    repeated_ns: f64,
    bound: Bound,
    /// A shorter launch on new inputs proves nothing.
    shortest_ns: f64,
}

impl Meeting {
    fn is_disturbed(&self) -> bool {
        /// Fewer launches on new inputs in peace prove nothing.
        const UNDISTURBED: u64 = 4;
        self.fresh.undisturbed < UNDISTURBED
    }

    fn fault(self) -> Option<Fault> {
        let Meeting {
            repeated_ns,
            bound,
            shortest_ns,
            ..
        } = self;
        let fresh_ns = self.fresh.nanos;
        let is_far_slower = fresh_ns > bound.factor * repeated_ns + bound.beyond_ns;
        (is_far_slower && fresh_ns > shortest_ns).then_some(Fault::InputsRemembered {
            fresh_ns,
            repeated_ns,
            disturbed: self.is_disturbed(),
        })
    }
}

/// The first meeting that shows that a kernel keeps answers instead of computing them.
pub(super) fn remembers_inputs(meetings: &[Meeting]) -> Option<Fault> {
    meetings.iter().find_map(|meeting| meeting.fault())
}

/// What is recorded: the meeting under the most equal conditions comes first.
pub(super) fn recorded(meetings: &[Meeting]) -> Option<FreshInputs> {
    meetings.first().map(|meeting| FreshInputs {
        fresh_ns: meeting.fresh.nanos,
        repeated_ns: meeting.repeated_ns,
    })
}

/// What all attempts say together, for each kind of meeting. A launch on new inputs that was fast once was not slowed down
/// by their being new; a launch on known ones has to be fast in most attempts, so that the machine may change its pace in
/// between, and a kernel that keeps answers most of the time does not get away with computing them once.
fn together(attempts: &[Vec<Meeting>]) -> Vec<Meeting> {
    let Some((first, others)) = attempts.split_first() else {
        return Vec::new();
    };
    let mut all = first.clone();
    for (index, meeting) in all.iter_mut().enumerate() {
        let later = || others.iter().filter_map(move |a| a.get(index));
        let repeated: Vec<f64> = std::iter::once(meeting.repeated_ns)
            .chain(later().map(|m| m.repeated_ns))
            .collect();
        meeting.repeated_ns = stats::median(&repeated);
        for other in later() {
            meeting.fresh.nanos = meeting.fresh.nanos.min(other.fresh.nanos);
            meeting.fresh.undisturbed += other.fresh.undisturbed;
        }
    }
    all
}

/// Whether more attempts may clear a kernel.
fn another_attempt(attempts: usize, meetings: &[Meeting]) -> bool {
    /// A slow moment of the machine may hit all launches on new inputs, hardly four times over: on two
    /// cores with thirty programs to run, two attempts accused one honest kernel of ninety.
    const ATTEMPTS: usize = 4;
    /// Where programs wait for every core, nearly every launch is interrupted: at a load of six on two cores a kernel that needs
    /// both for 13 ms was accused after four attempts.
    const MOST_ATTEMPTS: usize = 16;
    let mut accusing = meetings.iter().filter(|m| m.fault().is_some()).peekable();
    if accusing.peek().is_none() {
        // Accused once, a kernel is cleared by all attempts together.
        return attempts > 1 && attempts < ATTEMPTS;
    }
    let are_disturbed = accusing.all(|meeting| meeting.is_disturbed());
    attempts < ATTEMPTS || (are_disturbed && attempts < MOST_ATTEMPTS)
}

impl Arena<'_> {
    /// Times single launches on the inputs of the samples, and on inputs this process has never
    /// seen.
    pub(super) fn meet_fresh_inputs(
        &mut self,
        corner: &mut Corner<'_>,
        deadline: Duration,
    ) -> Result<(), Stop> {
        let style = corner.contender.style;
        let mut attempts: Vec<Vec<Meeting>> = Vec::new();
        loop {
            let attempt = attempts.len() as u64;
            attempts.push(match style.on_gpu {
                // Both problems have to fit on the device, and bursts are what is published.
                true if style.caches == Caches::Warm && self.input_sets() > 1 => {
                    vec![
                        self.behind_others(corner, Gap::Reading, attempt, deadline)?,
                        self.behind_others(corner, Gap::Nothing, attempt, deadline)?,
                    ]
                }
                true => vec![self.with_caches_emptied(corner, attempt, deadline)?],
                false => {
                    let emptied = self.with_caches_emptied(corner, attempt, deadline)?;
                    let mut all = self.after_samples(corner, attempt, deadline)?;
                    all.insert(0, emptied);
                    all.extend(self.nudged(corner, attempt, deadline)?);
                    all
                }
            });
            corner.meetings = together(&attempts);
            if !another_attempt(attempts.len(), &corner.meetings) {
                return Ok(());
            }
        }
    }

    fn fresh_seed(&self, draw: u64) -> u64 {
        let base = match self.task.is_cuda() {
            true => self.secret,
            false => self.seed,
        };
        input::mix(&[base, Stream::Fresh as u64, draw])
    }

    /// With the caches emptied, inputs a kernel has met are as far away as new ones.
    fn with_caches_emptied(
        &mut self,
        corner: &mut Corner<'_>,
        attempt: u64,
        deadline: Duration,
    ) -> Result<Meeting, Stop> {
        let style = Style {
            caches: Caches::Cold,
            ..corner.contender.style
        };
        let (mut fresh, mut repeated) = (Fastest::none(), Fastest::none());
        for launch in 0..LAUNCHES {
            // Where they are already, values and addresses.
            self.prepare(corner, self.seed, deadline)?;
            let poison = input::mix(&[self.seed, Stream::Poison as u64, launch]);
            let worker = &mut corner.worker;
            repeated.add(sampling::single_launch(worker, style, poison, deadline)?);
        }
        for draw in 0..LAUNCHES {
            let seed = self.fresh_seed(attempt * LAUNCHES + draw);
            let poison = input::mix(&[seed, Stream::Poison as u64]);
            self.expected(seed)?;
            let problem = self.prepare(corner, seed, deadline)?;
            let worker = &mut corner.worker;
            fresh.add(sampling::single_launch(worker, style, poison, deadline)?);
            self.check_outputs(corner, &problem, seed, poison, deadline)?;
        }
        Ok(Meeting {
            fresh,
            repeated_ns: repeated.nanos,
            bound: COARSE,
            shortest_ns: shortest_judged_ns(style),
        })
    }

    /// On a CPU: right behind launches on other inputs, against what the samples say, and against known inputs behind
    /// launches on a copy of them. Nothing but being known tells the last two apart, so little is allowed there; a kernel
    /// that goes by addresses is faster in the samples only.
    fn after_samples(
        &mut self,
        corner: &mut Corner<'_>,
        attempt: u64,
        deadline: Duration,
    ) -> Result<Vec<Meeting>, Stop> {
        const FIRST_DRAW: u64 = 1_000;
        /// They cost no answers. On a busy machine a kernel that keeps answers for some microseconds is not always in time.
        const KNOWN_LAUNCHES: u64 = 8;
        let mut fresh = Fastest::none();
        for draw in 0..LAUNCHES {
            let draw = FIRST_DRAW + attempt * LAUNCHES + draw;
            fresh.add(self.first_behind_others(corner, draw, Gap::Nothing, deadline)?);
        }
        let shortest_ns = shortest_judged_ns(corner.contender.style);
        let mut meetings = vec![Meeting {
            fresh,
            repeated_ns: match corner.samples_ns.is_empty() {
                true => f64::INFINITY,
                false => stats::median(&corner.samples_ns),
            },
            bound: COARSE,
            shortest_ns,
        }];
        // Both have to be there at once.
        if self.input_sets() > 1 {
            let mut repeated = Fastest::none();
            for launch in 0..KNOWN_LAUNCHES {
                let problem = self.prepare(corner, self.seed, deadline)?;
                let poison = input::mix(&[self.seed, Stream::Poison as u64, launch]);
                let plan = corner.plan.expect("set up before sampling");
                let worker = &mut corner.worker;
                let run_up = RunUp::OnOriginals;
                repeated.add(sampling::launch_behind(
                    worker, plan, run_up, poison, deadline,
                )?);
                self.check_outputs(corner, &problem, self.seed, poison, deadline)?;
            }
            meetings.push(Meeting {
                fresh,
                repeated_ns: repeated.nanos,
                bound: FINE_ON_A_CPU,
                shortest_ns,
            });
        }
        Ok(meetings)
    }

    /// On a CPU: right behind launches on the same buffers, with a few elements changed and with the same elements written
    /// as they were. A kernel that keeps answers only while everything is as it was, at the same place and at once, has nothing
    /// else to go by.
    fn nudged(
        &mut self,
        corner: &mut Corner<'_>,
        attempt: u64,
        deadline: Duration,
    ) -> Result<Option<Meeting>, Stop> {
        let target = self.task.manifest().target();
        let problem = self.prepare(corner, self.seed, deadline)?;
        if !problem.can_be_nudged() || !self.oracle.computes() {
            return Ok(None);
        }
        let (mut fresh, mut repeated) = (Fastest::none(), Fastest::none());
        for draw in 0..LAUNCHES {
            let seed = self.fresh_seed(input::mix(&[Stream::Poison as u64, attempt, draw]));
            let variation = Variation::Nudged { seed };
            let expected = self
                .oracle
                .varied(self.task, target, self.seed, variation)?;
            // The first of the two follows the reference's work, during which a machine may have changed its pace.
            let changed_first = (attempt + draw) % 2 == 1;
            for changes in [changed_first, !changed_first] {
                let run_up = RunUp::Nudged(Nudge { seed, changes });
                let plan = corner.plan.expect("set up before sampling");
                let worker = &mut corner.worker;
                let launch = sampling::launch_behind(worker, plan, run_up, seed, deadline)?;
                if !changes {
                    repeated.add(launch);
                    self.check_outputs(corner, &problem, self.seed, seed, deadline)?;
                    continue;
                }
                fresh.add(launch);
                self.check_against(corner, &problem, &expected, seed, deadline)?;
            }
        }
        Ok(Some(Meeting {
            fresh,
            repeated_ns: repeated.nanos,
            bound: FINEST_ON_A_CPU,
            shortest_ns: 0.0,
        }))
    }

    /// On a GPU: a launch on new inputs behind bursts on others, and one on known inputs behind the
    /// same bursts on these. A kernel that keeps answers while launches follow each other, and works
    /// when it is launched alone, cannot tell the second from a sample.
    fn behind_others(
        &mut self,
        corner: &mut Corner<'_>,
        gap: Gap,
        attempt: u64,
        deadline: Duration,
    ) -> Result<Meeting, Stop> {
        let mut repeated = Fastest::none();
        for launch in 0..LAUNCHES {
            self.prepare(corner, self.seed, deadline)?;
            let poison = input::mix(&[self.seed, Stream::Poison as u64, launch]);
            let plan = corner.plan.expect("set up before sampling");
            let run_up = RunUp::OnTheSame(gap);
            let worker = &mut corner.worker;
            repeated.add(sampling::launch_behind(
                worker, plan, run_up, poison, deadline,
            )?);
        }
        let is_close = gap == Gap::Nothing;
        let mut fresh = Fastest::none();
        for draw in 0..NEW_LAUNCHES {
            let draw = (2 * attempt + u64::from(is_close)) * NEW_LAUNCHES + draw;
            fresh.add(self.first_behind_others(corner, draw, gap, deadline)?);
        }
        Ok(Meeting {
            fresh,
            repeated_ns: repeated.nanos,
            bound: match is_close && !self.cache_makes_no_difference() {
                true => COARSE,
                false => FINE,
            },
            shortest_ns: 0.0,
        })
    }

    /// A launch on inputs this process has never seen, right behind others; what it writes is checked.
    fn first_behind_others(
        &mut self,
        corner: &mut Corner<'_>,
        draw: u64,
        gap: Gap,
        deadline: Duration,
    ) -> Result<Launch, Stop> {
        let seed = self.fresh_seed(draw);
        let poison = input::mix(&[seed, Stream::Poison as u64]);
        self.expected(seed)?;
        // The last but one prepared is what runs ahead.
        self.prepare(corner, self.seed, deadline)?;
        let problem = self.prepare(corner, seed, deadline)?;
        let plan = corner.plan.expect("set up before sampling");
        let run_up = RunUp::OnOthers(gap);
        let worker = &mut corner.worker;
        let launch = sampling::launch_behind(worker, plan, run_up, poison, deadline)?;
        self.check_outputs(corner, &problem, seed, poison, deadline)?;
        Ok(launch)
    }

    /// Whether the L2 cache has room for two problems at once, or for next to nothing of one: then a
    /// launch on others does not push out what the next one would have found.
    fn cache_makes_no_difference(&self) -> bool {
        let Some(bytes) = self.task.target_bytes() else {
            return false;
        };
        let l2_bytes = self.task.device.cuda.as_ref().map_or(0, |c| c.l2_bytes);
        let both_fit = bytes.saturating_mul(4) <= l2_bytes;
        both_fit || bytes / 4 >= l2_bytes
    }
}

/// A GPU's events are finer than a host's clock.
fn shortest_judged_ns(style: Style) -> f64 {
    if style.on_gpu { 5e3 } else { 20e3 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_accused(fresh_ns: f64, repeated_ns: f64, bound: Bound, shortest_ns: f64) -> bool {
        remembers_inputs(&[meeting(fresh_ns, 4, repeated_ns, bound, shortest_ns)]).is_some()
    }

    fn meeting(
        nanos: f64,
        undisturbed: u64,
        repeated_ns: f64,
        bound: Bound,
        shortest_ns: f64,
    ) -> Meeting {
        Meeting {
            fresh: Fastest { nanos, undisturbed },
            repeated_ns,
            bound,
            shortest_ns,
        }
    }

    /// Attempts with the fastest launches on new and on known inputs, and how many on new ones were undisturbed.
    fn ended(attempts: &[(f64, f64, u64)]) -> (usize, bool) {
        let mut taken = Vec::new();
        for (fresh_ns, repeated_ns, undisturbed) in attempts.iter().cycle() {
            taken.push(vec![meeting(
                *fresh_ns,
                *undisturbed,
                *repeated_ns,
                FINE,
                0.0,
            )]);
            let all = together(&taken);
            if !another_attempt(taken.len(), &all) {
                return (taken.len(), remembers_inputs(&all).is_some());
            }
        }
        unreachable!("attempts come round again");
    }

    #[test]
    fn attempts_end_when_they_say_enough() {
        let (slow, fast) = (1e6, 0.1e6);
        assert_eq!(
            ended(&[(fast, fast, 3)]),
            (1, false),
            "nothing to accuse it of"
        );
        assert_eq!(
            ended(&[(slow, fast, 3)]),
            (4, true),
            "four times over, in peace"
        );
        assert_eq!(ended(&[(slow, fast, 0)]), (16, true), "never in peace");
        let once_in_peace = [
            (slow, fast, 0),
            (slow, fast, 0),
            (slow, fast, 0),
            (slow, fast, 0),
            (slow, fast, 0),
            (fast, fast, 1),
        ];
        assert_eq!(
            ended(&once_in_peace),
            (6, false),
            "new inputs did not slow it down"
        );
        let changed_pace = [
            (slow, fast, 3),
            (slow, slow, 3),
            (slow, slow, 3),
            (slow, slow, 3),
        ];
        assert_eq!(ended(&changed_pace), (4, false), "so did known ones, later");
        let computes_once = [
            (slow, fast, 3),
            (slow, slow, 3),
            (slow, fast, 3),
            (slow, fast, 3),
        ];
        assert_eq!(
            ended(&computes_once),
            (4, true),
            "answers from memory most of the time"
        );
    }

    #[test]
    fn only_a_clear_difference_is_held_against_a_kernel() {
        assert!(is_accused(60e3, 20e3, COARSE, 20e3));
        assert!(is_accused(50.1e3, 20e3, COARSE, 20e3));
        assert!(!is_accused(50e3, 20e3, COARSE, 20e3), "at the bound");
        assert!(!is_accused(20e3, 1e3, COARSE, 20e3), "as short as that");
        assert!(!is_accused(45e3, 20e3, COARSE, 20e3));
        assert!(!is_accused(15e3, 1e3, COARSE, 20e3), "too short to tell");
        assert!(is_accused(45e3, 30e3, FINE, 0.0));
        assert!(!is_accused(38e3, 30e3, FINE, 0.0));
        assert!(!is_accused(2.9e3, 1.8e3, FINE, 0.0), "a tick of the clock");
        assert!(is_accused(170.1e3, 100e3, FINE_ON_A_CPU, 20e3));
        assert!(!is_accused(170e3, 100e3, FINE_ON_A_CPU, 20e3));
        assert!(!is_accused(60e3, 30e3, FINE_ON_A_CPU, 20e3), "branches");
        assert!(is_accused(14e3, 10e3, FINEST_ON_A_CPU, 0.0));
        assert!(!is_accused(13e3, 10e3, FINEST_ON_A_CPU, 0.0));
        assert!(!is_accused(f64::INFINITY, f64::INFINITY, COARSE, 0.0));
    }
}
