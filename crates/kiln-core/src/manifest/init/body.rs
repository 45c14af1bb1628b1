//! What the body of a function says about its parameters: which integers are sizes, how large a buffer is and
//! whether it is written. Guesses from the text of loops and subscripts; a person reads the result.

mod indices;

use std::collections::BTreeMap;

use super::source::words;
pub(super) use indices::Reach;

/// Colours of a pixel, or a small matrix.
const MOST_TOGETHER: u64 = 64;

/// How a function uses the memory behind a pointer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Use {
    Read,
    Written,
    /// Changed in place, so what was there before matters.
    Updated,
    /// Handed on, or never named: it cannot be seen here.
    Unknown,
}

/// What runs up to which integer parameter: `for (int y = 0; y < height; y++)` bounds `y` by `height`.
pub(super) struct Bounds<'f> {
    body: &'f str,
    integers: &'f [&'f str],
    of: BTreeMap<&'f str, &'f str>,
}

impl<'f> Bounds<'f> {
    /// `integers` are the parameters that could be sizes.
    pub fn of(body: &'f str, integers: &'f [&'f str]) -> Bounds<'f> {
        let mut of = BTreeMap::new();
        for word in ["for", "while", "if"] {
            for condition in conditions(body, word) {
                for part in condition.split([';', '&', '|', ',']) {
                    let Some((variable, bound)) = compared(part, integers) else {
                        continue;
                    };
                    of.entry(variable).or_insert(bound);
                }
            }
        }
        Bounds { body, integers, of }
    }

    /// The parameters that bound something or are multiplied in a subscript of one of `buffers`: the sizes.
    pub fn sizes(&self, buffers: &[&str]) -> Vec<&'f str> {
        let strides: Vec<&str> = buffers
            .iter()
            .flat_map(|buffer| accesses(self.body, buffer))
            .flat_map(|access| {
                words(&self.spelt_out(access.index))
                    .map(String::from)
                    .collect::<Vec<_>>()
            })
            .filter_map(|word| self.integers.iter().copied().find(|i| *i == word))
            .collect();
        let is_size = |name: &&str| self.of.values().any(|b| b == name) || strides.contains(name);
        self.integers.iter().copied().filter(is_size).collect()
    }

    /// The sizes whose product is the extent of a buffer; `None` where the subscripts do not tell.
    pub fn extents(&self, buffer: &str) -> Option<Extents<'f>> {
        let accesses = accesses(self.body, buffer);
        let indices = accesses.iter().map(|access| self.spelt_out(access.index));
        let indices: Vec<String> = indices.collect();
        let sizes = indices.iter().find_map(|index| self.extents_of(index))?;
        let is_sure = indices.iter().all(|index| is_sum_of_strides(index));
        let factor = match sizes.len() {
            1 => indices.iter().filter_map(|index| factor(index)).max(),
            _ => None,
        };
        Some(Extents {
            sizes,
            factor,
            is_sure,
        })
    }

    fn extents_of(&self, index: &str) -> Option<Vec<&'f str>> {
        let mut seen: Vec<&str> = Vec::new();
        let mut extents = Vec::new();
        for word in words(index) {
            if let (Some((name, bound)), false) =
                (self.of.get_key_value(word), seen.contains(&word))
            {
                seen.push(name);
                extents.push(*bound);
            }
        }
        // A stride that is none of the extents: a row is longer than what is used of it.
        let is_told = words(index)
            .filter_map(|word| self.integers.iter().find(|i| **i == word))
            .all(|stride| extents.contains(stride));
        (is_told && !extents.is_empty()).then_some(extents)
    }

    /// A subscript with variables that are only names for something else replaced by that: `row = y * width`.
    fn spelt_out(&self, index: &str) -> String {
        let mut text = index.to_string();
        for _ in 0..3 {
            let unknown = words(&text)
                .filter(|word| !self.of.contains_key(word) && !self.integers.contains(word))
                .find_map(|word| Some((word.to_string(), definition(self.body, word)?)));
            let Some((name, meaning)) = unknown else {
                break;
            };
            text = replaced(&text, &name, &format!("({meaning})"));
        }
        text
    }
}

/// How large a buffer is, as its subscripts show it.
#[derive(Debug, PartialEq)]
pub(super) struct Extents<'f> {
    pub sizes: Vec<&'f str>,
    /// Elements to each: 3 where `rgb[3 * i + 2]` is read.
    pub factor: Option<u64>,
    /// Nothing in a subscript but sizes and what runs up to them.
    pub is_sure: bool,
}

/// Whether a subscript only adds up what runs up to sizes: one with a number as a factor, a division, a shift or another
/// buffer in it may reach further than they say, or less far.
fn is_sum_of_strides(index: &str) -> bool {
    let is_plain = |c: char| c.is_alphanumeric() || c.is_whitespace() || "_.+-*()][".contains(c);
    let nested = index.replace("][", "").contains('[');
    index.chars().all(is_plain) && !nested && factors(index).next().is_none()
}

