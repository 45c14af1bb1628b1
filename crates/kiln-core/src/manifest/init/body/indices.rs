//! Buffers whose elements are subscripts of other buffers: `table[index[i] * d + j]`, `x[cols[k]]`. What they hold decides
//! where the kernel reads and writes, so they are not drawn like other integers.

use super::{Bounds, accesses, closing, without_casts};
use crate::manifest::init::source::words;

/// How far the elements of a buffer may reach.
#[derive(Debug, PartialEq)]
pub(in crate::manifest::init) enum Reach<'f> {
    /// Sizes whose product is the number of values, and the elements to each where there is one size.
    Below {
        sizes: Vec<&'f str>,
        factor: Option<u64>,
    },
    /// They are subscripts, of something whose size cannot be seen or in a way that is not understood.
    Unknown,
}

/// Stands for an element of the buffer in question.
const ELEMENT: &str = "@";

impl<'f> Bounds<'f> {
    /// `None` where no element of `buffer` is part of a subscript of one of `others`.
    pub fn reach(&self, buffer: &str, others: &[&str]) -> Option<Reach<'f>> {
        let mut found: Option<Reach> = None;
        for other in others.iter().filter(|other| **other != buffer) {
            for access in accesses(self.body, other) {
                let index = self.spelt_out(access.index).text;
                if accesses(&index, buffer).is_empty() {
                    continue;
                }
                let reach = self.reach_of(&index, buffer, other);
                found = match found {
                    Some(known) if known != reach => return Some(Reach::Unknown),
                    _ => Some(reach),
                };
            }
        }
        found
    }

    fn reach_of(&self, index: &str, buffer: &str, into: &str) -> Reach<'f> {
        let known = || {
            let extents = self.extents(into)?;
            let stride = match stride(&with_element(index, buffer)?)? {
                Stride::One => None,
                Stride::Of { name, beside } => {
                    let stays_in_row = words(&beside).all(|word| {
                        let is_number = word.starts_with(|c: char| c.is_ascii_digit());
                        is_number
                            || self
                                .of
                                .get(word)
                                .is_some_and(|b| b.sizes == [name.as_str()])
                    });
                    if !stays_in_row {
                        return None;
                    }
                    Some(name)
                }
            };
            let mut sizes = extents.sizes;
            if let Some(stride) = stride {
                let place = sizes.iter().position(|size| *size == stride)?;
                sizes.remove(place);
            }
            (!sizes.is_empty()).then_some(Reach::Below {
                sizes,
                factor: extents.factor,
            })
        };
        known().unwrap_or(Reach::Unknown)
    }
}

enum Stride {
    /// The element is the whole subscript.
    One,
    /// The element is multiplied by a name; what is added to that.
    Of { name: String, beside: String },
}

/// A subscript without spaces and casts, the one element of `buffer` in it as a sign.
fn with_element(index: &str, buffer: &str) -> Option<String> {
    let text = without_casts(index);
    let mut text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    let start = super::occurrences(&text, buffer).next()? - buffer.len();
    let open = start + buffer.len();
    let inside = text[open..].strip_prefix('[')?;
    let end = open + 1 + closing(inside, '[', ']')? + 1;
    text.replace_range(start..end, ELEMENT);
    while text.contains("(@)") {
        text = text.replace("(@)", ELEMENT);
    }
    (text.matches(ELEMENT).count() == 1 && super::occurrences(&text, buffer).next().is_none())
        .then_some(text)
}

fn stride(text: &str) -> Option<Stride> {
    if text == ELEMENT {
        return Some(Stride::One);
    }
    let (with, beside): (Vec<&str>, Vec<&str>) =
        text.split('+').partition(|term| term.contains(ELEMENT));
    let product = with.first()?.trim_start_matches('(').trim_end_matches(')');
    let name = product
        .strip_prefix("@*")
        .or_else(|| product.strip_suffix("*@"))?;
    let is_name = name.chars().all(|c| c.is_alphanumeric() || c == '_')
        && name.starts_with(|c: char| c.is_alphabetic() || c == '_');
    let beside = beside.join("+");
    let is_plain = !beside.contains(['-', '*', '/', '%', '[', '<', '>']);
    (is_name && is_plain).then(|| Stride::Of {
        name: name.to_string(),
        beside,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reach(body: &str, buffer: &str) -> String {
        let integers = ["n", "d", "m"];
        let others = ["table", "x", "y", "out", "cols", "idx", "vals"];
        match Bounds::of(body, &integers).reach(buffer, &others) {
            None => "none".into(),
            Some(Reach::Unknown) => "unknown".into(),
            Some(Reach::Below { sizes, factor }) => match factor {
                Some(factor) => format!("{factor} * {}", sizes.join(" * ")),
                None => sizes.join(" * "),
            },
        }
    }

    #[test]
    fn elements_that_are_subscripts_stay_inside() {
        let rows = |index: &str| {
            format!(
                "for (int i = 0; i < n; i++) for (int j = 0; j < d; j++) out[i * d + j] = table[{index}];"
            )
        };
        for index in [
            "idx[i]*d+j",
            "(size_t)idx[i] * d + j",
            "j + d * idx[i]",
            "(idx[i] * d) + j",
        ] {
            assert_eq!(reach(&rows(index), "idx"), "n", "{index}");
        }
        for index in ["idx[i]*d+j+1000*i", "idx[i]*4+j", "idx[i]-1"] {
            assert_eq!(reach(&rows(index), "idx"), "unknown", "{index}");
        }
        let gather = "for (int k = 0; k < n; k++) y[k] = x[cols[k]];";
        assert_eq!(reach(gather, "cols"), "n");
        let named = "for (int k = 0; k < n; k++) { int c = cols[k]; y[k] = x[c]; }";
        assert_eq!(reach(named, "cols"), "n");
        assert_eq!(reach(named, "x"), "none");
    }

    #[test]
    fn what_cannot_be_seen_is_unknown() {
        let rows = "for (int i = 0; i < n; i++) for (int k = idx[i]; k < idx[i + 1]; k++) y[i] += vals[k] * x[cols[k]];";
        assert_eq!(reach(rows, "idx"), "unknown");
        let helper = "y[0] = x[cols[lookup(3)]];";
        assert_eq!(reach(helper, "cols"), "unknown");
        assert_eq!(
            reach("for (int i = 0; i < n; i++) y[i] = cols[i];", "cols"),
            "none"
        );
    }

    #[test]
    fn any_text_is_survived() {
        for text in [
            "x[cols[",
            "x[cols[]]",
            "x[@]",
            "x[(cols[k]",
            "é[cols[é]]",
            "x[cols]",
        ] {
            let _ = reach(text, "cols");
        }
    }
}
