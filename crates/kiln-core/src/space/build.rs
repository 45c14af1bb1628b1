//! From rules to components to tables: decomposition, order of binding, pruned enumeration.

use super::component::{Component, Rows, Table};
use super::rules::Rules;
use super::{BuildLimits, Config, Removal, Space, SpaceError};
use crate::expression::{Predicate, Program};

pub(super) fn build(rules: Rules, limits: BuildLimits) -> Result<Space, SpaceError> {
    let width = rules.tunables().len();
    let fixed = vec![0; width];
    let mut false_rule = None;
    for rule in (0..rules.rules().len()).filter(|&r| rules.reads(r).is_empty()) {
        match rules.check(rule, &fixed) {
            Ok(true) => {}
            Ok(false) => false_rule = false_rule.or(Some(rule)),
            Err(error) => return Err(rules.error(rule, &fixed, error)),
        }
    }
    let mut components = decompose(&rules);
    let mut tallies = Vec::with_capacity(components.len());
    for component in &mut components {
        // With a rule that is never met there is nothing to list.
        let is_free = component.checks.is_empty() || false_rule.is_some();
        tallies.push(match is_free {
            true => Seen::default(),
            false => enumerate(&rules, component, limits)?.seen(),
        });
    }
    let mut homes = vec![0; width];
    for (c, component) in components.iter().enumerate() {
        component.tunables.iter().for_each(|&t| homes[t] = c);
    }
    let mut space = Space {
        rules,
        components,
        homes,
        possible: false_rule.is_none(),
        removals: Vec::new(),
    };
    space.removals = removals(&space, &tallies, false_rule);
    Ok(space)
}

/// Groups tunables that a rule reads together, in the order of each group's first tunable.
fn decompose(rules: &Rules) -> Vec<Component> {
    let width = rules.tunables().len();
    let mut group: Vec<usize> = (0..width).collect();
    let mut is_read = vec![false; width];
    for rule in 0..rules.rules().len() {
        let reads = rules.reads(rule);
        for &tunable in reads {
            is_read[tunable] = true;
            let (from, to) = (group[tunable], group[reads[0]]);
            for g in group.iter_mut().filter(|g| **g == from) {
                *g = to;
            }
        }
    }
    let mut components: Vec<Component> = Vec::new();
    for first in 0..width {
        let members: Vec<usize> = (first..width)
            .filter(|&t| group[t] == group[first])
            .collect();
        if (0..first).any(|t| group[t] == group[first]) {
            continue;
        }
        components.push(match is_read[first] {
            false => Component {
                tunables: vec![first],
                checks: Vec::new(),
                rows: Rows::Free(rules.size(first) as u64),
            },
            true => ordered(rules, &members),
        });
    }
    components
}

/// Decides the order of binding: always complete the rule that has the fewest combinations of
/// unbound values left, so that rules prune while few columns are bound.
fn ordered(rules: &Rules, members: &[usize]) -> Component {
    let width = rules.tunables().len();
    let mut is_member = vec![false; width];
    members.iter().for_each(|&t| is_member[t] = true);
    let mut pending: Vec<usize> = (0..rules.rules().len())
        .filter(|&r| rules.reads(r).iter().any(|&t| is_member[t]))
        .collect();
    let mut is_bound = vec![false; width];
    let mut order: Vec<usize> = Vec::with_capacity(members.len());
    let mut checks: Vec<Vec<usize>> = Vec::with_capacity(members.len());
    while order.len() < members.len() {
        let unbound = |rule: usize| -> Vec<usize> {
            let reads = rules.reads(rule).iter().copied();
            reads.filter(|&t| !is_bound[t]).collect()
        };
        let combinations = |rule: usize| {
            unbound(rule)
                .iter()
                .fold(1_u128, |n, &t| n.saturating_mul(rules.size(t) as u128))
        };
        let next = pending.iter().copied().min_by_key(|&r| combinations(r));
        let mut chosen = unbound(next.expect("every tunable of a component is in a rule"));
        chosen.sort_by_key(|&t| rules.size(t));
        for tunable in chosen {
            order.push(tunable);
            is_bound[tunable] = true;
            let decided = |r: &usize| rules.reads(*r).iter().all(|&t| is_bound[t]);
            checks.push(pending.iter().copied().filter(decided).collect());
            pending.retain(|r| !decided(r));
        }
    }
    Component {
        tunables: order,
        checks,
        rows: Rows::Implicit,
    }
}

