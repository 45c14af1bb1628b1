//! The small Python list expressions that T1 files put into `Values`.
//!
//! `[1] + [2 * i for i in range(1, 11) if i % 3]`: the list structure is read here (brackets,
//! `range`, `list`, comprehensions, `+`, repetition), the scalars in it by `Expr::parse_python`.

use std::ops::Range;

use crate::expression::{Expr, ExprError};
use crate::value::Value;

mod scan;

use scan::Scan;

/// A tunable cannot have more values than this, so no list needs to.
const MOST_ITEMS: usize = 65_536;
/// Parts of expressions evaluated and pieces of text read, in all comprehensions together; an `if` may
/// throw away most of what they make.
const MOST_STEPS: usize = 4_000_000;
/// Of the text of a list, which is read anew whenever a loop comes to it.
const BYTES_PER_STEP: usize = 8;
const MOST_NESTED: usize = 30;

/// Evaluates a list expression; spans in the error are within `text`.
pub(super) fn evaluate(text: &str) -> Result<Vec<Value>, ExprError> {
    let mut scan = Scan::default();
    for (at, byte) in text.bytes().enumerate() {
        scan.step(byte);
        // What follows recurses as deep as the brackets go.
        if scan.depth > MOST_NESTED {
            return Err(error("brackets are nested too deeply", at..at + 1));
        }
    }
    let mut reader = Reader { text, steps: 0 };
    let whole = reader.trimmed(0..text.len());
    reader.list(whole, &Scope::default())
}

/// The loop variables of the comprehensions around a place.
#[derive(Clone, Default)]
struct Scope {
    names: Vec<String>,
    values: Vec<Value>,
}

struct Reader<'t> {
    text: &'t str,
    steps: usize,
}

fn error(message: impl Into<String>, span: Range<usize>) -> ExprError {
    ExprError {
        message: message.into(),
        span,
        hint: None,
    }
}

