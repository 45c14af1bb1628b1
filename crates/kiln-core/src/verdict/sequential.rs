//! A verdict that may be looked for several times, and about several shapes, without crying wolf.
//!
//! Who looks again and again until something shows, finds something in the end. So the number of
//! looks is fixed beforehand, and each has its share of the 5 %: with four looks an interval is one
//! of 98.75 %, and p must be four times as small. The shares add up to 5 % whatever the looks have
//! to do with each other.
//!
//! With several shapes one of them is called FASTER or SLOWER only if it would stand among all of
//! them ([`holm`]). SAME needs no such correction: a gate passes when *every* shape does, and that
//! all of them pass by mistake is less likely than that one does.

use serde::{Deserialize, Serialize};

use super::{ALPHA, Comparison, MIN_SAMPLES, RESAMPLES, Verdict, same_band};
use crate::input;
use crate::stats::{Interval, RatioReplicates, median};

/// Times of both sides, one inner vector per round of fresh processes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rounds {
    pub baseline: Vec<Vec<f64>>,
    pub candidate: Vec<Vec<f64>>,
}

/// What is fixed before the first sample is taken.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Design {
    pub margin: f64,
    /// How often the samples will be looked at, at most.
    pub looks: usize,
    /// How many shapes are judged together.
    pub shapes: usize,
}

impl Design {
    /// Level of the interval that decides.
    pub fn level(&self) -> f64 {
        1.0 - ALPHA / self.looks.max(1) as f64
    }

    /// What p, all looks counted in, must be below for one shape whatever the others do.
    fn threshold(&self) -> f64 {
        ALPHA / self.shapes.max(1) as f64
    }

    /// Enough that the smallest p there can be is well below what is asked for.
    fn resamples(&self) -> usize {
        let needed = 20.0 * self.looks.max(1) as f64 / self.threshold();
        (needed as usize).clamp(RESAMPLES, 40 * RESAMPLES)
    }

    /// One look. A difference can be called only where `may_differ`: very few rounds say little
    /// about how much processes differ by themselves. `cycles` are the same samples in clock cycles.
    pub fn look(
        &self,
        times: &Rounds,
        cycles: Option<&Rounds>,
        may_differ: bool,
        seed: u64,
    ) -> Look {
        let comparison = super::compare(&times.baseline, &times.candidate, self.margin, seed);
        let draw = |rounds: &Rounds, stream: u64| {
            let seed = input::mix(&[seed, stream]);
            RatioReplicates::draw(&rounds.baseline, &rounds.candidate, self.resamples(), seed)
        };
        let replicates = draw(times, 1);
        let band = same_band(self.margin);
        let direction = match comparison.speedup {
            speedup if speedup > band.high => Some(Verdict::Faster),
            speedup if speedup < band.low => Some(Verdict::Slower),
            _ => None,
        };
        let p_interval = match direction {
            Some(Verdict::Faster) => replicates.p_not_above(band.high),
            Some(_) => replicates.p_not_below(band.low),
            None => 1.0,
        };
        // `max` passes NaN over, and a test that has no answer is no proof.
        let p_rank = match comparison.p_value.is_nan() {
            true => 1.0,
            false => comparison.p_value,
        };
        let p_beyond = (p_interval.max(p_rank) * self.looks.max(1) as f64).min(1.0);
        let in_cycles = cycles.map(|rounds| InCycles {
            baseline: median(&rounds.baseline.concat()),
            candidate: median(&rounds.candidate.concat()),
            interval: draw(rounds, 2).interval(self.level()),
        });
        let enough = comparison.samples.fewest() >= MIN_SAMPLES && comparison.speedup.is_finite();
        let mut look = Look {
            verdict: Verdict::Undecided,
            level: self.level(),
            interval: replicates.interval(self.level()),
            p_beyond,
            direction: direction.filter(|_| enough && may_differ),
            in_cycles,
            comparison,
        };
        look.verdict = match look.direction {
            Some(direction) if look.is_clear() && p_beyond < self.threshold() => direction,
            _ if enough && look.is_within(band) => Verdict::Same,
            _ => Verdict::Undecided,
        };
        look
    }
}

