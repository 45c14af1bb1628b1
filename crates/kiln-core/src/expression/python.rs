//! To and from Python, where its expressions and kiln's differ.

use super::{BinaryOp, CompareOp, Dialect, ExprError, Function, NameRef, Node, function_names};
use crate::value::Value;

/// Python's built-in functions that conditions use, with kiln's function of that meaning.
const PYTHON_FUNCTIONS: [(&str, Function); 5] = [
    ("min", Function::Min),
    ("max", Function::Max),
    ("abs", Function::Abs),
    ("round", Function::RoundHalfEven),
    ("int", Function::Int),
];

/// The most members a `range` may have on the right of `in`; each becomes a comparison.
const MOST_MEMBERS: i64 = 1024;

impl Dialect {
    pub(super) fn function_names(self) -> Vec<&'static str> {
        match self {
            Dialect::Kiln => function_names(),
            Dialect::Python => PYTHON_FUNCTIONS.iter().map(|(name, _)| *name).collect(),
        }
    }

    pub(super) fn function(self, name: &str) -> Option<Function> {
        match self {
            Dialect::Kiln => Function::from_name(name),
            Dialect::Python => PYTHON_FUNCTIONS
                .iter()
                .find(|(n, _)| *n == name)
                .map(|(_, f)| *f),
        }
    }
}

/// The members of `range(…)` as a list, when the bounds are constants and they are few.
pub(super) fn range_members(
    arguments: &[Node<NameRef>],
    span: std::ops::Range<usize>,
) -> Result<Node<NameRef>, ExprError> {
    let refuse = |message: &str| ExprError {
        message: message.to_string(),
        span: span.clone(),
        hint: None,
    };
    let constant = |node: &Node<NameRef>| {
        let bound = node.try_map(&mut |_: &NameRef| Err::<usize, ()>(())).ok()?;
        match super::evaluate::eval(&bound, &|_| unreachable!("no names are left")).ok()? {
            Value::Int(i) => Some(i),
            _ => None,
        }
    };
    let bounds: Option<Vec<i64>> = arguments.iter().map(constant).collect();
    let (start, stop, step) = match bounds.as_deref() {
        Some([stop]) => (0, *stop, 1),
        Some([start, stop]) => (*start, *stop, 1),
        Some([start, stop, step]) if *step != 0 => (*start, *stop, *step),
        Some([_, _, _]) => return Err(refuse("the step of `range` is 0")),
        Some(_) => return Err(refuse("`range` takes 1 to 3 arguments")),
        None => return Err(refuse("the bounds of `range` must be whole constants here")),
    };
    let mut members = Vec::new();
    let mut at = start;
    while (step > 0 && at < stop) || (step < 0 && at > stop) {
        if members.len() as i64 == MOST_MEMBERS {
            return Err(refuse("`range` has more than 1024 members")
                .map_hint("compare with its bounds instead, e.g. `0 <= x < 5000`"));
        }
        members.push(Node::Literal(Value::Int(at)));
        let Some(next) = at.checked_add(step) else {
            break;
        };
        at = next;
    }
    Ok(Node::List(members))
}

impl ExprError {
    fn map_hint(mut self, hint: &str) -> ExprError {
        self.hint = Some(hint.to_string());
        self
    }
}

/// What is asked of a node: only whether it is true, or its very value.
#[derive(Clone, Copy, PartialEq)]
enum Wanted {
    Truth,
    Value,
}

/// Marks `and` and `or` wherever more than their truth is asked for: in Python they give one of
/// their operands, in kiln a boolean.
pub(super) fn operands_as_values(node: Node<NameRef>) -> Node<NameRef> {
    rewrite(node, Wanted::Truth)
}