/// Numbers that something is multiplied by.
fn factors(index: &str) -> impl Iterator<Item = &str> {
    let terms = index.split(['+', '-', '(', ')', '[', ']']);
    let products = terms.map(|term| term.split('*').map(str::trim).collect::<Vec<_>>());
    // `3 * (i + 1)` leaves a factor whose other side is in parentheses.
    products
        .filter(|product| product.len() > 1)
        .flatten()
        .filter(|word| word.starts_with(|c: char| c.is_ascii_digit()))
}

/// The factor, where there is one and it says how many elements belong together; more than that are rows, whose number
/// would make the sizes that are guessed here far too large.
fn factor(index: &str) -> Option<u64> {
    let mut found = factors(index);
    let only = found.next()?.parse().ok()?;
    (found.next().is_none() && (2..=MOST_TOGETHER).contains(&only)).then_some(only)
}

/// What the body does with what is behind a pointer.
pub(super) fn use_of(body: &str, pointer: &str) -> Use {
    let accesses = accesses(body, pointer);
    if accesses.is_empty() || accesses.len() < occurrences(body, pointer).count() {
        return Use::Unknown;
    }
    let is_assigned = |a: &Access| a.after.starts_with('=') && !a.after.starts_with("==");
    let is_updated = |a: &Access| {
        let operators = [
            "+=", "-=", "*=", "/=", "%=", "|=", "&=", "^=", "<<=", ">>=", "++", "--",
        ];
        operators.iter().any(|o| a.after.starts_with(o))
    };
    match (
        accesses.iter().any(is_assigned),
        accesses.iter().any(is_updated),
    ) {
        (true, _) => Use::Written,
        (false, true) => Use::Updated,
        (false, false) => Use::Read,
    }
}

struct Access<'b> {
    index: &'b str,
    after: &'b str,
}

/// Every `name[index]`; of `name[a][b]` both.
fn accesses<'b>(body: &'b str, name: &str) -> Vec<Access<'b>> {
    occurrences(body, name)
        .filter_map(|end| {
            let rest = body[end..].trim_start().strip_prefix('[')?;
            let mut close = closing(rest, '[', ']')?;
            while let Some(inner) = rest[close + 1..].strip_prefix('[') {
                close += 2 + closing(inner, '[', ']')?;
            }
            Some(Access {
                index: &rest[..close],
                after: rest[close + 1..].trim_start(),
            })
        })
        .collect()
}

/// Where each occurrence of a word ends.
fn occurrences<'b>(body: &'b str, name: &str) -> impl Iterator<Item = usize> + 'b {
    let name = name.to_string();
    let length = name.len();
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let starts: Vec<usize> = body
        .match_indices(name.as_str())
        .map(|(at, _)| at)
        .collect();
    starts
        .into_iter()
        .map(move |at| (at, at + length))
        .filter_map(move |(start, end)| {
            let before = body[..start].chars().next_back();
            let after = body[end..].chars().next();
            let is_whole = !before.is_some_and(is_word) && !after.is_some_and(is_word);
            is_whole.then_some(end)
        })
}

