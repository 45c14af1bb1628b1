//! The rule that says most briefly which of some configs fail.
//!
//! Rules are weighed by description length: the bits that say the rule, and the bits that say which configs it
//! is wrong about. A rule is worth saying when both together are clearly shorter than a list of the
//! failures; that keeps a rule with many conditions from being found in a few trials by chance.

use super::literal::{Kind, Literal, candidates};
use crate::space::Tunable;
use crate::trial::Assignment;

/// Conditions in one rule.
const MOST_LITERALS: usize = 4;
/// Distinct conditions that are combined with each other.
const MOST_COMBINED: usize = 1200;
/// Rules that are made longer.
const BEAM: usize = 120;
/// Bits a rule has to save. Random failures reach this in about 1 of 100 studies
/// (`tests::random_failures_follow_no_rule`).
const LEAST_GAIN: f64 = 6.0;

/// A set of configs, one bit each.
type Bits = Vec<u64>;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Formula {
    Literal(Literal),
    And(Box<Formula>, Box<Formula>),
    Or(Box<Formula>, Box<Formula>),
}

impl Formula {
    pub(super) fn negated(&self) -> Formula {
        match self {
            Formula::Literal(literal) => Formula::Literal(literal.negated()),
            Formula::And(a, b) => Formula::Or(a.negated().into(), b.negated().into()),
            Formula::Or(a, b) => Formula::And(a.negated().into(), b.negated().into()),
        }
    }

    /// In the constraints' language.
    pub(super) fn text(&self) -> String {
        let part = |formula: &Formula, is_and: bool| {
            let needs = match formula {
                Formula::Literal(_) => false,
                Formula::And(..) => !is_and,
                Formula::Or(..) => is_and,
            };
            match needs {
                true => format!("({})", formula.text()),
                false => formula.text(),
            }
        };
        match self {
            Formula::Literal(literal) => literal.to_string(),
            Formula::And(a, b) => format!("{} and {}", part(a, true), part(b, true)),
            Formula::Or(a, b) => format!("{} or {}", part(a, false), part(b, false)),
        }
    }

    pub(super) fn tunables(&self) -> Vec<&str> {
        match self {
            Formula::Literal(literal) => literal.tunables(),
            Formula::And(a, b) | Formula::Or(a, b) => {
                let mut names = a.tunables();
                names.extend(b.tunables());
                names
            }
        }
    }
}

/// A rule and how it fares.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) formula: Formula,
    pub(super) failing_met: usize,
    pub(super) working_met: usize,
    /// Bits saved against listing the failures.
    pub(super) gain: f64,
    /// Others that are as short and hold for the very same configs.
    pub(super) alike: Vec<Formula>,
}

/// A condition with the configs that meet it.
struct Condition {
    literal: Literal,
    bits: Bits,
    cost: f64,
}

#[derive(Clone)]
struct Rule {
    formula: Formula,
    literals: usize,
    bits: Bits,
    cost: f64,
    total: f64,
}

/// What is to be told apart.
struct Cases {
    failing: Bits,
    failing_count: usize,
    count: usize,
}

