//! One connected component of a space: its valid rows as a table, or the means to sample them.

use rand::{Rng, RngExt};

use super::rules::Rules;

#[derive(Clone, Debug)]
pub(super) struct Component {
    /// In the order they are bound; column `c` of a row belongs to `tunables[c]`.
    pub(super) tunables: Vec<usize>,
    /// `checks[c]`: the rules that can be decided once columns `0..=c` are bound.
    pub(super) checks: Vec<Vec<usize>>,
    pub(super) rows: Rows,
}

#[derive(Clone, Debug)]
pub(super) enum Rows {
    /// One tunable no rule reads: a row is a position.
    Free(u64),
    Table(Table),
    /// Too many to list.
    Implicit,
}

/// Valid rows in the order they were found, with a hash index back from a row to its number.
#[derive(Clone, Debug)]
pub(super) struct Table {
    width: usize,
    cells: Vec<u16>,
    /// Open addressing with linear probing: a row's number plus one, 0 when empty.
    index: Box<[u32]>,
}

/// Descents whose results compete in one draw; see `Component::draw`.
const COMPETITORS: usize = 4;
/// Descents that may end in a dead end before backtracking takes over.
const DESCENTS: usize = 32;
/// Backtracking restarts, and the partial rows each may look at. A million is tens of milliseconds.
const RESTARTS: usize = 4;
const NODES_PER_RESTART: usize = 250_000;

impl Table {
    /// `cells` holds distinct rows of `width` positions one after the other.
    pub(super) fn new(width: usize, cells: Vec<u16>) -> Table {
        let rows = cells.len() / width;
        let mut table = Table {
            width,
            index: vec![0; (rows + rows / 4 + 1).next_power_of_two()].into(),
            cells,
        };
        for row in 0..rows {
            let mut slot = table.home(table.row(row).iter().copied());
            while table.index[slot] != 0 {
                slot = (slot + 1) & (table.index.len() - 1);
            }
            table.index[slot] = u32::try_from(row + 1).expect("the row limit fits 32 bits");
        }
        table
    }

    pub(super) fn len(&self) -> usize {
        self.cells.len() / self.width
    }

    pub(super) fn row(&self, row: usize) -> &[u16] {
        &self.cells[row * self.width..][..self.width]
    }

    fn home(&self, row: impl Iterator<Item = u16>) -> usize {
        // Multiply and rotate; the high bits are the well-mixed ones.
        const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
        let hash = row.fold(0_u64, |hash, position| {
            (hash.rotate_left(23) ^ u64::from(position)).wrapping_mul(ODD)
        });
        (hash >> 32) as usize & (self.index.len() - 1)
    }

    fn find(&self, tunables: &[usize], positions: &[u16]) -> Option<usize> {
        let mut slot = self.home(tunables.iter().map(|&t| positions[t]));
        loop {
            let row = (self.index[slot] as usize).checked_sub(1)?;
            let cells = self.row(row);
            if cells.iter().zip(tunables).all(|(c, &t)| *c == positions[t]) {
                return Some(row);
            }
            slot = (slot + 1) & (self.index.len() - 1);
        }
    }
}

impl Component {
    /// All tunables of a space in one component, with the given rows.
    pub(super) fn listed(width: usize, cells: Vec<u16>) -> Component {
        Component {
            tunables: (0..width).collect(),
            checks: Vec::new(),
            rows: Rows::Table(Table::new(width, cells)),
        }
    }

    pub(super) fn bytes(&self) -> usize {
        match &self.rows {
            Rows::Table(table) => size_of_val(table.cells.as_slice()) + size_of_val(&*table.index),
            Rows::Free(_) | Rows::Implicit => 0,
        }
    }

    /// `None` when the rows are not listed.
    pub(super) fn len(&self) -> Option<u64> {
        match &self.rows {
            Rows::Free(len) => Some(*len),
            Rows::Table(table) => Some(table.len() as u64),
            Rows::Implicit => None,
        }
    }

    /// Sets this component's positions to a listed row.
    pub(super) fn write(&self, row: u64, positions: &mut [u16]) {
        match &self.rows {
            Rows::Free(_) => positions[self.tunables[0]] = row as u16,
            Rows::Table(table) => self.put(table.row(row as usize), positions),
            Rows::Implicit => unreachable!("only listed rows have numbers"),
        }
    }

    pub(super) fn put(&self, row: &[u16], positions: &mut [u16]) {
        for (&tunable, &position) in self.tunables.iter().zip(row) {
            positions[tunable] = position;
        }
    }

    /// The number of the row with these positions, each within its tunable's list.
    pub(super) fn find(&self, positions: &[u16]) -> Option<u64> {
        match &self.rows {
            Rows::Free(_) => Some(u64::from(positions[self.tunables[0]])),
            Rows::Table(table) => table.find(&self.tunables, positions).map(|row| row as u64),
            Rows::Implicit => None,
        }
    }