/// What an enumeration saw, beside the rows.
struct Tally {
    rows: u64,
    /// By rule, rows of this component.
    removed: Vec<u128>,
    examples: Vec<Option<Config>>,
}

/// A tally without the rules that removed nothing: there may be many rules and many components.
#[derive(Default)]
struct Seen {
    rows: u64,
    removed: Vec<(usize, u128, Option<Config>)>,
}

impl Tally {
    fn seen(self) -> Seen {
        let by_rule = self.removed.into_iter().zip(self.examples).enumerate();
        Seen {
            rows: self.rows,
            removed: by_rule
                .filter(|(_, (removed, _))| *removed > 0)
                .map(|(rule, (removed, example))| (rule, removed, example))
                .collect(),
        }
    }

    fn new(rules: usize) -> Tally {
        Tally {
            rows: 0,
            removed: vec![0; rules],
            examples: vec![None; rules],
        }
    }
}

/// Fills in the rows of a component, unless there are too many.
fn enumerate(
    rules: &Rules,
    component: &mut Component,
    limits: BuildLimits,
) -> Result<Tally, SpaceError> {
    let sizes = component.tunables.iter().map(|&t| rules.size(t) as u128);
    let mut completions = vec![1_u128];
    for size in sizes.rev() {
        let last = completions[completions.len() - 1];
        completions.push(last.saturating_mul(size));
    }
    completions.reverse();
    let checks: Vec<Vec<Option<&Predicate>>> = component
        .checks
        .iter()
        .map(|column| column.iter().map(|&r| rules.predicate(r)).collect())
        .collect();
    let mut walk = Walk {
        rules,
        program: Program::new(&checks, &component.tunables),
        component,
        completions: &completions[1..],
        max_rows: limits.rows.min(u64::from(u32::MAX) - 1),
        max_nodes: limits.nodes,
        nodes: 0,
        positions: vec![0; rules.tunables().len()],
        cells: Vec::new(),
        tally: Tally::new(rules.rules().len()),
    };
    match walk.bind(0, None) {
        Ok(()) => {
            let (tally, mut cells) = (walk.tally, walk.cells);
            cells.shrink_to_fit();
            component.rows = Rows::Table(Table::new(component.tunables.len(), cells));
            Ok(tally)
        }
        Err(Stop::TooMany) => Ok(walk.tally),
        Err(Stop::Undecided(rule)) => match rules.check(rule, &walk.positions) {
            Err(error) => Err(rules.error(rule, &walk.positions, error)),
            Ok(_) => unreachable!("the rule failed at these very positions"),
        },
    }
}

enum Stop {
    TooMany,
    /// This rule cannot be evaluated at the current positions, and no other rule rejects them.
    Undecided(usize),
}

struct Walk<'r> {
    rules: &'r Rules,
    program: Program,
    component: &'r Component,
    /// By column, how many rows continue once it is bound.
    completions: &'r [u128],
    max_rows: u64,
    max_nodes: u64,
    nodes: u64,
    positions: Vec<u16>,
    cells: Vec<u16>,
    tally: Tally,
}