pub(super) fn shortest(
    tunables: &[Tunable],
    failing: &[&Assignment],
    working: &[&Assignment],
) -> Option<Found> {
    if failing.is_empty() || working.is_empty() {
        return None;
    }
    let configs: Vec<&Assignment> = failing.iter().chain(working).copied().collect();
    let cases = Cases {
        failing: bits(configs.len(), |at| at < failing.len()),
        failing_count: failing.len(),
        count: configs.len(),
    };
    let conditions = conditions(tunables, &configs, &cases);
    let mut best: Option<Rule> = None;
    let mut beam: Vec<Rule> = Vec::new();
    for condition in &conditions {
        let cost = condition.cost;
        let formula = || Formula::Literal(condition.literal.clone());
        consider(
            &cases,
            condition.bits.clone(),
            cost,
            1,
            &formula,
            &mut best,
            &mut beam,
        );
    }
    for literals in 2..=MOST_LITERALS {
        // Two conditions are tried in every combination: what they say together may show in neither.
        let longer_from: Vec<Rule> = match literals {
            2 => beam.clone(),
            _ => shorten(std::mem::take(&mut beam)),
        };
        // Nothing longer can be shorter.
        let least = conditions
            .iter()
            .map(|c| c.cost)
            .fold(f64::INFINITY, f64::min);
        let at_least = least * literals as f64 + exact_bits();
        if best.as_ref().is_some_and(|rule| rule.total <= at_least) {
            break;
        }
        beam.clear();
        for (at, rule) in longer_from.iter().enumerate() {
            // Of two single conditions the order is of no meaning.
            let from = if literals == 2 { at + 1 } else { 0 };
            for condition in &conditions[from..] {
                let cost = rule.cost + condition.cost + 1.0;
                let and: Bits = zip(&rule.bits, &condition.bits, |a, b| a & b);
                let or: Bits = zip(&rule.bits, &condition.bits, |a, b| a | b);
                let side = || Box::new(Formula::Literal(condition.literal.clone()));
                let whole = || Box::new(rule.formula.clone());
                let both = || Formula::And(whole(), side());
                let either = || Formula::Or(whole(), side());
                consider(&cases, and, cost, literals, &both, &mut best, &mut beam);
                consider(&cases, or, cost, literals, &either, &mut best, &mut beam);
            }
            if beam.len() > 20 * BEAM {
                beam = shorten(beam);
            }
        }
    }
    let rule = best?;
    let gain = cases.list_bits() - rule.total;
    if gain < LEAST_GAIN {
        return None;
    }
    let met = |bits: &Bits| bits.iter().map(|w| w.count_ones() as usize).sum::<usize>();
    let failing_met = met(&zip(&rule.bits, &cases.failing, |a, b| a & b));
    Some(Found {
        failing_met,
        working_met: met(&rule.bits) - failing_met,
        gain,
        alike: match rule.literals {
            1 => alike(tunables, &configs, &rule),
            _ => Vec::new(),
        },
        formula: rule.formula,
    })
}

/// Keeps a rule where it is the shortest so far, or worth making longer.
fn consider(
    cases: &Cases,
    bits: Bits,
    cost: f64,
    literals: usize,
    formula: &dyn Fn() -> Formula,
    best: &mut Option<Rule>,
    beam: &mut Vec<Rule>,
) {
    let total = cost + cases.exception_bits(&bits);
    let is_best = best.as_ref().is_none_or(|b| total < b.total - 1e-9);
    // Pairs are tried from all single conditions, longer rules from a few.
    let worth_keeping = literals == 1 || beam.len() < BEAM || total < cases.list_bits() + 10.0;
    if !is_best && !worth_keeping {
        return;
    }
    let rule = Rule {
        formula: formula(),
        literals,
        bits,
        cost,
        total,
    };
    if is_best {
        *best = Some(rule.clone());
    }
    beam.push(rule);
}

fn shorten(mut beam: Vec<Rule>) -> Vec<Rule> {
    beam.sort_by(|a, b| a.total.total_cmp(&b.total));
    beam.dedup_by(|later, first| later.bits == first.bits);
    beam.truncate(BEAM);
    beam
}

fn bits(count: usize, is_in: impl Fn(usize) -> bool) -> Bits {
    let mut bits = vec![0; count.div_ceil(64)];
    for at in (0..count).filter(|&at| is_in(at)) {
        bits[at / 64] |= 1 << (at % 64);
    }
    bits
}

fn zip(a: &Bits, b: &Bits, op: impl Fn(u64, u64) -> u64) -> Bits {
    a.iter().zip(b).map(|(a, b)| op(*a, *b)).collect()
}

