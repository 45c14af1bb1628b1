//! Do the statistics keep their promises on noise like that of real timings? All seeded, so each
//! rate below is one fixed number; the bounds leave room for a change of seed.

use kiln_core::stats::{mann_whitney, ratio_interval};
use kiln_core::verdict::{Verdict, compare};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

struct Noise {
    rng: ChaCha8Rng,
}

impl Noise {
    fn new(seed: u64) -> Noise {
        Noise {
            rng: ChaCha8Rng::seed_from_u64(seed),
        }
    }

    /// In `(0, 1)`.
    fn uniform(&mut self) -> f64 {
        ((self.rng.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    /// Standard normal, by Box and Muller.
    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.uniform().ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }

    fn log_normal(&mut self, spread: f64) -> f64 {
        (spread * self.normal()).exp()
    }

    fn samples(&mut self, count: usize, centre: f64, spread: f64) -> Vec<f64> {
        (0..count)
            .map(|_| centre * self.log_normal(spread))
            .collect()
    }

    /// Heavier to the right, as timings are: log-normal, plus an exponential part of the same size,
    /// and one sample in fifty takes twice the time.
    fn timings(&mut self, count: usize, centre: f64, spread: f64) -> Vec<f64> {
        let mut timing = || {
            let slow = 1.0 - 0.5 * spread * self.uniform().ln();
            let spike = if self.uniform() < 0.02 { 2.0 } else { 1.0 };
            centre * self.log_normal(0.8 * spread) * slow * spike
        };
        (0..count).map(|_| timing()).collect()
    }
}

/// Rounds of two sides; what a round does to the times, it does to both.
struct Sides {
    baseline: Vec<Vec<f64>>,
    candidate: Vec<Vec<f64>>,
}

impl Sides {
    /// 5 rounds of 20 timings a side, the baseline `speedup` times as slow.
    fn timed(noise: &mut Noise, speedup: f64, spread: f64) -> Sides {
        let mut sides = Sides {
            baseline: Vec::new(),
            candidate: Vec::new(),
        };
        for _ in 0..5 {
            let centre = 50_000.0 * noise.log_normal(0.03);
            (sides.baseline).push(noise.timings(20, centre * speedup, spread));
            (sides.candidate).push(noise.timings(20, centre, spread));
        }
        sides
    }
}

#[test]
fn stats_mann_whitney_false_positives_are_near_alpha() {
    let mut noise = Noise::new(1);
    let sets = 2000;
    let positives = (0..sets)
        .filter(|_| {
            let first = noise.samples(100, 50_000.0, 0.05);
            let second = noise.samples(100, 50_000.0, 0.05);
            mann_whitney(&first, &second).p_value < 0.05
        })
        .count();
    let rate = positives as f64 / f64::from(sets);
    assert!((0.03..=0.07).contains(&rate), "{rate}");
}

/// The share of 95 % intervals that hold the true ratio, 100 samples a side in all. Rounds shift both
/// sides alike with spread `common`, and each by its own with spread `apart`.
fn coverage(rounds: usize, common: f64, apart: f64, sets: usize) -> f64 {
    let mut noise = Noise::new(2);
    let truth = 1.07;
    let covered = (0..sets).filter(|set| {
        let mut sides = Sides {
            baseline: Vec::new(),
            candidate: Vec::new(),
        };
        for _ in 0..rounds {
            let both = 50_000.0 * noise.log_normal(common);
            let (over, under) = (noise.log_normal(apart), noise.log_normal(apart));
            let count = 100 / rounds;
            (sides.baseline).push(noise.samples(count, truth * both * over, 0.05));
            (sides.candidate).push(noise.samples(count, both * under, 0.05));
        }
        let seed = *set as u64;
        ratio_interval(&sides.baseline, &sides.candidate, 0.95, 1000, seed).contains(truth)
    });
    covered.count() as f64 / sets as f64
}

#[test]
fn stats_ratio_interval_covers_with_one_round() {
    let rate = coverage(1, 0.0, 0.0, 1000);
    assert!((0.92..=0.99).contains(&rate), "{rate}");
}

#[test]
fn stats_ratio_interval_covers_with_rounds_that_shift_both_sides() {
    let rate = coverage(5, 0.05, 0.0, 1000);
    assert!(rate >= 0.92, "{rate}");
}

/// Few rounds say little about how rounds differ, so this one runs below its level.
#[test]
fn stats_ratio_interval_nearly_covers_with_rounds_that_shift_each_side() {
    let rate = coverage(5, 0.0, 0.02, 1000);
    assert!((0.90..=0.97).contains(&rate), "{rate}");
}

#[test]
fn verdict_on_equal_kernels_is_almost_never_a_change() {
    let mut noise = Noise::new(3);
    let changes = (0..500u32)
        .filter(|set| {
            let spread = 0.01 + 0.01 * f64::from(set % 5);
            let sides = Sides::timed(&mut noise, 1.0, spread);
            let comparison = compare(&sides.baseline, &sides.candidate, 0.03, u64::from(*set));
            matches!(comparison.verdict, Verdict::Faster | Verdict::Slower)
        })
        .count();
    assert!(changes <= 2, "{changes} of 500");
}

#[test]
fn verdict_on_a_tenth_faster_is_faster() {
    let mut noise = Noise::new(4);
    let sets = 200;
    let found = (0..sets)
        .filter(|set| {
            let sides = Sides::timed(&mut noise, 1.1, 0.02);
            compare(&sides.baseline, &sides.candidate, 0.03, *set).verdict == Verdict::Faster
        })
        .count();
    assert!(found as f64 >= 0.95 * sets as f64, "{found} of {sets}");
}
