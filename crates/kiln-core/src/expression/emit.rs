//! Expressions in other languages, with kiln's meaning: for programs that launch a kernel without kiln.
//!
//! Tree -> types (all names are integers) -> text. Arithmetic that can fail goes through functions the
//! generated program brings along (the templates of `kiln export`), so that overflow and division by zero are
//! errors there too; in Python they are its own operators, whose integers have no end.

use super::{BinaryOp, CompareOp, Expr, Function, NameRef, Node};
use crate::value::Value;

/// A language to write in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    Python,
    Cpp,
    Rust,
}

/// What an expression gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeType {
    Int,
    Float,
    Bool,
}

/// Why an expression cannot be written in another language.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` cannot be written in another language: {why}")]
pub struct NotEmitted {
    pub text: String,
    pub why: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Piece {
    text: String,
    kind: CodeType,
}

impl Expr {
    /// The expression as an integer in another language. Every name is an integer, written as `name` says.
    pub fn emit_int(
        &self,
        code: Code,
        name: &dyn Fn(&str) -> String,
    ) -> Result<String, NotEmitted> {
        let piece = self.emitted(code, name)?;
        match piece.kind {
            CodeType::Float => Err(self.refused("it is no whole number")),
            _ => Ok(as_int(code, piece)),
        }
    }

    /// The expression as a floating-point number.
    pub fn emit_float(
        &self,
        code: Code,
        name: &dyn Fn(&str) -> String,
    ) -> Result<String, NotEmitted> {
        Ok(as_float(code, self.emitted(code, name)?))
    }

    /// Whether the expression holds, as a condition.
    pub fn emit_truth(
        &self,
        code: Code,
        name: &dyn Fn(&str) -> String,
    ) -> Result<String, NotEmitted> {
        Ok(as_truth(code, self.emitted(code, name)?))
    }

    fn emitted(&self, code: Code, name: &dyn Fn(&str) -> String) -> Result<Piece, NotEmitted> {
        let writer = Writer { code, name };
        writer.piece(&self.node).map_err(|why| self.refused(why))
    }

    fn refused(&self, why: &'static str) -> NotEmitted {
        NotEmitted {
            text: self.text.clone(),
            why,
        }
    }
}

struct Writer<'a> {
    code: Code,
    name: &'a dyn Fn(&str) -> String,
}

fn piece(text: String, kind: CodeType) -> Piece {
    Piece { text, kind }
}