/// Where the bracket closes that was opened just before `text`.
fn closing(text: &str, open: char, close: char) -> Option<usize> {
    let mut depth = 1;
    for (at, c) in text.char_indices() {
        match c {
            c if c == open => depth += 1,
            c if c == close => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

/// What is in the parentheses after each `word`.
fn conditions<'b>(body: &'b str, word: &str) -> Vec<&'b str> {
    occurrences(body, word)
        .filter_map(|end| {
            let rest = body[end..].trim_start().strip_prefix('(')?;
            Some(&rest[..closing(rest, '(', ')')?])
        })
        .collect()
}

/// `y < height - 1`: the first name, and the first of `integers` that it is compared with.
fn compared<'f>(part: &'f str, integers: &[&'f str]) -> Option<(&'f str, &'f str)> {
    let (left, right) = part.split_once(['<', '>'])?;
    let is_name = |word: &&str| word.starts_with(|c: char| c.is_alphabetic() || c == '_');
    let variable = words(left).find(is_name)?;
    let bound = words(right)
        .chain(words(left))
        .find_map(|word| integers.iter().find(|i| **i == word))?;
    (!integers.contains(&variable)).then_some((variable, bound))
}

/// What a variable is first set to: `int i = blockIdx.x * 256;`.
fn definition(body: &str, name: &str) -> Option<String> {
    occurrences(body, name).find_map(|end| {
        let rest = body[end..].trim_start().strip_prefix('=')?;
        let meaning = &rest[..rest.find(';')?];
        // A variable that is set from itself explains nothing.
        let explains = !meaning.starts_with('=') && !words(meaning).any(|w| w == name);
        explains.then(|| meaning.trim().to_string())
    })
}

fn replaced(text: &str, name: &str, by: &str) -> String {
    let mut out = String::new();
    let mut from = 0;
    for end in occurrences(text, name) {
        out.push_str(&text[from..end - name.len()]);
        out.push_str(by);
        from = end;
    }
    out.push_str(&text[from..]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLUR: &str = "for (int y = 0; y < height; y++) for (int x = 1; x < width - 1; ++x) {\
        if (y == 0 || x >= width) continue;\
        float sum = 0; for (int dy = -1; dy <= 1; dy++) sum += in[(y + dy) * width + x];\
        out[y * width + x] = sum / 3; }";

    /// Of a buffer whose subscripts leave no doubt.
    fn sizes<'f>(bounds: &Bounds<'f>, buffer: &str) -> Vec<&'f str> {
        let extents = bounds.extents(buffer).expect("they tell");
        assert!(extents.is_sure && extents.factor.is_none(), "{extents:?}");
        extents.sizes
    }

    #[test]
    fn sizes_are_what_loops_run_to() {
        let integers = ["height", "width", "flag"];
        let bounds = Bounds::of(BLUR, &integers);
        assert_eq!(bounds.sizes(&["in", "out"]), ["height", "width"]);
        assert_eq!(sizes(&bounds, "in"), ["height", "width"]);
        assert_eq!(use_of(BLUR, "in"), Use::Read);
        assert_eq!(use_of(BLUR, "out"), Use::Written);
    }

    #[test]
    fn a_product_of_matrices_has_three_sizes() {
        let body = "for (int i = 0; i < m; i++) for (int j = 0; j < n; j++) { float s = 0;\
            for (int p = 0; p < k; p++) s += a[i * k + p] * b[p * n + j]; c[i * n + j] = s; }";
        let integers = ["m", "n", "k"];
        let bounds = Bounds::of(body, &integers);
        assert_eq!(sizes(&bounds, "a"), ["m", "k"]);
        assert_eq!(sizes(&bounds, "b"), ["k", "n"]);
        assert_eq!(sizes(&bounds, "c"), ["m", "n"]);
    }

    #[test]
    fn a_thread_finds_its_place_by_a_name() {
        let body = "int x = blockIdx.x * blockDim.x + threadIdx.x; int y = blockIdx.y;\
            if (x >= width || y >= height) return; int at = y * width + x; out[at] = 2 * in[at];";
        let integers = ["height", "width"];
        let bounds = Bounds::of(body, &integers);
        assert_eq!(sizes(&bounds, "out"), ["height", "width"]);
    }

    #[test]
    fn subscripts_that_reach_further_are_in_doubt() {
        let integers = ["n"];
        let found = |index: &str| {
            let body = format!("for (int i = 0; i < n; i++) y[i] = a[{index}];");
            let extents = Bounds::of(&body, &integers).extents("a").map(|e| {
                assert_eq!(e.sizes, ["n"]);
                (e.factor, e.is_sure)
            });
            extents.expect("they tell")
        };
        for index in ["3*i+2", "3 * i", "i * 3 + 1", "3 * (i + 1)", "(i - 1) * 3"] {
            assert_eq!(found(index), (Some(3), false), "{index}");
        }
        for index in [
            "i / 2",
            "i % 16",
            "i << 1",
            "order[i]",
            "2 * i * 3",
            "0 * i",
            "i * 4096",
        ] {
            assert_eq!(found(index), (None, false), "{index}");
        }
        for index in ["i", "i + 1", "(size_t)i", "n - 1 - i"] {
            assert_eq!(found(index), (None, true), "{index}");
        }
    }

    #[test]
    fn arrays_of_arrays_have_all_their_subscripts() {
        let body = "for (int y = 0; y < h; y++) for (int x = 0; x < w; x++) out[y][x] = in[y][x];";
        let integers = ["h", "w"];
        let bounds = Bounds::of(body, &integers);
        assert_eq!(sizes(&bounds, "out"), ["h", "w"]);
        assert_eq!(use_of(body, "out"), Use::Written);
        assert_eq!(use_of(body, "in"), Use::Read);
    }

    #[test]
    fn what_cannot_be_seen_is_not_guessed() {
        let integers = ["n", "lda"];
        let padded = Bounds::of("for (int i = 0; i < n; i++) a[i * lda] = 0;", &integers);
        assert_eq!(padded.extents("a"), None);
        assert_eq!(padded.sizes(&["a"]), ["n", "lda"]);
        assert_eq!(use_of("helper(a, n); a[0] = 1;", "a"), Use::Unknown);
        assert_eq!(use_of("", "a"), Use::Unknown);
        assert_eq!(use_of("a[i] += b[i];", "a"), Use::Updated);
        assert_eq!(use_of("if (a[i] == 0) return;", "a"), Use::Read);
    }

    #[test]
    fn any_text_is_survived() {
        for text in [
            "a[",
            "for (i < n",
            "a[a[a]]",
            "x = x; a[x]",
            "é[é] = é",
            "if(<)",
            "a = ; a[a]",
        ] {
            let bounds = Bounds::of(text, &["n", "a"]);
            let _ = (
                bounds.extents("a"),
                bounds.sizes(&["a", "é"]),
                use_of(text, "é"),
            );
        }
    }
}