fn rewrite(node: Node<NameRef>, wanted: Wanted) -> Node<NameRef> {
    let boxed = |node: Box<Node<NameRef>>, wanted| Box::new(rewrite(*node, wanted));
    let each = |nodes: Vec<Node<NameRef>>| -> Vec<Node<NameRef>> {
        nodes
            .into_iter()
            .map(|n| rewrite(n, Wanted::Value))
            .collect()
    };
    match node {
        Node::Literal(_) | Node::Name(_) => node,
        Node::And(a, b) if wanted == Wanted::Truth => {
            Node::And(boxed(a, Wanted::Truth), boxed(b, Wanted::Truth))
        }
        Node::Or(a, b) if wanted == Wanted::Truth => {
            Node::Or(boxed(a, Wanted::Truth), boxed(b, Wanted::Truth))
        }
        Node::And(a, b) | Node::AndOperand(a, b) => {
            Node::AndOperand(boxed(a, Wanted::Value), boxed(b, Wanted::Value))
        }
        Node::Or(a, b) | Node::OrOperand(a, b) => {
            Node::OrOperand(boxed(a, Wanted::Value), boxed(b, Wanted::Value))
        }
        Node::Not(a) => Node::Not(boxed(a, Wanted::Truth)),
        Node::If {
            then,
            condition,
            otherwise,
        } => Node::If {
            then: boxed(then, wanted),
            condition: boxed(condition, Wanted::Truth),
            otherwise: boxed(otherwise, wanted),
        },
        Node::List(items) => Node::List(each(items)),
        Node::Call(function, arguments) => Node::Call(function, each(arguments)),
        Node::Negate(a) => Node::Negate(boxed(a, Wanted::Value)),
        Node::Binary(op, a, b) => {
            Node::Binary(op, boxed(a, Wanted::Value), boxed(b, Wanted::Value))
        }
        Node::Chain(first, rest) => Node::Chain(
            boxed(first, Wanted::Value),
            rest.into_iter()
                .map(|(op, node)| (op, rewrite(node, Wanted::Value)))
                .collect(),
        ),
    }
}

/// The longest text of a part: `round` and `align_up` say their operands more than once, so that nesting
/// them multiplies.
const MOST_TEXT: usize = 1 << 16;

/// As Python, every operand in parentheses unless it is a name, a literal or the beginning of the same sum,
/// product, `and` or `or`.
pub(super) fn write(node: &Node<NameRef>) -> Option<String> {
    readable(written(node, Wanted::Truth)?)
}

pub(super) fn write_value(node: &Node<NameRef>) -> Option<String> {
    readable(written(node, Wanted::Value)?)
}

/// Parentheses make a text deeper than its tree; one that is too deep to be read is not written.
fn readable(text: String) -> Option<String> {
    super::parse::parse(&text, Dialect::Python)
        .is_ok()
        .then_some(text)
}

fn written(node: &Node<NameRef>, wanted: Wanted) -> Option<String> {
    let value = |node: &Node<NameRef>| operand(node, Wanted::Value);
    let truth = |node: &Node<NameRef>| operand(node, Wanted::Truth);
    // kiln's connectives are booleans, Python's are operands: the same only as far as truth goes.
    let connective = |text: String| match wanted {
        Wanted::Truth => text,
        Wanted::Value => format!("True if {text} else False"),
    };
    let text = match node {
        Node::Literal(literal) => value_text(literal),
        Node::Name(name) => name.name.clone(),
        Node::List(items) => format!("[{}]", list(items)?),
        Node::Negate(a) => format!("-{}", value(a)?),
        Node::Not(a) => format!("not {}", truth(a)?),
        Node::And(a, b) => {
            let first = first(a, matches!(**a, Node::And(..)), Wanted::Truth)?;
            connective(format!("{first} and {}", truth(b)?))
        }
        Node::Or(a, b) => {
            let first = first(a, matches!(**a, Node::Or(..)), Wanted::Truth)?;
            connective(format!("{first} or {}", truth(b)?))
        }
        Node::AndOperand(a, b) => format!("{} and {}", value(a)?, value(b)?),
        Node::OrOperand(a, b) => format!("{} or {}", value(a)?, value(b)?),
        Node::If {
            then,
            condition,
            otherwise,
        } => format!(
            "{} if {} else {}",
            operand(then, wanted)?,
            truth(condition)?,
            operand(otherwise, wanted)?
        ),
        Node::Binary(op, a, b) => {
            let continues =
                matches!(&**a, Node::Binary(before, ..) if op.level() == before.level());
            let first = first(a, continues && op.level().is_some(), Wanted::Value)?;
            format!("{first} {} {}", op.symbol(), value(b)?)
        }
        Node::Chain(first, rest) => {
            let mut text = value(first)?;
            for (op, right) in rest {
                text.push_str(&format!(" {} {}", compare_symbol(*op), value(right)?));
            }
            text
        }
        Node::Call(function, arguments) => call(*function, arguments)?,
    };
    (text.len() <= MOST_TEXT).then_some(text)
}

/// The left operand, without parentheses where it continues the same run of operators.
fn first(node: &Node<NameRef>, continues: bool, wanted: Wanted) -> Option<String> {
    match continues {
        true => written(node, wanted),
        false => operand(node, wanted),
    }
}

impl BinaryOp {
    /// Operators of one level are taken from left to right; `None` for the power, which is not.
    fn level(self) -> Option<u8> {
        match self {
            BinaryOp::Add | BinaryOp::Subtract => Some(0),
            BinaryOp::Multiply | BinaryOp::Divide | BinaryOp::FloorDivide | BinaryOp::Remainder => {
                Some(1)
            }
            BinaryOp::Power => None,
        }
    }
}