/// Conditions that tell some of the configs from others, one for each set of configs: the first of the cheapest.
fn conditions(tunables: &[Tunable], configs: &[&Assignment], cases: &Cases) -> Vec<Condition> {
    let all = candidates(tunables);
    let count_of = |kind: Kind| all.iter().filter(|(k, _)| *k == kind).count().max(1) as f64;
    let mut seen: std::collections::HashMap<Bits, usize> = Default::default();
    let mut conditions: Vec<Condition> = Vec::new();
    let kinds = [
        Kind::Value,
        Kind::Comparison,
        Kind::Remainder,
        Kind::Product,
        Kind::TripleProduct,
    ];
    for kind in kinds {
        let cost = kind.bits() + count_of(kind).log2();
        for (_, literal) in all.iter().filter(|(k, _)| *k == kind) {
            let Some(bits) = meeting(literal, configs) else {
                continue;
            };
            let met: u32 = bits.iter().map(|w| w.count_ones()).sum();
            if met == 0 || met as usize == configs.len() {
                continue;
            }
            match seen.get(&bits) {
                Some(&at) if conditions[at].cost <= cost => {}
                Some(&at) => {
                    conditions[at].literal = literal.clone();
                    conditions[at].cost = cost;
                }
                None => {
                    seen.insert(bits.clone(), conditions.len());
                    conditions.push(Condition {
                        literal: literal.clone(),
                        bits,
                        cost,
                    });
                }
            }
        }
    }
    if conditions.len() > MOST_COMBINED {
        conditions.sort_by(|a, b| {
            let total = |c: &Condition| c.cost + cases.exception_bits(&c.bits);
            total(a).total_cmp(&total(b))
        });
        conditions.truncate(MOST_COMBINED);
    }
    conditions
}

/// `None` where it cannot be told for some config.
fn meeting(literal: &Literal, configs: &[&Assignment]) -> Option<Bits> {
    let mut met = Vec::with_capacity(configs.len());
    for config in configs {
        let value = |name: &str| {
            let found = config.iter().find(|(n, _)| n == name);
            found.map(|(_, value)| value.clone())
        };
        met.push(literal.holds(&value)?);
    }
    Some(bits(configs.len(), |at| met[at]))
}

/// Conditions over other tunables that hold for the very same configs: the trials cannot tell them apart.
fn alike(tunables: &[Tunable], configs: &[&Assignment], rule: &Rule) -> Vec<Formula> {
    let own = rule.formula.tunables();
    candidates(tunables)
        .into_iter()
        .filter(|(kind, literal)| *kind == Kind::Value && literal.tunables() != own)
        .filter(|(_, literal)| meeting(literal, configs).as_ref() == Some(&rule.bits))
        .map(|(_, literal)| Formula::Literal(literal))
        .collect()
}

/// Saying that there are no exceptions.
fn exact_bits() -> f64 {
    1.0
}

impl Cases {
    /// Bits to list the failures without any rule.
    fn list_bits(&self) -> f64 {
        let n = self.count as f64;
        log2_choose(self.count, self.failing_count) + (n + 1.0).log2()
    }

    /// Bits to say which configs a rule is wrong about.
    fn exception_bits(&self, met: &Bits) -> f64 {
        let (mut met_count, mut failing_met) = (0, 0);
        for (met, failing) in met.iter().zip(&self.failing) {
            met_count += met.count_ones() as usize;
            failing_met += (met & failing).count_ones() as usize;
        }
        let working_met = met_count - failing_met;
        let failing_missed = self.failing_count - failing_met;
        if working_met == 0 && failing_missed == 0 {
            return exact_bits();
        }
        let missed_count = self.count - met_count;
        exact_bits()
            + (met_count as f64 + 1.0).log2()
            + log2_choose(met_count, working_met)
            + (missed_count as f64 + 1.0).log2()
            + log2_choose(missed_count, failing_missed)
    }
}

/// The logarithm of the number of ways to choose `k` of `n`.
fn log2_choose(n: usize, k: usize) -> f64 {
    let k = k.min(n - k.min(n));
    (0..k)
        .map(|i| ((n - i) as f64 / (k - i) as f64).log2())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_to_choose() {
        assert!((log2_choose(20, 3) - 1140f64.log2()).abs() < 1e-9);
        assert_eq!(log2_choose(5, 0), 0.0);
        assert!((log2_choose(5, 5)).abs() < 1e-12);
    }
}