impl<'t> Reader<'t> {
    fn slice(&self, span: &Range<usize>) -> &'t str {
        &self.text[span.clone()]
    }

    fn trimmed(&self, span: Range<usize>) -> Range<usize> {
        let text = self.slice(&span);
        let start = span.start + (text.len() - text.trim_start().len());
        let end = span.end - (text.len() - text.trim_end().len());
        start..end.max(start)
    }

    /// A sum of list terms.
    fn list(&mut self, span: Range<usize>, scope: &Scope) -> Result<Vec<Value>, ExprError> {
        self.spend(1 + span.len() / BYTES_PER_STEP, &span)?;
        let mut all = Vec::new();
        for term in self.split(&span, b'+')? {
            let values = self.term(self.trimmed(term), scope)?;
            all.extend(values);
            if all.len() > MOST_ITEMS {
                return Err(error(
                    format!("the list has more than {MOST_ITEMS} values"),
                    span,
                ));
            }
        }
        Ok(all)
    }

    /// A list, perhaps repeated: `[0] * 3`.
    fn term(&mut self, span: Range<usize>, scope: &Scope) -> Result<Vec<Value>, ExprError> {
        let mut factors = self.split(&span, b'*')?;
        for factor in &mut factors {
            *factor = self.trimmed(factor.clone());
        }
        let Some(place) = factors.iter().position(|f| self.is_list(f)) else {
            return Err(ExprError {
                message: "expected a list".to_string(),
                span,
                hint: Some("write e.g. `[1, 2, 4]` or `list(range(1, 9))`".to_string()),
            });
        };
        let list = self.atom(factors.remove(place), scope)?;
        let mut times: i64 = 1;
        for factor in factors {
            times = times.saturating_mul(self.integer(factor, scope)?.max(0));
        }
        let times = usize::try_from(times).unwrap_or(usize::MAX);
        match list.len().checked_mul(times) {
            Some(length) if length <= MOST_ITEMS => {
                Ok(std::iter::repeat_n(list, times).flatten().collect())
            }
            _ => Err(error(
                format!("the list has more than {MOST_ITEMS} values"),
                span,
            )),
        }
    }

    fn is_list(&self, span: &Range<usize>) -> bool {
        let text = self.slice(span);
        let is_call = |name: &str| {
            text.strip_prefix(name)
                .is_some_and(|rest| rest.trim_start().starts_with('('))
        };
        text.starts_with('[')
            || is_call("range")
            || is_call("list")
            || is_call("tuple")
            || (text.starts_with('(') && self.is_tuple(span))
    }

    /// Whether what is in parentheses is a list itself: a tuple, or a list with parentheses around.
    fn is_tuple(&self, span: &Range<usize>) -> bool {
        let Some(inner) = self.inside(span, b'(', b')') else {
            return false;
        };
        let parts = self.split(&inner, b',');
        parts.is_ok_and(|parts| parts.len() > 1) || self.is_list(&self.trimmed(inner))
    }

    fn atom(&mut self, span: Range<usize>, scope: &Scope) -> Result<Vec<Value>, ExprError> {
        if let Some(inner) = self.inside(&span, b'[', b']') {
            return self.bracketed(inner, scope);
        }
        if let Some(inner) = self.inside(&span, b'(', b')') {
            return match self.split(&inner, b',')?.len() {
                1 => self.list(self.trimmed(inner), scope),
                _ => self.bracketed(inner, scope),
            };
        }
        let open = self.slice(&span).find('(').map(|at| span.start + at);
        let Some(open) = open else {
            return Err(error("expected a list", span));
        };
        let name = self.text[span.start..open].trim_end();
        let Some(inner) = self.inside(&(open..span.end), b'(', b')') else {
            return Err(error("the parentheses do not match", span));
        };
        match name {
            "range" => self.range(inner, scope),
            _ => self.list(self.trimmed(inner), scope),
        }
    }

    /// What is between the brackets, if they open and close exactly this span.
    fn inside(&self, span: &Range<usize>, open: u8, close: u8) -> Option<Range<usize>> {
        let bytes = self.slice(span).as_bytes();
        if bytes.first() != Some(&open) || bytes.last() != Some(&close) || bytes.len() < 2 {
            return None;
        }
        let mut scan = Scan::default();
        for (at, &byte) in bytes.iter().enumerate() {
            scan.step(byte);
            if scan.depth == 0 && scan.quote.is_none() && at + 1 < bytes.len() {
                return None;
            }
        }
        Some(span.start + 1..span.end - 1)
    }

    /// Items between commas, or a comprehension.
    fn bracketed(&mut self, inner: Range<usize>, scope: &Scope) -> Result<Vec<Value>, ExprError> {
        let keywords = self.keywords(&inner);
        if keywords.iter().any(|(word, _)| *word == "for") {
            return self.comprehension(inner, &keywords, scope);
        }
        let mut values = Vec::new();
        let parts = self.split(&inner, b',')?;
        let last = parts.len() - 1;
        for (number, part) in parts.into_iter().enumerate() {
            let part = self.trimmed(part);
            if part.is_empty() {
                // `[]`, or a comma at the end.
                if number == last {
                    break;
                }
                return Err(error(
                    "a value is missing before `,`",
                    part.start..part.start + 1,
                ));
            }
            if self.slice(&part).starts_with('*') {
                let list = self.trimmed(part.start + 1..part.end);
                values.extend(self.list(list, scope)?);
            } else {
                values.push(self.scalar(part, scope)?);
            }
            if values.len() > MOST_ITEMS {
                return Err(error(
                    format!("the list has more than {MOST_ITEMS} values"),
                    inner,
                ));
            }
        }
        Ok(values)
    }

    fn comprehension(
        &mut self,
        inner: Range<usize>,
        keywords: &[(&'t str, Range<usize>)],
        scope: &Scope,
    ) -> Result<Vec<Value>, ExprError> {
        let mut clauses = Vec::new();
        let mut element = inner.clone();
        let mut names = scope.names.clone();
        // An `if` before the first `for` belongs to `a if c else b`.
        let first_for = keywords.iter().position(|(word, _)| *word == "for");
        let keywords = &keywords[first_for.unwrap_or(0)..];
        for (number, (word, at)) in keywords.iter().enumerate() {
            if number == 0 {
                element = self.trimmed(inner.start..at.start);
            }
            let end = keywords
                .get(number + 1)
                .map_or(inner.end, |(_, next)| next.start);
            let body = self.trimmed(at.end..end);
            clauses.push(match *word {
                "for" => {
                    let (name, iterated) = self.loop_head(&body)?;
                    if names.iter().any(|n| n == name) {
                        return Err(error(format!("`{name}` is a loop variable twice"), body));
                    }
                    names.push(name.to_string());
                    Clause::For(iterated)
                }
                _ => Clause::If(
                    self.parse(&body)?
                        .bind(&names)
                        .map_err(|e| shift(e, body.start))?,
                    body,
                ),
            });
        }
        let item = self.parse(&element)?;
        let item = item.bind(&names).map_err(|e| shift(e, element.start))?;
        let mut values = Vec::new();
        let mut scope = scope.clone();
        scope.names = names;
        let cost = item.size();
        self.walk(&clauses, &mut scope, cost, &mut |values_of_scope| {
            let value = item.eval(values_of_scope);
            values.push(value.map_err(|e| error(e.to_string(), element.clone()))?);
            match values.len() > MOST_ITEMS {
                true => Err(error(
                    format!("the list has more than {MOST_ITEMS} values"),
                    inner.clone(),
                )),
                false => Ok(()),
            }
        })?;
        Ok(values)
    }

    fn spend(&mut self, steps: usize, span: &Range<usize>) -> Result<(), ExprError> {
        self.steps = self.steps.saturating_add(steps);
        match self.steps > MOST_STEPS {
            true => Err(error("the loops take too many steps", span.clone())),
            false => Ok(()),
        }
    }

    /// Runs the loops of a comprehension from the outside in. `cost` is that of emitting one value.
    fn walk(
        &mut self,
        clauses: &[Clause],
        scope: &mut Scope,
        cost: usize,
        emit: &mut dyn FnMut(&[Value]) -> Result<(), ExprError>,
    ) -> Result<(), ExprError> {
        let Some((clause, rest)) = clauses.split_first() else {
            return emit(&scope.values);
        };
        match clause {
            Clause::If(condition, span) => {
                self.spend(condition.size(), span)?;
                let value = condition.eval(&scope.values);
                let value = value.map_err(|e| error(e.to_string(), span.clone()))?;
                match value.is_truthy() {
                    true => self.walk(rest, scope, cost, emit),
                    false => Ok(()),
                }
            }
            Clause::For(iterated) => {
                // Only the variables bound so far can be read there.
                let outer = Scope {
                    names: scope.names[..scope.values.len()].to_vec(),
                    values: scope.values.clone(),
                };
                for value in self.list(iterated.clone(), &outer)? {
                    self.spend(cost, iterated)?;
                    scope.values.push(value);
                    self.walk(rest, scope, cost, emit)?;
                    scope.values.pop();
                }
                Ok(())
            }
        }
    }

    /// `i in range(3)`: the variable and the list.
    fn loop_head(&self, body: &Range<usize>) -> Result<(&'t str, Range<usize>), ExprError> {
        let wrong = || ExprError {
            message: "this loop cannot be read".to_string(),
            span: body.clone(),
            hint: Some("write e.g. `for i in range(1, 9)`".to_string()),
        };
        let text = self.slice(body);
        let at = text.find(char::is_whitespace).ok_or_else(wrong)?;
        let (name, rest) = text.split_at(at);
        let is_name = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
            && !name.starts_with(|c: char| c.is_ascii_digit());
        let iterated = rest.trim_start().strip_prefix("in").ok_or_else(wrong)?;
        if !is_name || iterated.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_') {
            return Err(wrong());
        }
        Ok((name, self.trimmed(body.end - iterated.len()..body.end)))
    }

    fn range(&mut self, inner: Range<usize>, scope: &Scope) -> Result<Vec<Value>, ExprError> {
        let mut bounds = Vec::new();
        for part in self.split(&inner, b',')? {
            let part = self.trimmed(part);
            bounds.push(self.integer(part, scope)?);
        }
        let (start, stop, step) = match bounds[..] {
            [stop] => (0, stop, 1),
            [start, stop] => (start, stop, 1),
            [start, stop, step] if step != 0 => (start, stop, step),
            [_, _, _] => return Err(error("the step of `range` is 0", inner)),
            _ => return Err(error("`range` takes 1 to 3 arguments", inner)),
        };
        let distance = match step > 0 {
            true => i128::from(stop) - i128::from(start),
            false => i128::from(start) - i128::from(stop),
        };
        let count = (distance.max(0) + i128::from(step).abs() - 1) / i128::from(step).abs();
        if count > MOST_ITEMS as i128 {
            return Err(error(format!("the range has {count} values"), inner));
        }
        // Wider than the values: the distance between two of them may not fit.
        let value = |n: i128| Value::Int((i128::from(start) + n * i128::from(step)) as i64);
        Ok((0..count).map(value).collect())
    }

    fn integer(&self, span: Range<usize>, scope: &Scope) -> Result<i64, ExprError> {
        match self.scalar(span.clone(), scope)? {
            Value::Int(i) => Ok(i),
            Value::Bool(b) => Ok(i64::from(b)),
            other => Err(error(
                format!("expected an integer, found {}", other.kind()),
                span,
            )),
        }
    }

    fn scalar(&self, span: Range<usize>, scope: &Scope) -> Result<Value, ExprError> {
        let bound = self.parse(&span)?.bind(&scope.names);
        let value = bound.map_err(|e| shift(e, span.start))?.eval(&scope.values);
        value.map_err(|e| error(e.to_string(), span))
    }

    fn parse(&self, span: &Range<usize>) -> Result<Expr, ExprError> {
        Expr::parse_python(self.slice(span)).map_err(|e| shift(e, span.start))
    }

    /// Cuts at a character that is outside brackets and strings. `*` inside `**` is none, and
    /// neither is a sign.
    fn split(&self, span: &Range<usize>, at: u8) -> Result<Vec<Range<usize>>, ExprError> {
        let bytes = self.slice(span).as_bytes();
        let mut scan = Scan::default();
        let mut parts = Vec::new();
        let mut start = span.start;
        for (offset, &byte) in bytes.iter().enumerate() {
            let outside = scan.depth == 0 && scan.quote.is_none();
            let doubled = byte == b'*'
                && (bytes.get(offset + 1) == Some(&b'*')
                    || offset.checked_sub(1).is_some_and(|o| bytes[o] == b'*'));
            if outside && byte == at && !doubled {
                parts.push(start..span.start + offset);
                start = span.start + offset + 1;
            }
            if !scan.step(byte) {
                let place = span.start + offset;
                return Err(error("the brackets do not match", place..place + 1));
            }
        }
        if scan.depth != 0 || scan.quote.is_some() {
            let what = if scan.quote.is_some() {
                "string"
            } else {
                "bracket"
            };
            return Err(error(format!("a {what} is not closed"), span.clone()));
        }
        parts.push(start..span.end);
        Ok(parts)
    }

    /// The words `for` and `if` outside brackets and strings.
    fn keywords(&self, span: &Range<usize>) -> Vec<(&'t str, Range<usize>)> {
        let text = self.slice(span);
        let bytes = text.as_bytes();
        let is_word = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || !b.is_ascii();
        let mut scan = Scan::default();
        let mut found = Vec::new();
        let mut at = 0;
        while at < bytes.len() {
            let outside = scan.depth == 0 && scan.quote.is_none();
            if outside && is_word(bytes[at]) {
                let end = (at..bytes.len())
                    .find(|&e| !is_word(bytes[e]))
                    .unwrap_or(bytes.len());
                if matches!(&text[at..end], "for" | "if") {
                    found.push((&text[at..end], span.start + at..span.start + end));
                }
                at = end;
            } else {
                scan.step(bytes[at]);
                at += 1;
            }
        }
        found
    }
}

enum Clause {
    For(Range<usize>),
    If(crate::expression::BoundExpr, Range<usize>),
}

/// Moves an error of a part into the whole text.
fn shift(mut error: ExprError, by: usize) -> ExprError {
    error.span = error.span.start + by..error.span.end + by;
    error
}
