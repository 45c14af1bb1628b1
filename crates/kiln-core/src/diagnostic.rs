//! A problem in a file a person wrote: what, where, what next. Rendered as plain text.

use std::fmt::Write as _;
use std::ops::Range;

/// One error with its place in the text it was found in.
#[derive(Clone, Debug, PartialEq)]
pub struct Diagnostic {
    pub message: String,
    /// Byte range in the file; `None` when the problem is about the file as a whole.
    pub span: Option<Range<usize>>,
    /// Written under the carets.
    pub label: String,
    pub hints: Vec<String>,
}

impl Diagnostic {
    pub fn new(message: impl Into<String>, span: Range<usize>) -> Diagnostic {
        Diagnostic {
            message: message.into(),
            span: Some(span),
            label: String::new(),
            hints: Vec::new(),
        }
    }

    pub fn whole_file(message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            span: None,
            ..Diagnostic::new(message, 0..0)
        }
    }

    pub fn label(mut self, label: impl Into<String>) -> Diagnostic {
        self.label = label.into();
        self
    }

    pub fn hint(mut self, hint: impl Into<String>) -> Diagnostic {
        self.hints.push(hint.into());
        self
    }

    /// The message with the source line and carets, as `error: …` text without a final newline.
    pub fn render(&self, path: &str, text: &str) -> String {
        let mut out = format!("error: {}", self.message);
        if let Some(span) = &self.span {
            let place = Place::of(text, span).clipped();
            let gutter = place.line.to_string().len();
            let shown = printable(place.content);
            // Carets are placed by characters, and what comes before them is printed the same way,
            // so they line up for tabs and control characters too.
            let before = printable(&place.content[..place.offset]).chars().count();
            let marked = &place.content[place.offset..place.end];
            let carets = "^".repeat(printable(marked).chars().count().max(1));
            let _ = write!(
                out,
                "\n{:gutter$}--> {path}:{}:{}\n{:gutter$} |\n{} | {shown}\n{:gutter$} | {}{carets}",
                "",
                place.line,
                place.column,
                "",
                place.line,
                "",
                " ".repeat(before),
            );
            if !self.label.is_empty() {
                let _ = write!(out, " {}", self.label);
            }
        } else {
            let _ = write!(out, "\n  --> {path}");
        }
        for hint in &self.hints {
            let _ = write!(out, "\nhint: {hint}");
        }
        out
    }
}

/// Where a byte offset is, counted as people count: lines and columns from 1.
#[derive(Debug, PartialEq)]
pub struct Place<'t> {
    pub line: usize,
    pub column: usize,
    content: &'t str,
    /// Byte offsets of the marked part within `content`.
    offset: usize,
    end: usize,
}

impl<'t> Place<'t> {
    pub fn of(text: &'t str, span: &Range<usize>) -> Place<'t> {
        let mut start = span.start.min(text.len());
        while !text.is_char_boundary(start) {
            start -= 1;
        }
        let line_start = text[..start].rfind('\n').map_or(0, |n| n + 1);
        let line_end = text[start..].find('\n').map_or(text.len(), |n| start + n);
        let mut end = span.end.clamp(start, line_end);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        Place {
            line: text[..start].matches('\n').count() + 1,
            column: text[line_start..start].chars().count() + 1,
            content: text[line_start..line_end].trim_end_matches('\r'),
            offset: start - line_start,
            end: end - line_start,
        }
        .within_content()
    }

    /// A line of a data file may have megabytes: only what surrounds the mark is shown.
    fn clipped(mut self) -> Place<'t> {
        const BEFORE: usize = 100;
        const AFTER: usize = 60;
        let boundary = |mut at: usize| {
            while !self.content.is_char_boundary(at) {
                at -= 1;
            }
            at
        };
        let length = self.content.len();
        let from = boundary(self.offset.saturating_sub(BEFORE));
        let marked = self.end.min(self.offset + AFTER);
        let to = boundary((marked + AFTER).min(length));
        if length <= BEFORE + 2 * AFTER {
            return self;
        }
        self.end = boundary(marked).max(self.offset) - from;
        self.offset -= from;
        self.content = &self.content[from..to];
        self
    }

    fn within_content(mut self) -> Place<'t> {
        self.offset = self.offset.min(self.content.len());
        self.end = self.end.clamp(self.offset, self.content.len());
        self
    }
}

/// Text from a file or a compiler made safe for a terminal: control characters cannot move the cursor,
/// and those that turn the direction of writing cannot make a name look like another.
pub fn printable(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\t' => ' ',
            c if c.is_control() => '\u{fffd}',
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '\u{fffd}',
            c => c,
        })
        .collect()
}

/// Like `printable`, for text of several lines.
pub fn printable_lines(text: &str) -> String {
    let lines: Vec<String> = text.split('\n').map(printable).collect();
    lines.join("\n")
}

/// The known name most like `wanted`, if one is close enough to be a likely typo.
pub fn nearest<'n>(wanted: &str, known: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let wanted_lower = wanted.to_lowercase();
    known
        .into_iter()
        .map(|name| {
            let distance = strsim::damerau_levenshtein(&wanted_lower, &name.to_lowercase());
            (distance, name)
        })
        .filter(|(distance, name)| {
            *distance <= (name.len().max(wanted.len()) / 3).max(1) && *distance < wanted.len()
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renders_line_and_carets() {
        let text = "[tunables]\nBLOCK_M = { values = [] }\n";
        let start = text.find("[]").unwrap();
        let rendered = Diagnostic::new("tunable `BLOCK_M` has no values", start..start + 2)
            .label("expected at least one value")
            .hint("list candidates, e.g. `values = [64, 128]`")
            .render("kiln.toml", text);
        insta::assert_snapshot!(rendered, @r"
        error: tunable `BLOCK_M` has no values
         --> kiln.toml:2:22
          |
        2 | BLOCK_M = { values = [] }
          |                      ^^ expected at least one value
        hint: list candidates, e.g. `values = [64, 128]`
        ");
    }

    #[test]
    fn any_span_renders() {
        let text = "é\t\u{1b}[31m\r\nx";
        for start in 0..=text.len() + 2 {
            for end in start..=text.len() + 2 {
                let rendered = Diagnostic::new("m", start..end).render("p", text);
                assert!(!rendered.contains('\u{1b}'));
            }
        }
    }

    #[test]
    fn nearest_finds_typos_only() {
        assert_eq!(nearest("BLOK_M", ["BLOCK_M", "BLOCK_N"]), Some("BLOCK_M"));
        assert_eq!(nearest("zzz", ["BLOCK_M"]), None);
        assert_eq!(nearest("x", ["y"]), None);
    }
}
