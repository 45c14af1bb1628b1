//! The small expression language of constraints, launch geometry and sizes.
//!
//! `Expr::parse` turns text into a tree, `Expr::bind` resolves names to slots, `BoundExpr::eval`
//! computes. Meaning follows Python where users expect it: `//` floors, `%` takes the divisor's
//! sign, `/` is real division, comparisons chain, `and`/`or` stop early. Integer overflow and
//! division by zero are errors, never wrapped values.

use std::collections::BTreeSet;
use std::ops::Range;

use thiserror::Error;

use crate::value::Value;

mod compile;
mod emit;
mod evaluate;
mod fold;
mod parse;
mod program;
mod python;

pub(crate) use compile::Predicate;
pub use emit::{Code, NotEmitted};
pub use evaluate::EvalError;
pub(crate) use program::Program;
pub(crate) use python::value_text as python_literal;

/// A parsed expression with its text, not yet tied to a set of names.
#[derive(Clone, Debug)]
pub struct Expr {
    text: String,
    node: Node<NameRef>,
}

/// A name as written, with its place in the text.
#[derive(Clone, Debug, PartialEq)]
pub struct NameRef {
    pub name: String,
    pub span: Range<usize>,
}

/// An expression whose names are positions in a list of values.
#[derive(Clone, Debug)]
pub struct BoundExpr {
    text: String,
    node: Node<usize>,
    slots: Vec<usize>,
}

