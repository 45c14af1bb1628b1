//! How time goes with what the compiler reported: occupancy, registers, spills. What was seen, no model.

use serde::Serialize;

use super::words::percent;
use super::{CompiledFacts, FEWEST_TRIALS, Observations};
use crate::stats::normal_upper_tail;
use crate::units::human_ns;

/// Numbers this close are one: occupancies come as fractions of warps.
const SAME: f64 = 1e-9;
/// Times this close are level.
const LEVEL: f64 = 0.01;
const CHANCE: f64 = 0.05;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RelationKind {
    Occupancy,
    Registers,
    Spills,
}

/// One of the compiler's numbers beside time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Relation {
    pub kind: RelationKind,
    pub trials: usize,
    /// The number in the fastest trial: a part for occupancy, a count for registers, bytes for spills.
    pub in_fastest: f64,
    pub lowest: f64,
    pub highest: f64,
    /// Spearman's rank correlation with time, from -1 (more is faster) to 1 (more is slower).
    pub rank_correlation: f64,
    pub p_value: f64,
    /// For every number seen, the fastest trial that has it, in nanoseconds; by increasing number.
    pub fastest_by_number: Vec<(f64, f64)>,
    pub sentence: String,
}

pub(super) fn relations(observations: &Observations) -> Vec<Relation> {
    let seen: Vec<(CompiledFacts, f64)> = observations
        .measured()
        .filter_map(|(row, ns)| Some((row.compiled?, ns)))
        .collect();
    let of = |kind: RelationKind| {
        let number = |facts: &CompiledFacts| match kind {
            RelationKind::Occupancy => facts.occupancy,
            RelationKind::Registers => Some(f64::from(facts.registers)),
            RelationKind::Spills => Some(f64::from(facts.spilled_bytes)),
        };
        let pairs = seen.iter().filter_map(|(f, ns)| Some((number(f)?, *ns)));
        relation(kind, pairs.collect())
    };
    [
        RelationKind::Occupancy,
        RelationKind::Registers,
        RelationKind::Spills,
    ]
    .into_iter()
    .filter_map(of)
    .collect()
}

fn relation(kind: RelationKind, mut pairs: Vec<(f64, f64)>) -> Option<Relation> {
    if pairs.len() < FEWEST_TRIALS {
        return None;
    }
    pairs.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let (lowest, highest) = (pairs.first()?.0, pairs.last()?.0);
    if highest - lowest < SAME {
        return None;
    }
    let in_fastest = pairs.iter().min_by(|a, b| a.1.total_cmp(&b.1))?.0;
    // Sorted by time among equal numbers: the first of each is its fastest.
    let mut fastest_by_number = pairs.clone();
    fastest_by_number.dedup_by(|later, first| (later.0 - first.0).abs() < SAME);
    let rank_correlation = spearman(&pairs);
    // Normal for all but the fewest trials.
    let standard = rank_correlation.abs() * ((pairs.len() - 1) as f64).sqrt();
    let mut relation = Relation {
        kind,
        trials: pairs.len(),
        in_fastest,
        lowest,
        highest,
        rank_correlation,
        p_value: (2.0 * normal_upper_tail(standard)).min(1.0),
        fastest_by_number,
        sentence: String::new(),
    };
    relation.sentence = sentence(&relation);
    Some(relation)
}

impl Relation {
    /// The fastest with more, and the fastest with less, than the fastest of all: number and time.
    fn beside_fastest(&self) -> [Option<(f64, f64)>; 2] {
        let fastest = |keep: &dyn Fn(f64) -> bool| {
            let kept = self.fastest_by_number.iter().filter(|(n, _)| keep(*n));
            kept.min_by(|a, b| a.1.total_cmp(&b.1)).copied()
        };
        [
            fastest(&|n| n > self.in_fastest + SAME),
            fastest(&|n| n < self.in_fastest - SAME),
        ]
    }

    fn fastest_ns(&self) -> f64 {
        let times = self.fastest_by_number.iter().map(|(_, ns)| *ns);
        times.fold(f64::INFINITY, f64::min)
    }
}