impl Writer<'_> {
    fn piece(&self, node: &Node<NameRef>) -> Result<Piece, &'static str> {
        Ok(match node {
            Node::Literal(value) => self.literal(value)?,
            Node::Name(name) => piece((self.name)(&name.name), CodeType::Int),
            Node::List(_) => return Err("a list is no value"),
            Node::Negate(a) => {
                let a = self.piece(a)?;
                match a.kind {
                    CodeType::Float => piece(format!("(-{})", a.text), CodeType::Float),
                    _ => {
                        let zero = piece(self.int(0), CodeType::Int);
                        self.integers(BinaryOp::Subtract, zero, a)
                    }
                }
            }
            Node::Not(a) => {
                let a = as_truth(self.code, self.piece(a)?);
                let not = match self.code {
                    Code::Python => format!("(not {a})"),
                    Code::Cpp | Code::Rust => format!("(!{a})"),
                };
                piece(not, CodeType::Bool)
            }
            Node::And(a, b) => self.connected(a, b, ["and", "&&"])?,
            Node::Or(a, b) => self.connected(a, b, ["or", "||"])?,
            Node::AndOperand(..) | Node::OrOperand(..) => {
                return Err("`and` and `or` give operands in it");
            }
            Node::If {
                then,
                condition,
                otherwise,
            } => self.choice(then, condition, otherwise)?,
            Node::Binary(op, a, b) => self.binary(*op, a, b)?,
            Node::Chain(first, rest) => self.chain(first, rest)?,
            Node::Call(function, arguments) => self.call(*function, arguments)?,
        })
    }

    fn literal(&self, value: &Value) -> Result<Piece, &'static str> {
        Ok(match value {
            Value::Int(i) => piece(self.int(*i), CodeType::Int),
            Value::Bool(b) => {
                let text = match (self.code, b) {
                    (Code::Python, true) => "True",
                    (Code::Python, false) => "False",
                    (_, true) => "true",
                    (_, false) => "false",
                };
                piece(text.into(), CodeType::Bool)
            }
            Value::Float(x) if x.is_finite() => {
                let text = format!("{x:?}");
                let text = match self.code {
                    Code::Rust => format!("{text}_f64"),
                    _ => text,
                };
                let text = if *x < 0.0 { format!("({text})") } else { text };
                piece(text, CodeType::Float)
            }
            Value::Float(_) => return Err("it holds a number that is not finite"),
            Value::Text(_) => return Err("it works on text"),
        })
    }

    fn int(&self, i: i64) -> String {
        let text = match self.code {
            Code::Python => i.to_string(),
            // The least integer has no literal of its own.
            Code::Cpp if i == i64::MIN => "INT64_MIN".into(),
            Code::Cpp => format!("INT64_C({i})"),
            Code::Rust => format!("{i}_i64"),
        };
        match i < 0 && self.code != Code::Cpp {
            true => format!("({text})"),
            false => text,
        }
    }

    fn connected(
        &self,
        a: &Node<NameRef>,
        b: &Node<NameRef>,
        words: [&str; 2],
    ) -> Result<Piece, &'static str> {
        let a = as_truth(self.code, self.piece(a)?);
        let b = as_truth(self.code, self.piece(b)?);
        let word = match self.code {
            Code::Python => words[0],
            Code::Cpp | Code::Rust => words[1],
        };
        Ok(piece(format!("({a} {word} {b})"), CodeType::Bool))
    }

    fn choice(
        &self,
        then: &Node<NameRef>,
        condition: &Node<NameRef>,
        otherwise: &Node<NameRef>,
    ) -> Result<Piece, &'static str> {
        let condition = as_truth(self.code, self.piece(condition)?);
        let (a, b) = (self.piece(then)?, self.piece(otherwise)?);
        let (a, b, kind) = self.alike(a, b);
        let text = match self.code {
            Code::Python => format!("({a} if {condition} else {b})"),
            Code::Cpp => format!("({condition} ? {a} : {b})"),
            Code::Rust => format!("(if {condition} {{ {a} }} else {{ {b} }})"),
        };
        Ok(piece(text, kind))
    }

    /// Both as the type that holds either.
    fn alike(&self, a: Piece, b: Piece) -> (String, String, CodeType) {
        match (a.kind, b.kind) {
            (CodeType::Bool, CodeType::Bool) => (a.text, b.text, CodeType::Bool),
            (CodeType::Float, _) | (_, CodeType::Float) => (
                as_float(self.code, a),
                as_float(self.code, b),
                CodeType::Float,
            ),
            _ => (as_int(self.code, a), as_int(self.code, b), CodeType::Int),
        }
    }

    fn binary(
        &self,
        op: BinaryOp,
        a: &Node<NameRef>,
        b: &Node<NameRef>,
    ) -> Result<Piece, &'static str> {
        let exponent = match b {
            Node::Literal(Value::Int(i)) => Some(*i),
            _ => None,
        };
        let (a, b) = (self.piece(a)?, self.piece(b)?);
        let is_real = [a.kind, b.kind].contains(&CodeType::Float) || op == BinaryOp::Divide;
        // With whole operands the exponent's sign decides the type, so it has to be known.
        let is_real = match (op, exponent) {
            (BinaryOp::Power, Some(e)) => is_real || e < 0,
            (BinaryOp::Power, None) if !is_real => {
                return Err("the exponent of a whole number must be a constant");
            }
            _ => is_real,
        };
        Ok(match is_real {
            true => {
                let (a, b) = (as_float(self.code, a), as_float(self.code, b));
                piece(self.reals(op, &a, &b), CodeType::Float)
            }
            false => self.integers(op, a, b),
        })
    }

    fn integers(&self, op: BinaryOp, a: Piece, b: Piece) -> Piece {
        let (a, b) = (as_int(self.code, a), as_int(self.code, b));
        let text = match self.code {
            Code::Python => format!("({a} {} {b})", op.symbol()),
            _ => self.helper(helper_name(op), &[&a, &b]),
        };
        piece(text, CodeType::Int)
    }

    fn reals(&self, op: BinaryOp, a: &str, b: &str) -> String {
        match (self.code, op) {
            (Code::Python, _) | (_, BinaryOp::Add | BinaryOp::Subtract | BinaryOp::Multiply) => {
                format!("({a} {} {b})", op.symbol())
            }
            _ => self.helper(&format!("real_{}", helper_name(op)), &[a, b]),
        }
    }

    /// A call of a function that the generated program brings along.
    fn helper(&self, name: &str, arguments: &[&str]) -> String {
        let arguments = arguments.join(", ");
        match self.code {
            Code::Python => format!("_{name}({arguments})"),
            Code::Cpp => format!("{name}({arguments})"),
            Code::Rust => format!("{name}({arguments})?"),
        }
    }

    fn chain(
        &self,
        first: &Node<NameRef>,
        rest: &[(CompareOp, Node<NameRef>)],
    ) -> Result<Piece, &'static str> {
        let mut left = self.piece(first)?;
        let mut conditions = Vec::new();
        for (op, node) in rest {
            if let (CompareOp::In | CompareOp::NotIn, Node::List(items)) = (op, node) {
                conditions.push(self.membership(*op, &left, items)?);
                continue;
            }
            let right = self.piece(node)?;
            let (a, b, _) = self.alike(left, right.clone());
            conditions.push(format!("({a} {} {b})", comparison(*op)?));
            left = right;
        }
        let word = match self.code {
            Code::Python => " and ",
            Code::Cpp | Code::Rust => " && ",
        };
        Ok(match conditions.as_slice() {
            [only] => piece(only.clone(), CodeType::Bool),
            many => piece(format!("({})", many.join(word)), CodeType::Bool),
        })
    }

    fn membership(
        &self,
        op: CompareOp,
        left: &Piece,
        items: &[Node<NameRef>],
    ) -> Result<String, &'static str> {
        let mut alternatives = Vec::new();
        for item in items {
            // Text is equal to no number.
            if matches!(item, Node::Literal(Value::Text(_))) {
                continue;
            }
            let (a, b, _) = self.alike(left.clone(), self.piece(item)?);
            alternatives.push(format!("{a} == {b}"));
        }
        let (or, not, never) = match self.code {
            Code::Python => (" or ", "not ", "False"),
            Code::Cpp | Code::Rust => (" || ", "!", "false"),
        };
        let any = match alternatives.is_empty() {
            true => never.to_string(),
            false => format!("({})", alternatives.join(or)),
        };
        Ok(match op {
            CompareOp::NotIn => format!("({not}{any})"),
            _ => any,
        })
    }

    fn call(&self, function: Function, arguments: &[Node<NameRef>]) -> Result<Piece, &'static str> {
        if matches!(function, Function::Min | Function::Max) {
            return self.extreme(function, arguments);
        }
        let mut pieces = Vec::new();
        for argument in arguments {
            pieces.push(self.piece(argument)?);
        }
        let ints = |pieces: &[Piece]| -> Vec<String> {
            pieces
                .iter()
                .map(|p| as_int(self.code, p.clone()))
                .collect()
        };
        let helped = |name: &str, arguments: Vec<String>, kind: CodeType| {
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            piece(self.helper(name, &arguments), kind)
        };
        let first = pieces
            .first()
            .cloned()
            .ok_or("a function has no argument")?;
        let float = |p: Piece| vec![as_float(self.code, p)];
        Ok(match function {
            Function::Min | Function::Max => unreachable!("handled above"),
            Function::Abs if first.kind == CodeType::Float => {
                helped("real_abs", vec![first.text], CodeType::Float)
            }
            Function::Abs => helped("whole_abs", ints(&pieces), CodeType::Int),
            Function::CeilDiv => helped("ceil_div", ints(&pieces), CodeType::Int),
            Function::AlignUp => helped("align_up", ints(&pieces), CodeType::Int),
            Function::Gcd => helped("gcd", ints(&pieces), CodeType::Int),
            Function::Lcm => helped("lcm", ints(&pieces), CodeType::Int),
            Function::IsPow2 => helped("is_pow2", ints(&pieces), CodeType::Bool),
            Function::Log2 => helped("real_log2", float(first), CodeType::Float),
            Function::Sqrt => helped("real_sqrt", float(first), CodeType::Float),
            Function::Int | Function::Floor | Function::Ceil | Function::Round
                if first.kind != CodeType::Float =>
            {
                piece(as_int(self.code, first), CodeType::Int)
            }
            Function::Floor => helped("whole_floor", float(first), CodeType::Int),
            Function::Ceil => helped("whole_ceil", float(first), CodeType::Int),
            Function::Round => helped("whole_round", float(first), CodeType::Int),
            Function::Int => helped("whole_trunc", float(first), CodeType::Int),
            Function::RoundHalfEven => return Err("it rounds a half to the even neighbour"),
        })
    }

    fn extreme(
        &self,
        function: Function,
        arguments: &[Node<NameRef>],
    ) -> Result<Piece, &'static str> {
        let items = match arguments {
            [Node::List(items)] => items.as_slice(),
            many => many,
        };
        let name = match function {
            Function::Min => "least",
            _ => "most",
        };
        let mut pieces = items.iter().map(|item| self.piece(item));
        let mut so_far = pieces.next().ok_or("an extreme of nothing")??;
        for next in pieces {
            let (a, b, kind) = self.alike(so_far, next?);
            let text = match self.code {
                Code::Python => {
                    format!("{}({a}, {b})", if name == "least" { "min" } else { "max" })
                }
                Code::Cpp | Code::Rust => format!("{name}({a}, {b})"),
            };
            so_far = piece(text, kind);
        }
        Ok(so_far)
    }
}