fn operand(node: &Node<NameRef>, wanted: Wanted) -> Option<String> {
    let text = written(node, wanted)?;
    let is_plain = match node {
        Node::Literal(Value::Int(i)) => *i >= 0,
        Node::Literal(Value::Float(x)) => x.is_sign_positive(),
        Node::Literal(_) | Node::Name(_) | Node::List(_) => true,
        _ => false,
    };
    Some(match is_plain {
        true => text,
        false => format!("({text})"),
    })
}

fn list(items: &[Node<NameRef>]) -> Option<String> {
    let items: Option<Vec<String>> = items.iter().map(|i| operand(i, Wanted::Value)).collect();
    Some(items?.join(", "))
}

fn call(function: Function, arguments: &[Node<NameRef>]) -> Option<String> {
    let argument = |n: usize| operand(&arguments[n], Wanted::Value);
    Some(match function {
        Function::Min | Function::Max => {
            let name = if function == Function::Min {
                "min"
            } else {
                "max"
            };
            match arguments {
                // Python's `min(3)` is an error; kiln's is 3.
                [Node::List(items)] => format!("{name}([{}])", list(items)?),
                _ => format!("{name}([{}])", list(arguments)?),
            }
        }
        Function::Abs => format!("abs({})", argument(0)?),
        Function::Int => format!("int({})", argument(0)?),
        Function::RoundHalfEven => format!("round({})", argument(0)?),
        Function::CeilDiv => format!("-(-{} // {})", argument(0)?, argument(1)?),
        Function::AlignUp => {
            let (x, unit) = (argument(0)?, argument(1)?);
            format!("-(-{x} // {unit}) * {unit}")
        }
        Function::IsPow2 => {
            let powers: Vec<String> = (0..63).map(|e| (1_i64 << e).to_string()).collect();
            format!("{} in [{}]", argument(0)?, powers.join(", "))
        }
        Function::Sqrt => format!("{} ** 0.5", argument(0)?),
        Function::Floor => format!("int({} // 1)", argument(0)?),
        Function::Ceil => format!("-int(-{} // 1)", argument(0)?),
        // A half goes away from zero.
        Function::Round => {
            let x = argument(0)?;
            format!("int({x} + 0.5) if {x} >= 0 else -int(0.5 - {x})")
        }
        Function::Gcd | Function::Lcm | Function::Log2 => return None,
    })
}

/// A value as a Python literal.
pub(crate) fn value_text(value: &Value) -> String {
    match value {
        Value::Bool(true) => "True".to_string(),
        Value::Bool(false) => "False".to_string(),
        Value::Int(i) => i.to_string(),
        Value::Float(x) => float_text(*x),
        Value::Text(text) => quoted(text),
    }
}

/// As Python's `repr` writes it: Kernel Tuner finds records by such texts.
fn float_text(x: f64) -> String {
    let text = format!("{x:?}");
    match text.split_once('e') {
        None => text,
        Some((digits, exponent)) => {
            let (sign, exponent) = match exponent.strip_prefix('-') {
                Some(positive) => ('-', positive),
                None => ('+', exponent),
            };
            format!("{digits}e{sign}{exponent:0>2}")
        }
    }
}

/// A Python string literal.
fn quoted(text: &str) -> String {
    let mut literal = String::from("'");
    for character in text.chars() {
        match character {
            '\\' => literal.push_str("\\\\"),
            '\'' => literal.push_str("\\'"),
            '\n' => literal.push_str("\\n"),
            '\t' => literal.push_str("\\t"),
            '\r' => literal.push_str("\\r"),
            other => literal.push(other),
        }
    }
    literal.push('\'');
    literal
}

/// What a Python string literal stands for, given what is between its quotes; `None` for an
/// escape that is not one of the plain ones.
pub(super) fn unescaped(text: &str) -> Option<String> {
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        plain.push(match character {
            '\\' => match characters.next()? {
                'n' => '\n',
                't' => '\t',
                'r' => '\r',
                same @ ('\\' | '\'' | '"') => same,
                _ => return None,
            },
            other => other,
        });
    }
    Some(plain)
}

fn compare_symbol(op: CompareOp) -> &'static str {
    match op {
        CompareOp::Less => "<",
        CompareOp::LessEqual => "<=",
        CompareOp::Greater => ">",
        CompareOp::GreaterEqual => ">=",
        CompareOp::Equal => "==",
        CompareOp::NotEqual => "!=",
        CompareOp::In => "in",
        CompareOp::NotIn => "not in",
    }
}

#[cfg(test)]
mod tests;
