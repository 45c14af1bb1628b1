//! Many rules as one list of steps, each run as early as its names allow.
//!
//! An enumeration binds columns one after the other. A step of a rule that reads only columns bound
//! long ago need not run again for every value of the last one, and what two rules have in common
//! need not run twice: steps are shared, and each belongs to the column that completes it.

use std::collections::HashMap;

use super::compile::{Int, Predicate, Real, compare};
use super::evaluate::{integer_binary, integer_call, is_pow2, real_binary, whole};
use super::{BinaryOp, CompareOp, Function};

/// The number of a step; its result is in the register of that number.
type Register = u32;

/// An integer, the bits of a real number, or an error. Errors are values here: a step that
/// short-circuits in the language ignores the error of the side it does not need.
type Cell = Option<i64>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
    Constant(i64),
    Lookup { slot: usize, table: u32 },
    IntBinary(BinaryOp, Register, Register),
    IntCall(Function, Register, Register),
    CompareInt(CompareOp, Register, Register),
    CompareReal(CompareOp, Register, Register),
    Not(Register),
    And(Register, Register),
    Or(Register, Register),
    If(Register, Register, Register),
    IntExtreme(Function, Register, Register),
    RealExtreme(Function, Register, Register),
    IntNegate(Register),
    RealNegate(Register),
    IntAbs(Register),
    RealAbs(Register),
    IsPow2(Register),
    Whole(Function, Register),
    Truth(Register),
    ToReal(Register),
    RealBinary(BinaryOp, Register, Register),
    Log2(Register),
    Sqrt(Register),
}

/// Rules over columns, ready to run column by column.
#[derive(Debug, Default)]
pub(crate) struct Program {
    steps: Vec<Step>,
    tables: Vec<Box<[Cell]>>,
    columns: Vec<Column>,
    registers: Vec<Cell>,
}

/// What runs when a column is bound.
#[derive(Debug, Default)]
struct Column {
    /// By check, in order: its steps that this column completes, and where its answer is.
    checks: Vec<Check>,
    /// Steps of checks that a later column completes.
    ahead: Vec<Register>,
}

#[derive(Debug)]
struct Check {
    steps: Vec<Register>,
    /// `None` for a rule that has no predicate.
    answer: Option<Register>,
}

impl Program {
    /// `checks[c]` lists the predicates to decide when column `c` is bound; `slots[c]` is the slot
    /// that column binds. Every slot a predicate reads is bound by then.
    pub(crate) fn new(checks: &[Vec<Option<&Predicate>>], slots: &[usize]) -> Program {
        let mut builder = Builder::new(slots);
        let answers: Vec<Vec<Option<Register>>> = checks
            .iter()
            .map(|column| {
                let answer = |p: &Option<&Predicate>| p.map(|p| builder.int(&p.0));
                column.iter().map(answer).collect()
            })
            .collect();
        let Builder {
            steps,
            completed_by,
            tables,
            ..
        } = builder;
        let mut program = Program {
            registers: vec![None; steps.len()],
            columns: Vec::with_capacity(checks.len()),
            tables: tables.into_iter().map(|(_, results)| results).collect(),
            steps,
        };
        let mut is_placed = vec![false; program.steps.len()];
        // What reads no column at all runs once, now.
        for register in 0..program.steps.len() {
            if completed_by[register].is_none() {
                is_placed[register] = true;
                program.run_step(register as Register, &[]);
            }
        }
        for (c, answers) in answers.into_iter().enumerate() {
            let mut column = Column::default();
            let here = |r: usize| completed_by[r] == Some(c);
            for answer in answers {
                let mut steps = Vec::new();
                if let Some(answer) = answer {
                    program.collect(answer, &here, &mut is_placed, &mut steps);
                }
                // Operands are numbered before what uses them.
                steps.sort_unstable();
                column.checks.push(Check { steps, answer });
            }
            for (register, placed) in is_placed.iter_mut().enumerate() {
                if here(register) && !*placed {
                    *placed = true;
                    column.ahead.push(register as Register);
                }
            }
            program.columns.push(column);
        }
        program
    }

    /// The steps below an answer that run at a column and are not placed yet.
    fn collect(
        &self,
        from: Register,
        here: &impl Fn(usize) -> bool,
        is_placed: &mut [bool],
        into: &mut Vec<Register>,
    ) {
        let mut pending = vec![from];
        while let Some(register) = pending.pop() {
            let at = register as usize;
            if is_placed[at] || !here(at) {
                continue;
            }
            is_placed[at] = true;
            into.push(register);
            pending.extend(operands(self.steps[at]).into_iter().flatten());
        }
    }

    /// Runs what a check still needs at this column and gives its answer; `None` when evaluation
    /// is an error or the rule has no predicate. Checks of a column run in their order.
    #[inline]
    pub(crate) fn decide(
        &mut self,
        column: usize,
        check: usize,
        positions: &[u16],
    ) -> Option<bool> {
        let answer = self.columns[column].checks[check].answer?;
        for place in 0..self.columns[column].checks[check].steps.len() {
            let register = self.columns[column].checks[check].steps[place];
            self.run_step(register, positions);
        }
        self.registers[answer as usize].map(|x| x != 0)
    }

