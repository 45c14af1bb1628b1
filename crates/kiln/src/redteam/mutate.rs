//! Breaks a kernel's source in one place at a time.
//!
//! Works on tokens, knows no types, and is the same for the same source: what does not compile is
//! left out by whoever builds the mutants.

mod tokens;

use std::collections::BTreeSet;
use std::ops::Range;

use serde::Serialize;

use tokens::{Kind, Token, closing, end_of_expression};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Operator {
    /// A neighbour's element, swapped indices, another stride.
    Index,
    /// One too many, or one too few.
    Bound,
    /// An intermediate result rounded to bf16.
    Precision,
    /// A barrier or a join left out.
    Sync,
    /// A constant off by 5 or 10 %.
    Scale,
    /// A condition negated, dropped or joined the other way.
    Mask,
}

impl Operator {
    pub fn name(self) -> &'static str {
        match self {
            Operator::Index => "index",
            Operator::Bound => "bound",
            Operator::Precision => "precision",
            Operator::Sync => "sync",
            Operator::Scale => "scale",
            Operator::Mask => "mask",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    C,
    Cuda,
}

/// One change to a source.
#[derive(Clone, Debug)]
pub struct Mutation {
    pub operator: Operator,
    pub line: usize,
    range: Range<usize>,
    replacement: String,
}

impl Mutation {
    pub fn apply(&self, source: &str, language: Language) -> String {
        let mut text = source.to_string();
        text.replace_range(self.range.clone(), &self.replacement);
        match self.operator {
            Operator::Precision => format!("{}{text}", coarse(language)),
            _ => text,
        }
    }

    /// What stands there now, and what stood there, in one line.
    pub fn words(&self, source: &str) -> String {
        let short = |text: &str| {
            let words: Vec<&str> = text.split_whitespace().collect();
            let text = words.join(" ");
            match text.char_indices().nth(48) {
                Some((end, _)) => format!("{}…", &text[..end]),
                None => text,
            }
        };
        format!(
            "`{}` for `{}`",
            short(&self.replacement),
            short(&source[self.range.clone()])
        )
    }
}

/// To bf16, by cutting: seven bits behind the point.
fn coarse(language: Language) -> &'static str {
    match language {
        Language::C => {
            "static inline float kiln_coarse(float x) { union { float f; unsigned u; } v = {x}; \
             v.u &= 0xffff0000u; return v.f; }\n"
        }
        Language::Cuda => {
            "static __device__ float kiln_coarse(float x) \
             { return __uint_as_float(__float_as_uint(x) & 0xffff0000u); }\n"
        }
    }
}

/// All mutations of a source, in its order.
pub fn mutations(source: &str) -> Vec<Mutation> {
    let tokens = tokens::tokens(source);
    let floats = float_names(&tokens);
    let mut finder = Finder {
        source,
        tokens: &tokens,
        floats: &floats,
        found: Vec::new(),
    };
    for at in 0..tokens.len() {
        finder.index(at);
        finder.operators(at);
        finder.precision(at);
        finder.sync(at);
        finder.scale(at);
        finder.mask(at);
    }
    let mut found = finder.found;
    let mut seen = BTreeSet::new();
    found.retain(|m| seen.insert((m.range.start, m.range.end, m.replacement.clone())));
    found
}

/// Names declared as `float`, or as something made of floats.
fn float_names<'s>(tokens: &[Token<'s>]) -> BTreeSet<&'s str> {
    const BETWEEN: [&str; 4] = ["*", "const", "restrict", "__restrict__"];
    let mut names = BTreeSet::new();
    for (at, token) in tokens.iter().enumerate() {
        if token.text != "float" {
            continue;
        }
        let name = tokens[at + 1..].iter().find(|t| !BETWEEN.contains(&t.text));
        if let Some(name) = name.filter(|n| n.kind == Kind::Word) {
            names.insert(name.text);
        }
    }
    names
}

/// Words that no value ends in: what follows them is no operator between two values.
const NO_VALUES: [&str; 11] = [
    "return", "else", "case", "const", "float", "double", "int", "char", "void", "unsigned", "long",
];

struct Finder<'t, 's> {
    source: &'s str,
    tokens: &'t [Token<'s>],
    floats: &'t BTreeSet<&'s str>,
    found: Vec<Mutation>,
}

impl Finder<'_, '_> {
    fn text(&self, at: usize) -> &str {
        self.tokens.get(at).map_or("", |t| t.text)
    }

