//! From trees to shared steps.

use std::collections::HashMap;

use super::{Cell, Register, Step, bits, operands};
use crate::expression::CompareOp;
use crate::expression::compile::{Chain, Int, Item, Link, Real, Typed};

/// Turns trees into shared steps.
pub(super) struct Builder {
    pub(super) steps: Vec<Step>,
    /// By step, the column that binds the last of what it reads.
    pub(super) completed_by: Vec<Option<usize>>,
    known: HashMap<Step, Register>,
    pub(super) tables: Vec<(usize, Box<[Cell]>)>,
    column_of: HashMap<usize, usize>,
}

/// A register, and what is in it.
#[derive(Clone, Copy)]
enum Operand {
    Int(Register),
    Real(Register),
}

impl Builder {
    pub(super) fn new(slots: &[usize]) -> Builder {
        Builder {
            steps: Vec::new(),
            completed_by: Vec::new(),
            known: HashMap::new(),
            tables: Vec::new(),
            column_of: slots.iter().enumerate().map(|(c, &s)| (s, c)).collect(),
        }
    }

    fn step(&mut self, step: Step) -> Register {
        if let Some(&register) = self.known.get(&step) {
            return register;
        }
        let completed = match step {
            Step::Lookup { slot, .. } => self.column_of.get(&slot).copied(),
            _ => operands(step)
                .into_iter()
                .flatten()
                .filter_map(|r| self.completed_by[r as usize])
                .max(),
        };
        let register = self.steps.len() as Register;
        self.steps.push(step);
        self.completed_by.push(completed);
        self.known.insert(step, register);
        register
    }

    fn lookup(&mut self, slot: usize, results: Box<[Cell]>) -> Register {
        let found = self
            .tables
            .iter()
            .position(|(s, known)| *s == slot && *known == results);
        let table = found.unwrap_or_else(|| {
            self.tables.push((slot, results));
            self.tables.len() - 1
        });
        self.step(Step::Lookup {
            slot,
            table: table as u32,
        })
    }

    pub(super) fn int(&mut self, node: &Int) -> Register {
        let step = match node {
            Int::Constant(x) => Step::Constant(*x),
            Int::Table(table) => return self.lookup(table.slot, table.results.clone()),
            Int::Binary(op, ab) => Step::IntBinary(*op, self.int(&ab[0]), self.int(&ab[1])),
            Int::Call(function, ab) => Step::IntCall(*function, self.int(&ab[0]), self.int(&ab[1])),
            Int::Chain(chain) => return self.chain(chain),
            Int::Truth(a) => Step::Truth(self.real(a)),
            Int::Not(a) => Step::Not(self.int(a)),
            Int::And(ab) => Step::And(self.int(&ab[0]), self.int(&ab[1])),
            Int::Or(ab) => Step::Or(self.int(&ab[0]), self.int(&ab[1])),
            Int::AndOperand(ab) => {
                let (a, b) = (self.int(&ab[0]), self.int(&ab[1]));
                Step::If(a, b, a)
            }
            Int::OrOperand(ab) => {
                let (a, b) = (self.int(&ab[0]), self.int(&ab[1]));
                Step::If(a, a, b)
            }
            Int::If(parts) => {
                let [condition, then, otherwise] = &**parts;
                Step::If(self.int(condition), self.int(then), self.int(otherwise))
            }
            Int::Extreme(function, items) => {
                let mut best = self.int(&items[0]);
                for item in &items[1..] {
                    let item = self.int(item);
                    best = self.step(Step::IntExtreme(*function, best, item));
                }
                return best;
            }
            Int::Negate(a) => Step::IntNegate(self.int(a)),
            Int::Abs(a) => Step::IntAbs(self.int(a)),
            Int::IsPow2(a) => Step::IsPow2(self.int(a)),
            Int::Whole(function, a) => Step::Whole(*function, self.real(a)),
        };
        self.step(step)
    }

    /// Every link must hold; its operands have their steps once.
    fn chain(&mut self, chain: &Chain) -> Register {
        let operands: Vec<Option<Operand>> = chain
            .operands
            .iter()
            .map(|operand| operand.as_ref().map(|o| self.operand(o)))
            .collect();
        let mut links = Vec::with_capacity(chain.links.len());
        for (place, link) in chain.links.iter().enumerate() {
            let needed = |place: usize| operands[place].expect("a link's operands are compiled");
            links.push(match link {
                Link::Known(test) => self.int(test),
                Link::Compare(op) => self.compare(*op, needed(place), needed(place + 1)),
                Link::Membership { items, negated } => {
                    let mut found = self.step(Step::Constant(0));
                    for item in items.iter().rev() {
                        let equal = match item {
                            Item::Known(test) => self.int(test),
                            Item::Equals(item) => {
                                let item = self.operand(item);
                                self.compare(CompareOp::Equal, needed(place), item)
                            }
                        };
                        found = self.step(Step::Or(equal, found));
                    }
                    match negated {
                        true => self.step(Step::Not(found)),
                        false => found,
                    }
                }
            });
        }
        let last = links.pop().expect("a chain has a link");
        links
            .into_iter()
            .rev()
            .fold(last, |rest, link| self.step(Step::And(link, rest)))
    }

    fn operand(&mut self, typed: &Typed) -> Operand {
        match typed {
            Typed::Int(a) => Operand::Int(self.int(a)),
            Typed::Real(a) => Operand::Real(self.real(a)),
        }
    }

    fn compare(&mut self, op: CompareOp, a: Operand, b: Operand) -> Register {
        if let (Operand::Int(a), Operand::Int(b)) = (a, b) {
            return self.step(Step::CompareInt(op, a, b));
        }
        let (a, b) = (self.as_real(a), self.as_real(b));
        self.step(Step::CompareReal(op, a, b))
    }

    fn as_real(&mut self, operand: Operand) -> Register {
        match operand {
            Operand::Int(a) => self.step(Step::ToReal(a)),
            Operand::Real(a) => a,
        }
    }

    fn real(&mut self, node: &Real) -> Register {
        let step = match node {
            Real::Constant(x) => Step::Constant(bits(*x)),
            Real::Table(table) => {
                let results = table.results.iter().map(|x| x.map(bits)).collect();
                return self.lookup(table.slot, results);
            }
            Real::FromInt(a) => Step::ToReal(self.int(a)),
            Real::Binary(op, ab) => Step::RealBinary(*op, self.real(&ab[0]), self.real(&ab[1])),
            Real::If(condition, ab) => {
                Step::If(self.int(condition), self.real(&ab[0]), self.real(&ab[1]))
            }
            Real::AndOperand(ab) => {
                let (a, b) = (self.real(&ab[0]), self.real(&ab[1]));
                Step::If(self.step(Step::Truth(a)), b, a)
            }
            Real::OrOperand(ab) => {
                let (a, b) = (self.real(&ab[0]), self.real(&ab[1]));
                Step::If(self.step(Step::Truth(a)), a, b)
            }
            Real::Extreme(function, items) => {
                let mut best = self.real(&items[0]);
                for item in &items[1..] {
                    let item = self.real(item);
                    best = self.step(Step::RealExtreme(*function, best, item));
                }
                return best;
            }
            Real::Negate(a) => Step::RealNegate(self.real(a)),
            Real::Abs(a) => Step::RealAbs(self.real(a)),
            Real::Log2(a) => Step::Log2(self.real(a)),
            Real::Sqrt(a) => Step::Sqrt(self.real(a)),
        };
        self.step(step)
    }
}