#[derive(Clone, Debug, Error, PartialEq)]
#[error("{message}")]
pub struct ExprError {
    pub message: String,
    /// Byte range within the expression's text.
    pub span: Range<usize>,
    pub hint: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
enum Node<N> {
    Literal(Value),
    Name(N),
    List(Vec<Node<N>>),
    Negate(Box<Node<N>>),
    Not(Box<Node<N>>),
    Binary(BinaryOp, Box<Node<N>>, Box<Node<N>>),
    /// `a < b <= c`: first operand, then each comparison with its right side.
    Chain(Box<Node<N>>, Vec<(CompareOp, Node<N>)>),
    And(Box<Node<N>>, Box<Node<N>>),
    Or(Box<Node<N>>, Box<Node<N>>),
    /// Python's `and` and `or` where their value is used: they give the operand that decided.
    AndOperand(Box<Node<N>>, Box<Node<N>>),
    OrOperand(Box<Node<N>>, Box<Node<N>>),
    If {
        then: Box<Node<N>>,
        condition: Box<Node<N>>,
        otherwise: Box<Node<N>>,
    },
    Call(Function, Vec<Node<N>>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum BinaryOp {
    Add,
    Subtract,
    Multiply,
    Divide,
    FloorDivide,
    Remainder,
    Power,
}

impl BinaryOp {
    /// As it is written, here and in Python.
    fn symbol(self) -> &'static str {
        match self {
            BinaryOp::Add => "+",
            BinaryOp::Subtract => "-",
            BinaryOp::Multiply => "*",
            BinaryOp::Divide => "/",
            BinaryOp::FloorDivide => "//",
            BinaryOp::Remainder => "%",
            BinaryOp::Power => "**",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum CompareOp {
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    Equal,
    NotEqual,
    In,
    NotIn,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Function {
    Min,
    Max,
    Abs,
    CeilDiv,
    AlignUp,
    Gcd,
    Lcm,
    IsPow2,
    Log2,
    Sqrt,
    Floor,
    Ceil,
    Round,
    /// Python's `round`: a half goes to the even neighbour. It has no name in kiln's own language.
    RoundHalfEven,
    Int,
}

/// Whose language a text is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dialect {
    Kiln,
    Python,
}

impl Function {
    const ALL: [(&'static str, Function); 14] = [
        ("min", Function::Min),
        ("max", Function::Max),
        ("abs", Function::Abs),
        ("ceil_div", Function::CeilDiv),
        ("align_up", Function::AlignUp),
        ("gcd", Function::Gcd),
        ("lcm", Function::Lcm),
        ("is_pow2", Function::IsPow2),
        ("log2", Function::Log2),
        ("sqrt", Function::Sqrt),
        ("floor", Function::Floor),
        ("ceil", Function::Ceil),
        ("round", Function::Round),
        ("int", Function::Int),
    ];

    fn from_name(name: &str) -> Option<Function> {
        Function::ALL
            .iter()
            .find(|(n, _)| *n == name)
            .map(|(_, f)| *f)
    }

    /// How many arguments are allowed: least and most.
    fn arity(self) -> (usize, usize) {
        match self {
            Function::Min | Function::Max => (1, usize::MAX),
            Function::CeilDiv | Function::AlignUp | Function::Gcd | Function::Lcm => (2, 2),
            _ => (1, 1),
        }
    }
}

/// The names of all built-in functions, for hints and documentation.
pub fn function_names() -> Vec<&'static str> {
    Function::ALL.iter().map(|(n, _)| *n).collect()
}

impl Expr {
    pub fn parse(text: &str) -> Result<Expr, ExprError> {
        Ok(Expr {
            text: text.to_string(),
            node: parse::parse(text, Dialect::Kiln)?,
        })
    }

    /// Reads a Python expression and keeps Python's meaning where kiln's language differs: `and`
    /// and `or` give an operand, `round` goes to the even neighbour, `in range(…)` works.
    pub fn parse_python(text: &str) -> Result<Expr, ExprError> {
        let node = parse::parse(text, Dialect::Python)?;
        Ok(Expr {
            text: text.to_string(),
            node: python::operands_as_values(node),
        })
    }

    /// A condition as Python, with kiln's meaning; `None` when it calls a function that Python has
    /// no built-in way to say (`gcd`, `lcm`, `log2`), or is nested too deeply to be read again.
    pub fn to_python(&self) -> Option<String> {
        python::write(&self.node)
    }

    /// Like `to_python`, for an expression whose value counts and not only its truth.
    pub fn to_python_value(&self) -> Option<String> {
        python::write_value(&self.node)
    }

    /// The expression with some names replaced by integers; its text stays.
    pub fn with_constants(&self, constants: &[(String, i64)]) -> Expr {
        Expr {
            text: self.text.clone(),
            node: self.node.with_constants(constants),
        }
    }

    /// An expression that is always this integer.
    pub fn constant(value: i64) -> Expr {
        Expr {
            text: value.to_string(),
            node: Node::Literal(Value::Int(value)),
        }
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether both mean the same, however they are spaced and put in brackets.
    pub fn says_the_same(&self, other: &Expr) -> bool {
        let names = self.names();
        let scope: Vec<&str> = names.iter().map(|n| n.name.as_str()).collect();
        match (self.bind(&scope), other.bind(&scope)) {
            (Ok(own), Ok(others)) => own.node == others.node,
            _ => self.text == other.text,
        }
    }

    /// Every name used, in order of first appearance in the text.
    pub fn names(&self) -> Vec<&NameRef> {
        let mut found = Vec::new();
        self.node.visit_names(&mut |name| found.push(name));
        let mut seen = BTreeSet::new();
        found.retain(|n| seen.insert(n.name.clone()));
        found
    }

    /// Resolves names against `scope`; the position of a name in `scope` becomes its slot.
    pub fn bind<S: AsRef<str>>(&self, scope: &[S]) -> Result<BoundExpr, ExprError> {
        let node = self.node.try_map(&mut |name: &NameRef| {
            scope
                .iter()
                .position(|s| s.as_ref() == name.name)
                .ok_or_else(|| unknown_name(name, scope))
        })?;
        let mut slots = Vec::new();
        node.visit_names(&mut |slot| slots.push(*slot));
        slots.sort_unstable();
        slots.dedup();
        Ok(BoundExpr {
            text: self.text.clone(),
            node,
            slots,
        })
    }
}

fn unknown_name<S: AsRef<str>>(name: &NameRef, scope: &[S]) -> ExprError {
    let known: Vec<&str> = scope.iter().map(AsRef::as_ref).collect();
    let hint = match crate::diagnostic::nearest(&name.name, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None if known.is_empty() => "no names are known here".to_string(),
        None => format!("known here: {}", known.join(", ")),
    };
    ExprError {
        message: format!("unknown name `{}`", name.name),
        span: name.span.clone(),
        hint: Some(hint),
    }
}

impl BoundExpr {
    pub fn text(&self) -> &str {
        &self.text
    }

    /// How many parts it has: what evaluating it costs.
    pub(crate) fn size(&self) -> usize {
        self.node.size()
    }

    /// The slots this expression reads, ascending, each once.
    pub fn slots(&self) -> &[usize] {
        &self.slots
    }

    pub fn eval(&self, values: &[Value]) -> Result<Value, EvalError> {
        evaluate::eval(&self.node, &|slot| &values[slot])
    }

    /// Evaluates with a function from slot to value, for callers that hold no dense list.
    pub fn eval_with<'v>(&self, value: &dyn Fn(usize) -> &'v Value) -> Result<Value, EvalError> {
        evaluate::eval(&self.node, value)
    }

    /// This expression compared with a limit: `self <= limit`, as a rule for the space builder.
    pub fn at_most(&self, limit: i64) -> BoundExpr {
        BoundExpr {
            // Arithmetic binds tighter than the comparison; whatever does not is put in parentheses.
            text: match &self.node {
                Node::If { .. }
                | Node::And(..)
                | Node::Or(..)
                | Node::AndOperand(..)
                | Node::OrOperand(..)
                | Node::Not(..)
                | Node::Chain(..) => {
                    format!("({}) <= {limit}", self.text)
                }
                _ => format!("{} <= {limit}", self.text),
            },
            node: Node::Chain(
                Box::new(self.node.clone()),
                vec![(CompareOp::LessEqual, Node::Literal(Value::Int(limit)))],
            ),
            slots: self.slots.clone(),
        }
    }
}

impl Node<NameRef> {
    fn with_constants(&self, constants: &[(String, i64)]) -> Node<NameRef> {
        let replaced = |node: &Node<NameRef>| node.with_constants(constants);
        let boxed = |node: &Node<NameRef>| Box::new(node.with_constants(constants));
        match self {
            Node::Literal(value) => Node::Literal(value.clone()),
            Node::Name(name) => match constants.iter().find(|(n, _)| *n == name.name) {
                Some((_, value)) => Node::Literal(Value::Int(*value)),
                None => Node::Name(name.clone()),
            },
            Node::List(items) => Node::List(items.iter().map(replaced).collect()),
            Node::Call(f, items) => Node::Call(*f, items.iter().map(replaced).collect()),
            Node::Negate(a) => Node::Negate(boxed(a)),
            Node::Not(a) => Node::Not(boxed(a)),
            Node::Binary(op, a, b) => Node::Binary(*op, boxed(a), boxed(b)),
            Node::And(a, b) => Node::And(boxed(a), boxed(b)),
            Node::Or(a, b) => Node::Or(boxed(a), boxed(b)),
            Node::AndOperand(a, b) => Node::AndOperand(boxed(a), boxed(b)),
            Node::OrOperand(a, b) => Node::OrOperand(boxed(a), boxed(b)),
            Node::Chain(first, rest) => Node::Chain(
                boxed(first),
                rest.iter()
                    .map(|(op, node)| (*op, replaced(node)))
                    .collect(),
            ),
            Node::If {
                then,
                condition,
                otherwise,
            } => Node::If {
                then: boxed(then),
                condition: boxed(condition),
                otherwise: boxed(otherwise),
            },
        }
    }
}

impl<N> Node<N> {
    fn children(&self) -> Vec<&Node<N>> {
        match self {
            Node::Literal(_) | Node::Name(_) => Vec::new(),
            Node::List(items) | Node::Call(_, items) => items.iter().collect(),
            Node::Negate(a) | Node::Not(a) => vec![a],
            Node::Binary(_, a, b)
            | Node::And(a, b)
            | Node::Or(a, b)
            | Node::AndOperand(a, b)
            | Node::OrOperand(a, b) => vec![a, b],
            Node::Chain(first, rest) => std::iter::once(&**first)
                .chain(rest.iter().map(|(_, node)| node))
                .collect(),
            Node::If {
                then,
                condition,
                otherwise,
            } => vec![then, condition, otherwise],
        }
    }

    /// How many nodes there are.
    fn size(&self) -> usize {
        1 + self.children().into_iter().map(Node::size).sum::<usize>()
    }

    fn visit_names<'a>(&'a self, visit: &mut impl FnMut(&'a N)) {
        if let Node::Name(name) = self {
            visit(name);
        }
        for child in self.children() {
            child.visit_names(visit);
        }
    }

    fn try_map<M, E>(&self, map: &mut impl FnMut(&N) -> Result<M, E>) -> Result<Node<M>, E> {
        let boxed = |node: &Node<N>, map: &mut _| node.try_map(map).map(Box::new);
        Ok(match self {
            Node::Literal(v) => Node::Literal(v.clone()),
            Node::Name(n) => Node::Name(map(n)?),
            Node::List(items) => Node::List(
                items
                    .iter()
                    .map(|n| n.try_map(map))
                    .collect::<Result<_, E>>()?,
            ),
            Node::Call(f, items) => Node::Call(
                *f,
                items
                    .iter()
                    .map(|n| n.try_map(map))
                    .collect::<Result<_, E>>()?,
            ),
            Node::Negate(a) => Node::Negate(boxed(a, map)?),
            Node::Not(a) => Node::Not(boxed(a, map)?),
            Node::Binary(op, a, b) => Node::Binary(*op, boxed(a, map)?, boxed(b, map)?),
            Node::And(a, b) => Node::And(boxed(a, map)?, boxed(b, map)?),
            Node::Or(a, b) => Node::Or(boxed(a, map)?, boxed(b, map)?),
            Node::AndOperand(a, b) => Node::AndOperand(boxed(a, map)?, boxed(b, map)?),
            Node::OrOperand(a, b) => Node::OrOperand(boxed(a, map)?, boxed(b, map)?),
            Node::Chain(first, rest) => {
                let first = boxed(first, map)?;
                let mut mapped = Vec::with_capacity(rest.len());
                for (op, node) in rest {
                    mapped.push((*op, node.try_map(map)?));
                }
                Node::Chain(first, mapped)
            }
            Node::If {
                then,
                condition,
                otherwise,
            } => Node::If {
                then: boxed(then, map)?,
                condition: boxed(condition, map)?,
                otherwise: boxed(otherwise, map)?,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn eval(text: &str) -> Result<Value, String> {
        let scope = ["M", "N", "warps", "layout", "fast"];
        let values = [
            Value::Int(128),
            Value::Int(64),
            Value::Int(4),
            Value::Text("row".into()),
            Value::Bool(true),
        ];
        Expr::parse(text)
            .and_then(|e| e.bind(&scope))
            .map_err(|e| e.to_string())?
            .eval(&values)
            .map_err(|e| e.to_string())
    }

    fn is_true(text: &str) {
        assert_eq!(eval(text), Ok(Value::Bool(true)), "{text}");
    }

    #[test]
    fn follows_python() {
        is_true("M % (16 * warps) == 0");
        is_true("32 <= N < M <= 128");
        is_true("not (M < N) and fast");
        is_true("layout in ['row', \"col\"]");
        is_true("layout != 'col' or 1 / 0 > 1");
        is_true("M not in (1, 2, 3)");
        is_true("-7 // 2 == -4");
        is_true("-7 % 3 == 2");
        is_true("7 / 2 == 3.5");
        is_true("2 ** 3 ** 2 == 512");
        is_true("-2 ** 2 == -4");
        is_true("ceil_div(M + 1, N) == 3");
        is_true("min(M, N, 3) == 3 and max([1, 2]) == 2");
        is_true("is_pow2(N) and log2(N) == 6");
        is_true("align_up(65, 64) == 128");
        is_true("(1 if M > N else 2) == 1");
        is_true("True == 1 and false == 0");
        is_true("0x10 == 16 and 1_000 == 1000 and 1e3 == 1000");
        is_true("1 < 2 < 3");
        is_true("not 3 < 2 < 1 / 0");
    }

    #[test]
    fn errors_name_the_place() {
        let error = Expr::parse("M % ").unwrap_err();
        assert_eq!(error.span, 4..4);
        let error = Expr::parse("M && N").unwrap_err();
        assert!(error.hint.unwrap().contains("`and`"));
        let error = Expr::parse("M = 3").unwrap_err();
        assert!(error.hint.unwrap().contains("=="));
        let error = Expr::parse("maxx(1, 2)").unwrap_err();
        assert_eq!(error.hint.as_deref(), Some("did you mean `max`?"));
        let error = Expr::parse("WARP + 1")
            .unwrap()
            .bind(&["WARPS"])
            .unwrap_err();
        assert_eq!(error.hint.as_deref(), Some("did you mean `WARPS`?"));
        assert_eq!(error.span, 0..4);
    }

    #[test]
    fn arithmetic_never_wraps() {
        assert!(eval("9223372036854775807 + 1").is_err());
        assert!(eval("M // (N - 64)").is_err());
        assert!(eval("M % 0").is_err());
        assert!(eval("2 ** 100").is_err());
        assert!(eval("layout + 1").is_err());
        assert!(eval("layout < 1").is_err());
        assert!(eval("gcd(-9223372036854775807 - 1, 0)").is_err());
        assert!(eval("abs(-9223372036854775807 - 1)").is_err());
        assert!(eval("(-9223372036854775807 - 1) // -1").is_err());
        assert!(eval("(-9223372036854775807 - 1) % -1").is_err());
    }

    #[test]
    fn deep_nesting_is_an_error_not_a_crash() {
        let text = "(".repeat(100_000);
        assert!(Expr::parse(&text).is_err());
        let text = format!("{}1", "-".repeat(100_000));
        assert!(Expr::parse(&text).is_err());
        let text = format!("1{}", " + 1".repeat(100_000));
        assert!(Expr::parse(&text).is_err());
    }
}