fn as_int(code: Code, piece: Piece) -> String {
    match (piece.kind, code) {
        (CodeType::Bool, Code::Python) => format!("int({})", piece.text),
        (CodeType::Bool, Code::Cpp) => format!("int64_t({})", piece.text),
        (CodeType::Bool, Code::Rust) => format!("i64::from({})", piece.text),
        _ => piece.text,
    }
}

fn as_float(code: Code, piece: Piece) -> String {
    match (piece.kind, code) {
        (CodeType::Float, _) => piece.text,
        (_, Code::Python) => format!("float({})", piece.text),
        (_, Code::Cpp) => format!("double({})", piece.text),
        (_, Code::Rust) => format!("({} as f64)", as_int(code, piece)),
    }
}

fn as_truth(code: Code, piece: Piece) -> String {
    match (piece.kind, code) {
        (CodeType::Bool, _) => piece.text,
        (_, Code::Python) => format!("({} != 0)", piece.text),
        (CodeType::Int, Code::Cpp) => format!("({} != 0)", piece.text),
        (CodeType::Float, Code::Cpp) => format!("({} != 0.0)", piece.text),
        (CodeType::Int, Code::Rust) => format!("({} != 0_i64)", piece.text),
        (CodeType::Float, Code::Rust) => format!("({} != 0.0_f64)", piece.text),
    }
}

fn helper_name(op: BinaryOp) -> &'static str {
    match op {
        BinaryOp::Add => "add",
        BinaryOp::Subtract => "subtract",
        BinaryOp::Multiply => "multiply",
        BinaryOp::Divide => "divide",
        BinaryOp::FloorDivide => "floor_divide",
        BinaryOp::Remainder => "remainder",
        BinaryOp::Power => "power",
    }
}

fn comparison(op: CompareOp) -> Result<&'static str, &'static str> {
    Ok(match op {
        CompareOp::Less => "<",
        CompareOp::LessEqual => "<=",
        CompareOp::Greater => ">",
        CompareOp::GreaterEqual => ">=",
        CompareOp::Equal => "==",
        CompareOp::NotEqual => "!=",
        CompareOp::In | CompareOp::NotIn => return Err("`in` needs a list on its right"),
    })
}

#[cfg(test)]
mod tests;