    /// Runs the steps that later columns will read, once this one's checks hold.
    #[inline]
    pub(crate) fn go_ahead(&mut self, column: usize, positions: &[u16]) {
        for place in 0..self.columns[column].ahead.len() {
            let register = self.columns[column].ahead[place];
            self.run_step(register, positions);
        }
    }

    #[inline]
    fn run_step(&mut self, register: Register, positions: &[u16]) {
        self.registers[register as usize] = self.result(self.steps[register as usize], positions);
    }

    #[inline]
    fn result(&self, step: Step, positions: &[u16]) -> Cell {
        let int = |r: Register| self.registers[r as usize];
        let real = |r: Register| self.registers[r as usize].map(of_bits);
        Some(match step {
            Step::Constant(x) => x,
            Step::Lookup { slot, table } => {
                return self.tables[table as usize][usize::from(positions[slot])];
            }
            Step::IntBinary(op, a, b) => return integer_binary(op, int(a)?, int(b)?).ok(),
            Step::IntCall(function, a, b) => return integer_call(function, int(a)?, int(b)?).ok(),
            Step::CompareInt(op, a, b) => i64::from(compare(op, &int(a)?, &int(b)?)?),
            Step::CompareReal(op, a, b) => i64::from(compare(op, &real(a)?, &real(b)?)?),
            Step::Not(a) => i64::from(int(a)? == 0),
            Step::And(a, b) => i64::from(int(a)? != 0 && int(b)? != 0),
            Step::Or(a, b) => i64::from(int(a)? != 0 || int(b)? != 0),
            Step::If(condition, a, b) => {
                return match int(condition)? {
                    0 => int(b),
                    _ => int(a),
                };
            }
            Step::IntExtreme(Function::Min, a, b) => int(a)?.min(int(b)?),
            Step::IntExtreme(_, a, b) => int(a)?.max(int(b)?),
            Step::RealExtreme(function, a, b) => {
                let (best, x) = (real(a)?, real(b)?);
                let order = x.partial_cmp(&best)?;
                let replaces = match function {
                    Function::Min => order.is_lt(),
                    _ => order.is_gt(),
                };
                bits(if replaces { x } else { best })
            }
            Step::IntNegate(a) => return int(a)?.checked_neg(),
            Step::RealNegate(a) => bits(-real(a)?),
            Step::IntAbs(a) => return int(a)?.checked_abs(),
            Step::RealAbs(a) => bits(real(a)?.abs()),
            Step::IsPow2(a) => i64::from(is_pow2(int(a)?)),
            Step::Whole(function, a) => return whole(function, real(a)?).ok(),
            Step::Truth(a) => i64::from(real(a)? != 0.0),
            Step::ToReal(a) => bits(int(a)? as f64),
            Step::RealBinary(op, a, b) => bits(real_binary(op, real(a)?, real(b)?).ok()?),
            Step::Log2(a) => bits(real(a)?.log2()),
            Step::Sqrt(a) => bits(real(a)?.sqrt()),
        })
    }
}

fn bits(x: f64) -> i64 {
    x.to_bits() as i64
}

fn of_bits(x: i64) -> f64 {
    f64::from_bits(x as u64)
}

fn operands(step: Step) -> [Option<Register>; 3] {
    match step {
        Step::Constant(_) | Step::Lookup { .. } => [None; 3],
        Step::IntBinary(_, a, b)
        | Step::IntCall(_, a, b)
        | Step::CompareInt(_, a, b)
        | Step::CompareReal(_, a, b)
        | Step::And(a, b)
        | Step::Or(a, b)
        | Step::IntExtreme(_, a, b)
        | Step::RealExtreme(_, a, b)
        | Step::RealBinary(_, a, b) => [Some(a), Some(b), None],
        Step::If(c, a, b) => [Some(c), Some(a), Some(b)],
        Step::Not(a)
        | Step::IntNegate(a)
        | Step::RealNegate(a)
        | Step::IntAbs(a)
        | Step::RealAbs(a)
        | Step::IsPow2(a)
        | Step::Whole(_, a)
        | Step::Truth(a)
        | Step::ToReal(a)
        | Step::Log2(a)
        | Step::Sqrt(a) => [Some(a), None, None],
    }
}

/// Turns trees into shared steps.
struct Builder {
    steps: Vec<Step>,
    /// By step, the column that binds the last of what it reads.
    completed_by: Vec<Option<usize>>,
    known: HashMap<Step, Register>,
    tables: Vec<(usize, Box<[Cell]>)>,
    column_of: HashMap<usize, usize>,
}

impl Builder {
    fn new(slots: &[usize]) -> Builder {
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

    fn int(&mut self, node: &Int) -> Register {
        let step = match node {
            Int::Constant(x) => Step::Constant(*x),
            Int::Table(table) => return self.lookup(table.slot, table.results.clone()),
            Int::Binary(op, ab) => Step::IntBinary(*op, self.int(&ab[0]), self.int(&ab[1])),
            Int::Call(function, ab) => Step::IntCall(*function, self.int(&ab[0]), self.int(&ab[1])),
            Int::Compare(op, ab) => Step::CompareInt(*op, self.int(&ab[0]), self.int(&ab[1])),
            Int::CompareReal(op, ab) => {
                Step::CompareReal(*op, self.real(&ab[0]), self.real(&ab[1]))
            }
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
