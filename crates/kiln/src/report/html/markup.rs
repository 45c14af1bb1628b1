//! HTML under construction. Markup comes from this program's own literals only; whatever was read from a
//! study goes through `text`, which escapes it. The types keep the two apart: `raw` takes nothing made at run time.

use std::fmt::Display;

use kiln_core::escape;

#[derive(Default)]
pub struct Markup {
    html: String,
}

impl Markup {
    pub fn new() -> Markup {
        Markup::default()
    }

    pub fn raw(&mut self, markup: &'static str) -> &mut Markup {
        self.html.push_str(markup);
        self
    }

    /// Text of any origin, in an element or a quoted attribute.
    pub fn text(&mut self, text: impl Display) -> &mut Markup {
        self.html.push_str(&escape::html(&text.to_string()));
        self
    }

    /// A sentence with `code` between backticks.
    pub fn prose(&mut self, sentence: &str) -> &mut Markup {
        let parts: Vec<&str> = sentence.split('`').collect();
        // An odd backtick is no pair: it stays what it is.
        if parts.len().is_multiple_of(2) {
            return self.text(sentence);
        }
        for (place, part) in parts.iter().enumerate() {
            match place % 2 {
                0 => self.text(part),
                _ => self.raw("<code>").text(part).raw("</code>"),
            };
        }
        self
    }

    pub fn add(&mut self, other: Markup) -> &mut Markup {
        self.html.push_str(&other.html);
        self
    }

    /// A JSON document as a data block; browsers run nothing of it.
    pub fn json(&mut self, id: &'static str, value: &serde_json::Value) -> &mut Markup {
        self.raw("<script type=\"application/json\" id=\"")
            .raw(id)
            .raw("\">");
        self.html
            .push_str(&escape::json_in_html(&value.to_string()));
        self.raw("</script>\n")
    }

    /// A table with a heading per column; columns that are `Right` hold numbers.
    pub fn table(
        &mut self,
        columns: &[(&'static str, Align)],
        rows: impl IntoIterator<Item = Vec<Markup>>,
    ) -> &mut Markup {
        self.raw("<div class=\"wide\"><table><thead><tr>");
        for (name, align) in columns {
            self.raw("<th")
                .raw(align.class())
                .raw(">")
                .raw(name)
                .raw("</th>");
        }
        self.raw("</tr></thead><tbody>\n");
        for row in rows {
            self.raw("<tr>");
            for (cell, (_, align)) in row.into_iter().zip(columns) {
                self.raw("<td")
                    .raw(align.class())
                    .raw(">")
                    .add(cell)
                    .raw("</td>");
            }
            self.raw("</tr>\n");
        }
        self.raw("</tbody></table></div>\n")
    }

    pub fn finish(self) -> String {
        self.html
    }
}

/// A cell with nothing but text.
pub fn cell(text: impl Display) -> Markup {
    let mut markup = Markup::new();
    markup.text(text);
    markup
}

/// A cell with a sentence.
pub fn sentence(text: &str) -> Markup {
    let mut markup = Markup::new();
    markup.prose(text);
    markup
}

pub fn code(text: impl Display) -> Markup {
    let mut markup = Markup::new();
    markup.raw("<code>").text(text).raw("</code>");
    markup
}

#[derive(Clone, Copy)]
pub enum Align {
    Left,
    Right,
}

impl Align {
    fn class(self) -> &'static str {
        match self {
            Align::Left => "",
            Align::Right => " class=\"number\"",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_text_wherever_it_stands() {
        let mut markup = Markup::new();
        markup
            .raw("<p title=\"")
            .text("\"><b>")
            .raw("\">")
            .prose("run `kiln <tune>` & see")
            .raw("</p>")
            .json("data", &serde_json::json!("</script>"));
        assert_eq!(
            markup.finish(),
            "<p title=\"&quot;&gt;&lt;b&gt;\">run <code>kiln &lt;tune&gt;</code> &amp; see</p>\
             <script type=\"application/json\" id=\"data\">\"\\u003c/script\\u003e\"</script>\n"
        );
    }

    #[test]
    fn a_lonely_backtick_stays() {
        assert_eq!(sentence("it`s").finish(), "it`s");
    }
}
