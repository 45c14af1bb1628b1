//! Text to tree: a tokenizer and a precedence-climbing parser.

use std::ops::Range;

use super::{BinaryOp, CompareOp, Dialect, ExprError, NameRef, Node};
use crate::diagnostic::nearest;
use crate::value::Value;

/// Beyond this depth (or length of one operator chain) a tree could overflow the stack when walked.
const MAX_DEPTH: usize = 100;
const MAX_TOKENS: usize = 4_000;

pub(super) fn parse(text: &str, dialect: Dialect) -> Result<Node<NameRef>, ExprError> {
    let tokens = tokenize(text, dialect)?;
    let mut parser = Parser {
        tokens,
        position: 0,
        end: text.len(),
        dialect,
    };
    let node = parser.ternary(0)?;
    match parser.peek() {
        None => Ok(node),
        Some(token) => {
            let hint = match token.text.as_str() {
                "=" => Some("write `==` to compare".to_string()),
                _ => None,
            };
            Err(error(
                format!("unexpected `{}`", token.text),
                token.span.clone(),
                hint,
            ))
        }
    }
}

/// Two operands joined by an operator; `None` when the symbol is not one of this level.
type Join = fn(&str, Node<NameRef>, Node<NameRef>) -> Option<Node<NameRef>>;

#[derive(Clone, Debug)]
struct Token {
    kind: TokenKind,
    text: String,
    span: Range<usize>,
}

#[derive(Clone, Debug, PartialEq)]
enum TokenKind {
    Literal(Value),
    Name,
    Symbol,
}

fn error(message: impl Into<String>, span: Range<usize>, hint: Option<String>) -> ExprError {
    ExprError {
        message: message.into(),
        span,
        hint,
    }
}

const SYMBOLS: [&str; 20] = [
    "**", "//", "<=", ">=", "==", "!=", "<", ">", "+", "-", "*", "/", "%", "(", ")", "[", "]", ",",
    "=", "&&",
];

fn tokenize(text: &str, dialect: Dialect) -> Result<Vec<Token>, ExprError> {
    let bytes = text.as_bytes();
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let start = at;
        let byte = bytes[at];
        let kind = if byte.is_ascii_whitespace() {
            at += 1;
            continue;
        } else if byte.is_ascii_digit()
            || (byte == b'.' && bytes.get(at + 1).is_some_and(u8::is_ascii_digit))
        {
            at = number_end(bytes, at);
            TokenKind::Literal(number(&text[start..at], start..at)?)
        } else if byte.is_ascii_alphabetic() || byte == b'_' {
            while at < bytes.len() && (bytes[at].is_ascii_alphanumeric() || bytes[at] == b'_') {
                at += 1;
            }
            TokenKind::Name
        } else if byte == b'"' || byte == b'\'' {
            at += 1;
            let escapes = dialect == Dialect::Python;
            while at < bytes.len() && bytes[at] != byte {
                at += if escapes && bytes[at] == b'\\' { 2 } else { 1 };
            }
            if at >= bytes.len() {
                return Err(error("string is not closed", start..bytes.len(), None));
            }
            at += 1;
            let inner = &text[start + 1..at - 1];
            let plain = match escapes {
                true => super::python::unescaped(inner).ok_or_else(|| {
                    error(
                        "string has an escape that is not known here",
                        start..at,
                        None,
                    )
                })?,
                false => inner.to_string(),
            };
            TokenKind::Literal(Value::Text(plain))
        } else if let Some(symbol) = SYMBOLS.iter().find(|s| text[at..].starts_with(**s)) {
            at += symbol.len();
            if *symbol == "&&" {
                return Err(error(
                    "unexpected `&&`",
                    start..at,
                    Some("write `and`".into()),
                ));
            }
            TokenKind::Symbol
        } else {
            let character = text[at..].chars().next().unwrap_or('?');
            let hint = match character {
                '|' => Some("write `or`".to_string()),
                '!' => Some("write `not`".to_string()),
                '?' => Some("write `a if condition else b`".to_string()),
                _ => None,
            };
            let span = at..at + character.len_utf8();
            return Err(error(format!("unexpected `{character}`"), span, hint));
        };
        if tokens.len() == MAX_TOKENS {
            return Err(error("expression is too long", 0..text.len(), None));
        }
        tokens.push(Token {
            kind,
            text: text[start..at].to_string(),
            span: start..at,
        });
    }
    Ok(tokens)
}

fn number_end(bytes: &[u8], mut at: usize) -> usize {
    if bytes[at] == b'0' && matches!(bytes.get(at + 1), Some(b'x' | b'X')) {
        at += 2;
        while at < bytes.len() && (bytes[at].is_ascii_hexdigit() || bytes[at] == b'_') {
            at += 1;
        }
        return at;
    }
    while at < bytes.len() {
        let sign_of_exponent =
            matches!(bytes[at], b'+' | b'-') && matches!(bytes[at - 1], b'e' | b'E');
        if bytes[at].is_ascii_digit()
            || matches!(bytes[at], b'.' | b'_' | b'e' | b'E')
            || sign_of_exponent
        {
            at += 1;
        } else {
            break;
        }
    }
    at
}

