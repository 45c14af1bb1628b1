//! Many rules as one list of steps, each run as early as its names allow.
//!
//! An enumeration binds columns one after the other. A step of a rule that reads only columns bound
//! long ago need not run again for every value of the last one, and what two rules have in common
//! need not run twice: steps are shared, and each belongs to the column that completes it.

use super::compile::{Predicate, compare};
use super::evaluate::{integer_binary, integer_call, is_pow2, real_binary, whole};
use super::{BinaryOp, CompareOp, Function};

mod build;

use build::Builder;

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