    fn add(&mut self, operator: Operator, at: usize, range: Range<usize>, replacement: String) {
        self.found.push(Mutation {
            operator,
            line: self.tokens[at].line,
            range,
            replacement,
        });
    }

    /// Source text of the tokens from `from` up to, not with, `to`.
    fn between(&self, from: usize, to: usize) -> Range<usize> {
        match to > from {
            true => self.tokens[from].start..self.tokens[to - 1].range().end,
            false => self.tokens[from].start..self.tokens[from].start,
        }
    }

    /// Whether the token can end a value.
    fn ends_value(&self, at: usize) -> bool {
        let is_name = |t: &Token<'_>| match t.kind {
            Kind::Word => !NO_VALUES.contains(&t.text) && !t.text.ends_with("_t"),
            Kind::Number => true,
            Kind::Punctuation => matches!(t.text, ")" | "]"),
        };
        self.tokens.get(at).is_some_and(is_name)
    }

    /// `x[i]` that is no declaration.
    fn index(&mut self, open: usize) {
        if self.text(open) != "[" || open == 0 || !self.ends_value(open - 1) {
            return;
        }
        let Some(close) = closing(self.tokens, open).filter(|c| *c > open + 1) else {
            return;
        };
        let mut base = open - 1;
        while self.text(base) == "]" {
            let opens = (0..base).rev();
            let Some(other) = opens
                .into_iter()
                .find(|o| self.text(*o) == "[" && closing(self.tokens, *o) == Some(base))
            else {
                return;
            };
            base = other.saturating_sub(1);
        }
        let before = base.checked_sub(1).map(|b| &self.tokens[b]);
        let is_declared = before.is_some_and(|t| {
            t.kind == Kind::Word && !matches!(t.text, "return" | "else" | "case" | "sizeof")
        });
        if is_declared {
            return;
        }
        let inner = self.between(open + 1, close);
        let text = self.source[inner.clone()].to_string();
        for step in ["+ 1", "- 1"] {
            self.add(
                Operator::Index,
                open,
                inner.clone(),
                format!("({text}) {step}"),
            );
        }
        if self.text(close + 1) == "["
            && let Some(last) = closing(self.tokens, close + 1)
        {
            let second = self.source[self.between(close + 2, last)].to_string();
            let both = self.between(open + 1, last);
            self.add(Operator::Index, open, both, format!("{second}][{text}"));
        }
    }

    /// Operators that stand between two values.
    fn operators(&mut self, at: usize) {
        if at == 0 || !self.ends_value(at - 1) {
            return;
        }
        let (operator, others): (Operator, &[&str]) = match self.text(at) {
            "<" => (Operator::Bound, &["<=", "< -1 +"]),
            "<=" => (Operator::Bound, &["<", "<= -1 +"]),
            ">" => (Operator::Bound, &[">="]),
            ">=" => (Operator::Bound, &[">"]),
            "+" => (Operator::Index, &["-"]),
            "-" => (Operator::Index, &["+"]),
            "*" => (Operator::Index, &["+"]),
            "%" => (Operator::Index, &["/"]),
            "/" => (Operator::Index, &["*"]),
            "&&" => (Operator::Mask, &["||"]),
            "||" => (Operator::Mask, &["&&"]),
            "==" => (Operator::Mask, &["!="]),
            "!=" => (Operator::Mask, &["=="]),
            _ => return,
        };
        for other in others {
            self.add(operator, at, self.tokens[at].range(), (*other).to_string());
        }
    }

    /// What is assigned to something made of floats.
    fn precision(&mut self, at: usize) {
        if !self.floats.contains(self.text(at)) {
            return;
        }
        let mut next = at + 1;
        while self.text(next) == "[" {
            let Some(close) = closing(self.tokens, next) else {
                return;
            };
            next = close + 1;
        }
        if !matches!(self.text(next), "=" | "+=" | "*=" | "-=") {
            return;
        }
        let Some(end) = end_of_expression(self.tokens, next + 1, &[";", ","]) else {
            return;
        };
        if end == next + 1 || self.text(next + 1) == "{" {
            return;
        }
        let range = self.between(next + 1, end);
        let rounded = format!("kiln_coarse({})", &self.source[range.clone()]);
        self.add(Operator::Precision, at, range, rounded);
    }

    /// Statements that wait for others.
    fn sync(&mut self, at: usize) {
        let word = self.text(at);
        let waits = matches!(
            word,
            "BARRIER" | "pthread_join" | "__syncthreads" | "__syncwarp"
        ) || ["wait", "fence", "barrier", "commit"]
            .iter()
            .any(|w| word.to_ascii_lowercase().contains(w));
        let begins = at == 0 || matches!(self.text(at - 1), ";" | "{" | "}" | ")" | "else" | ":");
        if self.tokens[at].kind != Kind::Word || !waits || !begins {
            return;
        }
        let Some(end) = end_of_expression(self.tokens, at, &[";", "{"]) else {
            return;
        };
        if self.text(end) == ";" {
            let range = self.between(at, end);
            self.add(Operator::Sync, at, range, String::new());
        }
    }

    /// Floating constants.
    fn scale(&mut self, at: usize) {
        let token = &self.tokens[at];
        let plain = token.text.trim_end_matches(['f', 'F']);
        let is_floating = token.kind == Kind::Number
            && !token.text.starts_with("0x")
            && plain.contains(['.', 'e', 'E']);
        let Some(value) = plain.parse::<f64>().ok().filter(|_| is_floating) else {
            return;
        };
        let suffix = &token.text[plain.len()..];
        let others = match value == 0.0 {
            true => vec![0.05],
            false => vec![value * 1.05, value * 0.9],
        };
        for other in others {
            // Ten digits: a change of 5 % is not to drown in zeros.
            let text = format!("{other:.9e}{suffix}");
            self.add(Operator::Scale, at, self.tokens[at].range(), text);
        }
    }

    /// `if` and `?:`.
    fn mask(&mut self, at: usize) {
        match self.text(at) {
            "if" if self.text(at + 1) == "(" => {
                let Some(close) = closing(self.tokens, at + 1) else {
                    return;
                };
                let range = self.between(at + 2, close);
                let condition = self.source[range.clone()].to_string();
                for other in [format!("!({condition})"), "1".into(), "0".into()] {
                    self.add(Operator::Mask, at, range.clone(), other);
                }
            }
            "?" => {
                let Some(colon) = end_of_expression(self.tokens, at + 1, &[":"]) else {
                    return;
                };
                let ends = [";", ",", ":", "?"];
                let Some(end) = end_of_expression(self.tokens, colon + 1, &ends) else {
                    return;
                };
                if self.text(colon) != ":" || end <= colon + 1 || colon <= at + 1 {
                    return;
                }
                let yes = self.source[self.between(at + 1, colon)].to_string();
                let no = self.source[self.between(colon + 1, end)].to_string();
                let both = self.between(at + 1, end);
                self.add(Operator::Mask, at, both, format!("({no}) : ({yes})"));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(source: &str) -> Vec<String> {
        let made = mutations(source);
        made.iter().map(|m| m.apply(source, Language::C)).collect()
    }

    #[test]
    fn each_operator_finds_its_places() {
        let source = "void f(float *y, const float *x, int n) {\n\
                      float s = 0.0f; float part[4];\n\
                      for (int i = 0; i < n; i++) s += x[i] * 2.5f;\n\
                      if (n > 3) y[0] = s; pthread_join(t, 0); }";
        let texts = all(source);
        for expected in [
            "x[(i) + 1]",
            "x[(i) - 1]",
            "i <= n",
            "i < -1 + n",
            "n >= 3",
            "s += kiln_coarse(x[i] * 2.5f)",
            "y[0] = kiln_coarse(s)",
            "2.625000000e0f",
            "if (!(n > 3))",
            "if (1)",
            "= s; ; }",
            "x[i] + 2.5f",
        ] {
            assert!(
                texts.iter().any(|t| t.contains(expected)),
                "no mutant has `{expected}`"
            );
        }
        assert!(
            !texts.iter().any(|t| t.contains("part[(4)")),
            "a declaration"
        );
    }

    #[test]
    fn comments_strings_and_directives_are_left_alone() {
        let source = "#define A(x) (x < 1 ? 2.0f : x) \\\n + 1.0f\n/* a < b */ // c[1]\n\
                      char *s = \"x[0] < 1.0f\"; _Static_assert(1 < 2, \"\"); typedef float v[8];";
        assert!(mutations(source).is_empty(), "{:?}", mutations(source));
    }

    #[test]
    fn the_same_source_gives_the_same_mutants_with_their_lines() {
        let source = "int f(int *a) {\n  return a[1] == 2 ? a[0] : a[3];\n}\n";
        let made = mutations(source);
        assert_eq!(all(source), all(source));
        assert!(made.iter().all(|m| m.line == 2), "{made:?}");
        assert!(all(source).iter().any(|t| t.contains("? (a[3]) : (a[0])")));
    }
}