fn number(text: &str, span: Range<usize>) -> Result<Value, ExprError> {
    let plain = text.replace('_', "");
    let parsed = if let Some(hex) = plain.strip_prefix("0x").or(plain.strip_prefix("0X")) {
        i64::from_str_radix(hex, 16).ok().map(Value::Int)
    } else if plain.contains(['.', 'e', 'E']) {
        plain
            .parse()
            .ok()
            .filter(|f: &f64| f.is_finite())
            .map(Value::Float)
    } else {
        plain.parse().ok().map(Value::Int)
    };
    parsed.ok_or_else(|| error(format!("`{text}` is not a number that fits"), span, None))
}

struct Parser {
    tokens: Vec<Token>,
    position: usize,
    end: usize,
    dialect: Dialect,
}

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.position)
    }

    fn next_is(&self, text: &str) -> bool {
        self.peek()
            .is_some_and(|t| t.text == text && !matches!(t.kind, TokenKind::Literal(_)))
    }

    fn accept(&mut self, text: &str) -> bool {
        let found = self.next_is(text);
        self.position += usize::from(found);
        found
    }

    fn expect(&mut self, text: &str) -> Result<(), ExprError> {
        if self.accept(text) {
            return Ok(());
        }
        Err(match self.peek() {
            Some(token) => error(
                format!("expected `{text}`, found `{}`", token.text),
                token.span.clone(),
                None,
            ),
            None => error(
                format!("expected `{text}`, found the end"),
                self.end..self.end,
                None,
            ),
        })
    }

    fn deeper(&self, depth: usize) -> Result<usize, ExprError> {
        if depth >= MAX_DEPTH {
            let at = self.peek().map_or(self.end..self.end, |t| t.span.clone());
            return Err(error("expression is nested too deeply", at, None));
        }
        Ok(depth + 1)
    }

    fn ternary(&mut self, depth: usize) -> Result<Node<NameRef>, ExprError> {
        let depth = self.deeper(depth)?;
        let then = self.or(depth)?;
        if !self.accept("if") {
            return Ok(then);
        }
        let condition = self.or(depth)?;
        self.expect("else")?;
        let otherwise = self.ternary(depth)?;
        Ok(Node::If {
            then: Box::new(then),
            condition: Box::new(condition),
            otherwise: Box::new(otherwise),
        })
    }

    /// Left-associative operators build trees as deep as the chain is long, so chains are bounded too.
    fn chain(
        &mut self,
        depth: usize,
        operand: fn(&mut Self, usize) -> Result<Node<NameRef>, ExprError>,
        join: Join,
        symbols: &[&str],
    ) -> Result<Node<NameRef>, ExprError> {
        let mut left = operand(self, depth)?;
        let mut length = depth;
        while let Some(symbol) = symbols.iter().find(|s| self.next_is(s)) {
            length = self.deeper(length)?;
            self.position += 1;
            let right = operand(self, depth)?;
            left = join(symbol, left, right).expect("every listed symbol has a node");
        }
        Ok(left)
    }

    fn or(&mut self, depth: usize) -> Result<Node<NameRef>, ExprError> {
        self.chain(
            depth,
            Self::and,
            |_, a, b| Some(Node::Or(Box::new(a), Box::new(b))),
            &["or"],
        )
    }

    fn and(&mut self, depth: usize) -> Result<Node<NameRef>, ExprError> {
        self.chain(
            depth,
            Self::not,
            |_, a, b| Some(Node::And(Box::new(a), Box::new(b))),
            &["and"],
        )
    }

    fn not(&mut self, depth: usize) -> Result<Node<NameRef>, ExprError> {
        if self.accept("not") {
            let depth = self.deeper(depth)?;
            return Ok(Node::Not(Box::new(self.not(depth)?)));
        }
        self.comparison(depth)
    }

    fn comparison(&mut self, depth: usize) -> Result<Node<NameRef>, ExprError> {
        let first = self.sum(depth)?;
        let mut rest = Vec::new();
        loop {
            let op = if self.accept("<=") {
                CompareOp::LessEqual
            } else if self.accept("<") {
                CompareOp::Less
            } else if self.accept(">=") {
                CompareOp::GreaterEqual
            } else if self.accept(">") {
                CompareOp::Greater
            } else if self.accept("==") {
                CompareOp::Equal
            } else if self.accept("!=") {
                CompareOp::NotEqual
            } else if self.accept("in") {
                CompareOp::In
            } else if self.next_is("not")
                && self
                    .tokens
                    .get(self.position + 1)
                    .is_some_and(|t| t.text == "in")
            {
                self.position += 2;
                CompareOp::NotIn
            } else {
                break;
            };
            let is_membership = matches!(op, CompareOp::In | CompareOp::NotIn);
            let right = match is_membership && self.dialect == Dialect::Python {
                true => self.members(depth)?,
                false => self.sum(depth)?,
            };
            rest.push((op, right));
        }
        Ok(if rest.is_empty() {
            first
        } else {
            Node::Chain(Box::new(first), rest)
        })
    }

    /// The right side of Python's `in`, where a `range` may stand for the list of its members.
    fn members(&mut self, depth: usize) -> Result<Node<NameRef>, ExprError> {
        let is_range = self.next_is("range")
            && self
                .tokens
                .get(self.position + 1)
                .is_some_and(|t| t.text == "(" && t.kind == TokenKind::Symbol);
        if !is_range {
            return self.sum(depth);
        }
        let span = self.peek().map_or(self.end..self.end, |t| t.span.clone());
        self.position += 2;
        let (arguments, _) = self.items(")", depth)?;
        super::python::range_members(&arguments, span)
    }

    fn sum(&mut self, depth: usize) -> Result<Node<NameRef>, ExprError> {
        self.chain(depth, Self::product, binary, &["+", "-"])
    }

    fn product(&mut self, depth: usize) -> Result<Node<NameRef>, ExprError> {
        self.chain(depth, Self::unary, binary, &["*", "//", "/", "%"])
    }

    fn unary(&mut self, depth: usize) -> Result<Node<NameRef>, ExprError> {
        let depth = self.deeper(depth)?;
        if self.accept("-") {
            return Ok(Node::Negate(Box::new(self.unary(depth)?)));
        }
        if self.accept("+") {
            return self.unary(depth);
        }
        let base = self.atom(depth)?;
        if self.accept("**") {
            let exponent = self.unary(depth)?;
            return Ok(Node::Binary(
                BinaryOp::Power,
                Box::new(base),
                Box::new(exponent),
            ));
        }
        Ok(base)
    }

    fn atom(&mut self, depth: usize) -> Result<Node<NameRef>, ExprError> {
        let Some(token) = self.peek().cloned() else {
            return Err(error(
                "expected a value, found the end",
                self.end..self.end,
                None,
            ));
        };
        self.position += 1;
        match (&token.kind, token.text.as_str()) {
            (TokenKind::Literal(value), _) => Ok(Node::Literal(value.clone())),
            (TokenKind::Symbol, "(") => {
                let (mut items, commas) = self.items(")", depth)?;
                match (items.len(), commas) {
                    (1, 0) => Ok(items.remove(0)),
                    (0, _) => Err(error("empty parentheses", token.span, None)),
                    _ => Ok(Node::List(items)),
                }
            }
            (TokenKind::Symbol, "[") => Ok(Node::List(self.items("]", depth)?.0)),
            (TokenKind::Name, "true" | "True") => Ok(Node::Literal(Value::Bool(true))),
            (TokenKind::Name, "false" | "False") => Ok(Node::Literal(Value::Bool(false))),
            (TokenKind::Name, "and" | "or" | "in" | "if" | "else" | "not") => Err(error(
                format!("expected a value, found `{}`", token.text),
                token.span,
                None,
            )),
            (TokenKind::Name, name) if self.next_is("(") => {
                let known = self.dialect.function_names();
                let function = self.dialect.function(name).ok_or_else(|| {
                    let hint = match nearest(name, known.iter().copied()) {
                        Some(near) => format!("did you mean `{near}`?"),
                        None => format!("functions: {}", known.join(", ")),
                    };
                    error(
                        format!("unknown function `{name}`"),
                        token.span.clone(),
                        Some(hint),
                    )
                })?;
                self.position += 1;
                let (items, _) = self.items(")", depth)?;
                let (least, most) = function.arity();
                if items.len() < least || items.len() > most {
                    return Err(error(
                        format!(
                            "`{name}` takes {least} argument{}",
                            if least == 1 { "" } else { "s" }
                        ),
                        token.span,
                        None,
                    ));
                }
                Ok(Node::Call(function, items))
            }
            (TokenKind::Name, name) => Ok(Node::Name(NameRef {
                name: name.to_string(),
                span: token.span,
            })),
            (TokenKind::Symbol, symbol) => Err(error(
                format!("expected a value, found `{symbol}`"),
                token.span.clone(),
                None,
            )),
        }
    }

    /// Comma-separated expressions up to `close`; a trailing comma is fine. Also counts the commas.
    fn items(
        &mut self,
        close: &str,
        depth: usize,
    ) -> Result<(Vec<Node<NameRef>>, usize), ExprError> {
        let mut items = Vec::new();
        let mut commas = 0;
        while !self.accept(close) {
            items.push(self.ternary(depth)?);
            if self.accept(",") {
                commas += 1;
            } else {
                self.expect(close)?;
                break;
            }
        }
        Ok((items, commas))
    }
}

fn binary(symbol: &str, a: Node<NameRef>, b: Node<NameRef>) -> Option<Node<NameRef>> {
    let op = match symbol {
        "+" => BinaryOp::Add,
        "-" => BinaryOp::Subtract,
        "*" => BinaryOp::Multiply,
        "/" => BinaryOp::Divide,
        "//" => BinaryOp::FloorDivide,
        "%" => BinaryOp::Remainder,
        _ => return None,
    };
    Some(Node::Binary(op, Box::new(a), Box::new(b)))
}