fn sentence(relation: &Relation) -> String {
    let best = relation.fastest_ns();
    let [more, less] = relation.beside_fastest();
    let slower = |(number, ns): (f64, f64)| {
        let number = shown(relation.kind, number);
        match ns / best - 1.0 {
            ..LEVEL => format!("level at {number}"),
            by => format!("{number} is {} slower at best", percent(by)),
        }
    };
    let trend = match (relation.p_value < CHANCE, relation.rank_correlation > 0.0) {
        (false, _) => "",
        (true, true) => "; over all trials, more goes with slower",
        (true, false) => "; over all trials, more goes with faster",
    };
    let here = shown(relation.kind, relation.in_fastest);
    match (relation.kind, more, less) {
        (RelationKind::Spills, Some(spilled), None) if relation.in_fastest == 0.0 => format!(
            "spills: the fastest config has none; with spills {} at best against {}",
            human_ns(spilled.1),
            human_ns(best)
        ),
        (RelationKind::Spills, ..) => format!("spills: the fastest config spills {here}{trend}"),
        (RelationKind::Occupancy, Some(more), _) => {
            format!(
                "best occupancy is {here}; more does not help ({}){trend}",
                slower(more)
            )
        }
        (RelationKind::Occupancy, None, Some(less)) => format!(
            "best occupancy is {here}, the highest seen; less does not help ({}){trend}",
            slower(less)
        ),
        (RelationKind::Registers, ..) => {
            let sides: Vec<String> = [more, less].into_iter().flatten().map(slower).collect();
            format!(
                "the fastest config has {here} ({}){trend}",
                sides.join(", ")
            )
        }
        (RelationKind::Occupancy, None, None) => format!("best occupancy is {here}"),
    }
}

fn shown(kind: RelationKind, number: f64) -> String {
    match kind {
        RelationKind::Occupancy => format!("{:.0} %", 100.0 * number),
        RelationKind::Registers => format!("{number:.0} registers"),
        RelationKind::Spills => format!("{number:.0} bytes"),
    }
}

/// The rank correlation; ties share their average rank.
fn spearman(pairs: &[(f64, f64)]) -> f64 {
    let x = ranks(&pairs.iter().map(|p| p.0).collect::<Vec<_>>());
    let y = ranks(&pairs.iter().map(|p| p.1).collect::<Vec<_>>());
    let middle = (pairs.len() as f64 - 1.0) / 2.0;
    let (mut xy, mut xx, mut yy) = (0.0, 0.0, 0.0);
    for (a, b) in x.iter().zip(&y) {
        xy += (a - middle) * (b - middle);
        xx += (a - middle).powi(2);
        yy += (b - middle).powi(2);
    }
    match xx * yy > 0.0 {
        true => xy / (xx * yy).sqrt(),
        false => 0.0,
    }
}

fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut ranks = vec![0.0; values.len()];
    let mut start = 0;
    while start < order.len() {
        let mut end = start;
        while end < order.len() && values[order[end]] == values[order[start]] {
            end += 1;
        }
        let shared = (start + end - 1) as f64 / 2.0;
        for &at in &order[start..end] {
            ranks[at] = shared;
        }
        start = end;
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn relate(kind: RelationKind, pairs: &[(f64, f64)]) -> Relation {
        relation(kind, pairs.to_vec()).unwrap()
    }

    #[test]
    fn the_best_occupancy_is_named() {
        let pairs: Vec<(f64, f64)> = (0..30)
            .map(|i| {
                let occupancy = f64::from(i % 6 + 1) / 8.0;
                (
                    occupancy,
                    100.0 + 200.0 * (occupancy - 0.375_f64).abs() + f64::from(i) / 50.0,
                )
            })
            .collect();
        let found = relate(RelationKind::Occupancy, &pairs);
        assert_eq!(found.in_fastest, 0.375);
        assert!(
            found.sentence.starts_with(
                "best occupancy is 38 %; more does not help (50 % is 25 % slower at best)"
            ),
            "{}",
            found.sentence
        );
    }

    #[test]
    fn spills_are_set_against_none() {
        let pairs: Vec<(f64, f64)> = (0..12)
            .map(|i| match i % 3 {
                0 => (64.0, 2000.0),
                _ => (0.0, 1000.0 + f64::from(i)),
            })
            .collect();
        let found = relate(RelationKind::Spills, &pairs);
        assert_eq!(
            found.sentence,
            "spills: the fastest config has none; with spills 2.00 us at best against 1.001 us"
        );
        assert!(found.rank_correlation > 0.5 && found.p_value < 0.05);
    }

    #[test]
    fn few_trials_and_equal_numbers_say_nothing() {
        assert!(relation(RelationKind::Registers, vec![(1.0, 1.0), (2.0, 2.0)]).is_none());
        assert!(relation(RelationKind::Registers, vec![(32.0, 1.0); 20]).is_none());
    }

    #[test]
    fn ties_share_a_rank() {
        assert_eq!(ranks(&[3.0, 1.0, 3.0, 2.0]), [2.5, 0.0, 2.5, 1.0]);
        let up: Vec<(f64, f64)> = (0..10).map(|i| (f64::from(i), f64::from(i * i))).collect();
        assert!((spearman(&up) - 1.0).abs() < 1e-12);
        assert_eq!(spearman(&[(1.0, 2.0), (1.0, 3.0)]), 0.0);
    }
}