/// What one look at the samples says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Look {
    pub verdict: Verdict,
    /// Level of the interval that decides.
    pub level: f64,
    /// Of the speedup, at that level.
    pub interval: Interval,
    /// That the speedup lies beyond the margin, by bootstrap and rank test, all looks counted in;
    /// not corrected for the number of shapes.
    pub p_beyond: f64,
    /// The difference that might be called, where one might be.
    pub direction: Option<Verdict>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_cycles: Option<InCycles>,
    /// The numbers for a single look at 95 %; `verdict` above is the one that counts.
    pub comparison: Comparison,
}

/// The same launches in clock cycles.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct InCycles {
    pub baseline: f64,
    pub candidate: f64,
    /// Of the speedup, at the level that decides.
    pub interval: Interval,
}

impl InCycles {
    pub fn speedup(&self) -> f64 {
        self.baseline / self.candidate
    }
}

impl Look {
    /// Whether cycles, where they are known, do not contradict the difference seen in times: clocks
    /// that changed between the sides make one where there is none.
    pub fn cycles_agree(&self) -> bool {
        match (self.direction, &self.in_cycles) {
            (Some(Verdict::Faster), Some(cycles)) => cycles.interval.low > 1.0,
            (Some(_), Some(cycles)) => cycles.interval.high < 1.0,
            _ => true,
        }
    }

    fn is_clear(&self) -> bool {
        let band = same_band(self.comparison.margin);
        let beyond = match self.direction {
            Some(Verdict::Faster) => self.interval.low > band.high,
            Some(_) => self.interval.high < band.low,
            None => false,
        };
        beyond && self.cycles_agree()
    }

    fn is_within(&self, band: Interval) -> bool {
        self.interval.low >= band.low && self.interval.high <= band.high
    }
}

/// Holm's correction over all shapes of one question: the smallest p must be below 5 % over their
/// number, the next below 5 % over one less, and so on until one is not. Calls differences that a
/// look by itself could not call; takes nothing back. `shapes` counts also those without a look.
pub fn holm(looks: &mut [&mut Look], shapes: usize) {
    let shapes = shapes.max(looks.len());
    let mut open: Vec<&mut &mut Look> = looks
        .iter_mut()
        .filter(|look| look.direction.is_some() && look.verdict != Verdict::Same)
        .collect();
    open.sort_by(|a, b| a.p_beyond.total_cmp(&b.p_beyond));
    for (rank, look) in open.into_iter().enumerate() {
        let is_small = look.p_beyond < ALPHA / (shapes - rank) as f64;
        if !is_small {
            break;
        }
        if let Some(direction) = look.direction
            && look.is_clear()
        {
            look.verdict = direction;
        }
    }
}

#[cfg(test)]
mod tests {
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::{Rng, SeedableRng};

    use super::*;

    const DESIGN: Design = Design {
        margin: 0.03,
        looks: 4,
        shapes: 1,
    };

    /// Rounds whose sides each have a shift of their own, and noise within.
    fn noisy(rng: &mut ChaCha8Rng, rounds: usize, speedup: f64, shift: f64, noise: f64) -> Rounds {
        let mut uniform = || rng.next_u32() as f64 / u32::MAX as f64 - 0.5;
        let mut side = |centre: f64| -> Vec<Vec<f64>> {
            let mut round = || {
                let at = centre * (1.0 + 2.0 * shift * uniform());
                (0..20)
                    .map(|_| at * (1.0 + 2.0 * noise * uniform()))
                    .collect()
            };
            (0..rounds).map(|_| round()).collect()
        };
        Rounds {
            baseline: side(100.0 * speedup),
            candidate: side(100.0),
        }
    }