    pub(super) fn contains(&self, rules: &Rules, positions: &[u16]) -> bool {
        match &self.rows {
            Rows::Implicit => self.checks.iter().all(|c| holds(rules, c, positions)),
            _ => self.find(positions).is_some(),
        }
    }

    /// Calls back with tunable and position for every cell of every listed row.
    pub(super) fn for_each_cell(&self, mut visit: impl FnMut(usize, u16)) {
        match &self.rows {
            Rows::Free(len) => (0..*len).for_each(|p| visit(self.tunables[0], p as u16)),
            Rows::Table(table) => {
                for row in table.cells.chunks_exact(table.width) {
                    for (&tunable, &position) in self.tunables.iter().zip(row) {
                        visit(tunable, position);
                    }
                }
            }
            Rows::Implicit => {}
        }
    }

    /// A valid row of a component that is not listed.
    ///
    /// A descent binds column after column to a random value that breaks no rule yet. It favours
    /// rows in thin parts of the tree, so a few descents compete and one wins with probability
    /// proportional to the product of its choices: closer to uniform, though not exactly. Where
    /// descents keep running into dead ends, randomised backtracking finds a row if its budget
    /// allows.
    pub(super) fn draw(&self, rules: &Rules, rng: &mut (impl Rng + ?Sized)) -> Option<Vec<u16>> {
        let mut positions = vec![0; rules.tunables().len()];
        let mut winner = None;
        let mut total = f64::NEG_INFINITY;
        let mut found = 0;
        for _ in 0..DESCENTS {
            let Some(weight) = self.descend(rules, &mut positions, rng) else {
                continue;
            };
            // Weights are logarithms: their products overflow on wide components.
            let high = weight.max(total);
            total = high + ((weight - high).exp() + (total - high).exp()).ln();
            if rng.random::<f64>() < (weight - total).exp() || winner.is_none() {
                winner = Some(self.tunables.iter().map(|&t| positions[t]).collect());
            }
            found += 1;
            if found == COMPETITORS {
                break;
            }
        }
        winner.or_else(|| self.backtrack(rules, rng))
    }

    /// One descent; the logarithm of one over its probability, `None` for a dead end.
    fn descend(
        &self,
        rules: &Rules,
        positions: &mut [u16],
        rng: &mut (impl Rng + ?Sized),
    ) -> Option<f64> {
        let mut weight = 0.0;
        let mut open = Vec::new();
        for (&tunable, checks) in self.tunables.iter().zip(&self.checks) {
            open.clear();
            for position in 0..rules.size(tunable) {
                positions[tunable] = position as u16;
                if holds(rules, checks, positions) {
                    open.push(position as u16);
                }
            }
            if open.is_empty() {
                return None;
            }
            positions[tunable] = open[rng.random_range(0..open.len())];
            weight += (open.len() as f64).ln();
        }
        Some(weight)
    }

    fn backtrack(&self, rules: &Rules, rng: &mut (impl Rng + ?Sized)) -> Option<Vec<u16>> {
        let mut positions = vec![0; rules.tunables().len()];
        'restart: for _ in 0..RESTARTS {
            let mut nodes = 0;
            // Per bound column, the values not tried yet in random order.
            let mut untried: Vec<Vec<u16>> = vec![self.shuffled(0, rules, rng)];
            while let Some(values) = untried.last_mut() {
                let Some(position) = values.pop() else {
                    untried.pop();
                    continue;
                };
                nodes += 1;
                if nodes > NODES_PER_RESTART {
                    continue 'restart;
                }
                let column = untried.len() - 1;
                positions[self.tunables[column]] = position;
                if !holds(rules, &self.checks[column], &positions) {
                    continue;
                }
                if untried.len() == self.tunables.len() {
                    return Some(self.tunables.iter().map(|&t| positions[t]).collect());
                }
                untried.push(self.shuffled(column + 1, rules, rng));
            }
            // Every value was tried: the component is empty.
            return None;
        }
        None
    }

    fn shuffled(&self, column: usize, rules: &Rules, rng: &mut (impl Rng + ?Sized)) -> Vec<u16> {
        let size = rules.size(self.tunables[column]);
        let mut values: Vec<u16> = (0..size).map(|p| p as u16).collect();
        super::shuffle(&mut values, rng);
        values
    }
}

/// Whether all of these rules hold; one that cannot be evaluated does not.
fn holds(rules: &Rules, checks: &[usize], positions: &[u16]) -> bool {
    checks
        .iter()
        .all(|&rule| rules.check(rule, positions).unwrap_or(false))
}