impl Walk<'_> {
    /// Tries every value of a column under the columns bound so far. `undecided` is a rule that
    /// could not be evaluated there: harmless as long as another rule rejects every continuation.
    fn bind(&mut self, column: usize, undecided: Option<usize>) -> Result<(), Stop> {
        let component = self.component;
        let tunable = component.tunables[column];
        for position in 0..self.rules.size(tunable) {
            self.nodes += 1;
            if self.nodes > self.max_nodes {
                return Err(Stop::TooMany);
            }
            self.positions[tunable] = position as u16;
            let mut undecided = undecided;
            let mut rejected_by = None;
            for (check, &rule) in component.checks[column].iter().enumerate() {
                let holds = match self.program.decide(column, check, &self.positions) {
                    Some(holds) => Ok(holds),
                    // Not compiled, or an error: the slow way tells them apart.
                    None => self.rules.check(rule, &self.positions),
                };
                match holds {
                    Ok(true) => {}
                    Ok(false) => {
                        rejected_by = Some(rule);
                        break;
                    }
                    Err(_) => undecided = undecided.or(Some(rule)),
                }
            }
            if let Some(rule) = rejected_by {
                self.reject(rule, column);
            } else if column + 1 < component.tunables.len() {
                self.program.go_ahead(column, &self.positions);
                self.bind(column + 1, undecided)?;
            } else if let Some(rule) = undecided {
                return Err(Stop::Undecided(rule));
            } else if self.tally.rows == self.max_rows {
                return Err(Stop::TooMany);
            } else {
                self.tally.rows += 1;
                let row = component.tunables.iter().map(|&t| self.positions[t]);
                self.cells.extend(row);
            }
        }
        Ok(())
    }

    fn reject(&mut self, rule: usize, column: usize) {
        let removed = &mut self.tally.removed[rule];
        *removed = removed.saturating_add(self.completions[column]);
        let example = &mut self.tally.examples[rule];
        if example.is_none() {
            let mut positions = self.positions.clone();
            for &unbound in &self.component.tunables[column + 1..] {
                positions[unbound] = 0;
            }
            *example = Some(Config(positions.into()));
        }
    }
}

/// From rows of components to configs of the space. A config invalid in several components is
/// counted in the first of them: rows removed there stand for every continuation in the later
/// components and for the valid rows of the earlier ones, and the sum telescopes.
fn removals(space: &Space, tallies: &[Seen], false_rule: Option<usize>) -> Vec<Removal> {
    let mut removals: Vec<Removal> = space
        .rules()
        .iter()
        .map(|rule| Removal {
            name: rule.name.clone(),
            kind: rule.kind,
            removed: 0,
            example: None,
        })
        .collect();
    if let Some(rule) = false_rule {
        removals[rule].removed = space.cartesian();
        removals[rule].example = Some(space.blank());
        return removals;
    }
    let total = |component: &Component| {
        let sizes = component.tunables.iter().map(|&t| space.rules.size(t));
        sizes.fold(1_u128, |n, s| n.saturating_mul(s as u128))
    };
    // Listed components first: if one of them is empty, the count is 0 and the sum exact even
    // beside components that are not listed.
    let mut order: Vec<usize> = (0..space.components.len()).collect();
    order.sort_by_key(|&c| space.components[c].len().is_none());
    let mut valid_before = 1_u128;
    for (place, &c) in order.iter().enumerate() {
        let after = order[place + 1..].iter().fold(1_u128, |n, &c| {
            n.saturating_mul(total(&space.components[c]))
        });
        let weight = valid_before.saturating_mul(after);
        let tally = &tallies[c];
        for (rule, removed, example) in &tally.removed {
            let removal = &mut removals[*rule];
            let removed = removed.saturating_mul(weight);
            removal.removed = removal.removed.saturating_add(removed);
            if let Some(example) = example {
                removal.example = Some(elsewhere_valid(space, c, example));
            }
        }
        let valid = space.components[c].len().unwrap_or(tally.rows);
        valid_before = valid_before.saturating_mul(u128::from(valid));
    }
    removals
}

/// The example with a valid row in every other component that has one listed, so that it shows
/// this component's rules only.
fn elsewhere_valid(space: &Space, component: usize, example: &Config) -> Config {
    let mut config = example.clone();
    for (c, other) in space.components.iter().enumerate() {
        if c != component && other.len().is_some_and(|n| n > 0) {
            other.write(0, &mut config.0);
        }
    }
    config
}