    #[test]
    fn clear_cases_and_who_may_call_them() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let mut at = |speedup| noisy(&mut rng, 6, speedup, 0.001, 0.01);
        let slower = at(0.5);
        assert_eq!(DESIGN.look(&slower, None, true, 1).verdict, Verdict::Slower);
        let early = DESIGN.look(&slower, None, false, 1);
        assert_eq!((early.verdict, early.direction), (Verdict::Undecided, None));
        assert_eq!(
            DESIGN.look(&at(2.0), None, true, 1).verdict,
            Verdict::Faster
        );
        assert_eq!(DESIGN.look(&at(1.0), None, false, 1).verdict, Verdict::Same);
        let nothing = DESIGN.look(&Rounds::default(), None, true, 1);
        assert_eq!(nothing.verdict, Verdict::Undecided);
        assert_eq!(nothing.p_beyond, 1.0);
    }

    #[test]
    fn clocks_that_changed_make_no_difference() {
        let mut rng = ChaCha8Rng::seed_from_u64(2);
        let times = noisy(&mut rng, 6, 0.9, 0.001, 0.01);
        let same_cycles = noisy(&mut rng, 6, 1.0, 0.001, 0.01);
        let look = DESIGN.look(&times, Some(&same_cycles), true, 1);
        assert_eq!(look.verdict, Verdict::Undecided);
        assert!(!look.cycles_agree());
        let look = DESIGN.look(&times, Some(&times), true, 1);
        assert_eq!(look.verdict, Verdict::Slower);
        assert!((look.in_cycles.expect("given").speedup() - 0.9).abs() < 0.02);
    }

    #[test]
    fn looking_four_times_stays_honest() {
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        let (mut called, mut same) = (0, 0);
        for run in 0..150 {
            let all = noisy(&mut rng, 12, 1.0, 0.03, 0.03);
            for (index, count) in [2, 3, 6, 12].into_iter().enumerate() {
                let seen = Rounds {
                    baseline: all.baseline[..count].to_vec(),
                    candidate: all.candidate[..count].to_vec(),
                };
                match DESIGN.look(&seen, None, index > 0, run).verdict {
                    Verdict::Undecided => continue,
                    Verdict::Same => same += 1,
                    Verdict::Faster | Verdict::Slower => called += 1,
                }
                break;
            }
        }
        assert!(called <= 1, "{called} of 150 A/A runs were called");
        assert!(same > 75, "{same}");
    }

    fn with_p(p_beyond: f64) -> Look {
        let mut rng = ChaCha8Rng::seed_from_u64(4);
        let times = noisy(&mut rng, 6, 0.8, 0.001, 0.01);
        Look {
            verdict: Verdict::Undecided,
            p_beyond,
            ..DESIGN.look(&times, None, true, 1)
        }
    }

    #[test]
    fn holm_steps_down_and_stops() {
        let verdicts = |ps: &[f64], shapes: usize| -> Vec<bool> {
            let mut looks: Vec<Look> = ps.iter().map(|p| with_p(*p)).collect();
            let mut borrowed: Vec<&mut Look> = looks.iter_mut().collect();
            holm(&mut borrowed, shapes);
            looks.iter().map(|l| l.verdict == Verdict::Slower).collect()
        };
        // 0.05 / 3, 0.05 / 2, 0.05.
        assert_eq!(verdicts(&[0.04, 0.01, 0.024], 3), [true, true, true]);
        assert_eq!(verdicts(&[0.04, 0.01, 0.026], 3), [false, true, false]);
        assert_eq!(verdicts(&[0.02, 0.02, 0.02], 3), [false, false, false]);
        assert_eq!(verdicts(&[0.04], 1), [true]);
        assert_eq!(verdicts(&[0.04], 2), [false]);
        assert_eq!(verdicts(&[], 0), [false; 0]);
        assert_eq!(verdicts(&[f64::NAN], 1), [false]);
    }

    #[test]
    fn what_is_the_same_stays_the_same() {
        let mut rng = ChaCha8Rng::seed_from_u64(5);
        let times = noisy(&mut rng, 6, 1.0, 0.0, 0.001);
        let mut same = DESIGN.look(&times, None, true, 1);
        same.p_beyond = 0.0;
        holm(&mut [&mut same], 1);
        assert_eq!(same.verdict, Verdict::Same);
    }

    #[test]
    fn more_shapes_ask_for_more() {
        let one = DESIGN;
        let many = Design { shapes: 50, ..one };
        assert_eq!(one.level(), many.level());
        assert!(many.threshold() < one.threshold() / 49.0);
        let smallest = 2.0 / (many.resamples() + 1) as f64 * many.looks as f64;
        assert!(smallest < many.threshold(), "{smallest}");
    }
}
