//! What the body of a function says about its parameters: which integers are sizes, how large a buffer is and
//! whether it is written. Guesses from the text of loops and subscripts; a person reads the result.

mod certain;
mod conditions;
mod indices;
mod sums;

use std::collections::BTreeMap;

use super::source::words;
use certain::without_casts;
use conditions::{compared, conditions, numbered};
pub(super) use indices::Reach;
pub(super) use sums::is_plain_sum;

/// Colours of a pixel, or a small matrix.
const MOST_TOGETHER: u64 = 64;
/// Row pointers and the halos of stencils reach a few elements further.
const MOST_BEYOND: i64 = 64;

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
    of: BTreeMap<&'f str, Bound<'f>>,
    /// What loops run to that end at a number.
    most: BTreeMap<&'f str, i64>,
}

/// What a variable stays below.
#[derive(Clone, Debug, PartialEq)]
struct Bound<'f> {
    /// The product of these.
    sizes: Vec<&'f str>,
    /// By how much it stays further below: 1 in `x < width - 1`.
    slack: i64,
    /// All conditions on it say the same, and nothing else.
    is_plain: bool,
}

impl Bound<'_> {
    fn product(&self) -> Vec<String> {
        let mut sizes: Vec<String> = self.sizes.iter().map(|s| s.to_string()).collect();
        sizes.sort();
        sizes
    }

    /// What is also said of the variable. The guess stays what was said first; a condition such as `x + 1 < width` tells
    /// how far the code behind it may go.
    fn also(&mut self, other: Bound<'_>) {
        let agree = self.product() == other.product();
        self.is_plain &= other.is_plain && agree;
        if agree {
            self.slack = self.slack.max(other.slack);
        }
    }
}

impl<'f> Bounds<'f> {
    /// `integers` are the parameters that could be sizes.
    pub fn of(body: &'f str, integers: &'f [&'f str]) -> Bounds<'f> {
        let mut of: BTreeMap<&str, Bound<'_>> = BTreeMap::new();
        let mut most: BTreeMap<&str, i64> = BTreeMap::new();
        for word in ["for", "while", "if"] {
            for condition in conditions(body, word) {
                for part in condition.split([';', '&', '|', ',']) {
                    if let ("for", Some((variable, number))) = (word, numbered(part)) {
                        let known = most.entry(variable).or_insert(number);
                        *known = number.max(*known);
                    }
                    let Some((variable, bound)) = compared(part, integers, word) else {
                        continue;
                    };
                    match of.get_mut(variable) {
                        Some(known) => known.also(bound),
                        None => {
                            of.insert(variable, bound);
                        }
                    }
                }
            }
        }
        Bounds {
            body,
            integers,
            of,
            most,
        }
    }

    /// The parameters that bound something or are multiplied in a subscript of one of `buffers`: the sizes.
    pub fn sizes(&self, buffers: &[&str]) -> Vec<&'f str> {
        let strides: Vec<&str> = buffers
            .iter()
            .flat_map(|buffer| accesses(self.body, buffer))
            .flat_map(|access| {
                words(&self.spelt_out(access.index).text)
                    .map(String::from)
                    .collect::<Vec<_>>()
            })
            .filter_map(|word| self.integers.iter().copied().find(|i| *i == word))
            .collect();
        let bounds_some = |name: &&str| self.of.values().any(|b| b.sizes.contains(name));
        let is_size = |name: &&str| bounds_some(name) || strides.contains(name);
        self.integers.iter().copied().filter(is_size).collect()
    }

    /// The sizes whose product is the extent of a buffer; `None` where the subscripts do not tell.
    pub fn extents(&self, buffer: &str) -> Option<Extents<'f>> {
        let accesses = accesses(self.body, buffer);
        let is_named_otherwise = accesses.len() < occurrences(self.body, buffer).count();
        if let (Some(count), false) = (first_ones(&accesses), is_named_otherwise) {
            return Some(Extents {
                sizes: Vec::new(),
                factor: Some(count),
                beyond: 0,
                is_by_block: false,
                doubt: None,
            });
        }
        let indices = accesses.iter().map(|access| self.spelt_out(access.index));
        let indices: Vec<Spelt> = indices.collect();
        let all: Vec<Option<Vec<&str>>> =
            indices.iter().map(|i| self.extents_of(&i.text)).collect();
        let most = all.iter().flatten().map(Vec::len).max()?;
        let sizes = all.iter().flatten().find(|s| s.len() == most)?.clone();
        let beyond = indices.iter().map(|i| self.beyond(&i.text, &sizes));
        let beyond: Vec<Option<i64>> = beyond.collect();
        let is_told = |place: usize| {
            let is_inside = beyond[place].is_some_and(|b| b <= 0);
            indices[place].is_certain && is_inside
        };
        let untold = (0..accesses.len()).find(|place| !is_told(*place));
        let doubt = match untold {
            Some(place) => Some(Doubt::Subscript(accesses[place].index.to_string())),
            None => is_named_otherwise.then_some(Doubt::NotOnlySubscripts),
        };
        let texts = indices.iter().map(|index| index.text.as_str());
        let factor = match sizes.len() {
            1 => texts.filter_map(factor).max(),
            _ => None,
        };
        let beyond = beyond.into_iter().flatten().max().unwrap_or(0);
        Some(Extents {
            beyond: match (&sizes[..], factor) {
                ([_], None) => beyond.clamp(0, MOST_BEYOND),
                _ => 0,
            },
            sizes,
            factor,
            is_by_block: indices
                .iter()
                .any(|index| words(&index.text).any(|word| word == "blockIdx")),
            doubt,
        })
    }

    /// The parameters that the body does not name: often how many blocks there are.
    pub fn unnamed(&self) -> Vec<&'f str> {
        let is_unnamed = |name: &&str| occurrences(self.body, name).next().is_none();
        self.integers.iter().copied().filter(is_unnamed).collect()
    }

    fn extents_of(&self, index: &str) -> Option<Vec<&'f str>> {
        let mut seen: Vec<&str> = Vec::new();
        let mut extents = Vec::new();
        for word in words(index) {
            if let (Some((name, bound)), false) =
                (self.of.get_key_value(word), seen.contains(&word))
            {
                seen.push(name);
                extents.extend(&bound.sizes);
            }
        }
        // A stride that is none of the extents: a row is longer than what is used of it.
        let is_told = words(index)
            .filter_map(|word| self.integers.iter().find(|i| **i == word))
            .all(|stride| extents.contains(stride));
        (is_told && !extents.is_empty()).then_some(extents)
    }

    /// A subscript with variables that are only names for something else replaced by that: `row = y * width`.
    fn spelt_out(&self, index: &str) -> Spelt {
        let mut text = index.to_string();
        let mut is_certain = true;
        for _ in 0..3 {
            let unknown = words(&text)
                .filter(|word| !self.of.contains_key(word) && !self.integers.contains(word))
                .filter(|word| !self.most.contains_key(word))
                .find_map(|word| Some((word.to_string(), definition(self.body, word)?)));
            let Some((name, meaning)) = unknown else {
                break;
            };
            is_certain &= is_set_once(self.body, &name);
            text = replaced(&text, &name, &format!("({meaning})"));
        }
        Spelt { text, is_certain }
    }
}

/// A subscript in terms of what is bounded.
struct Spelt {
    text: String,
    /// No name in it meant something else before or after.
    is_certain: bool,
}

/// How large a buffer is, as its subscripts show it.
#[derive(Debug, PartialEq)]
pub(super) struct Extents<'f> {
    pub sizes: Vec<&'f str>,
    /// Elements to each: 3 where `rgb[3 * i + 2]` is read. Elements in all where there are no sizes.
    pub factor: Option<u64>,
    /// Elements past the only size: 1 where `rows[i + 1]` is read for every `i` below it.
    pub beyond: i64,
    /// Which block it is decides where it reads, and nothing bounds that.
    pub is_by_block: bool,
    /// Why these may not be the sizes.
    pub doubt: Option<Doubt>,
}

/// What keeps a shape from being more than a guess.
#[derive(Debug, PartialEq)]
pub(super) enum Doubt {
    /// May reach further than the sizes say, or less far.
    Subscript(String),
    /// Handed on, or moved along.
    NotOnlySubscripts,
}

/// How many elements there are, where only `*sum` or `range[0]` and `range[1]` are named.
fn first_ones(accesses: &[Access<'_>]) -> Option<u64> {
    let numbers = accesses.iter().map(|a| a.index.trim().parse::<u64>().ok());
    let last = numbers.collect::<Option<Vec<u64>>>()?.into_iter().max()?;
    (last < MOST_TOGETHER).then_some(last + 1)
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
    // Its address goes somewhere, to `atomicAdd` perhaps.
    if accesses.iter().any(|a| a.is_pointed_at) {
        return Use::Unknown;
    }
    let is_assigned = |a: &Access| a.after.starts_with('=') && !a.after.starts_with("==");
    let is_updated = |a: &Access| {
        let operators = [
            "+=", "-=", "*=", "/=", "%=", "|=", "&=", "^=", "<<=", ">>=", "++", "--",
        ];
        operators.iter().any(|o| a.after.starts_with(o))
    };
    // `y[i] = a * x[i] + y[i]` reads what was there.
    let reads_itself = |a: &Access| {
        let statement = a.after.split(';').next().unwrap_or_default();
        occurrences(statement, pointer).next().is_some()
    };
    let is_changed = |a: &Access| is_assigned(a) || is_updated(a);
    match accesses.iter().any(is_changed) {
        false => Use::Read,
        // What comes first decides: a sum begins with a zero, an update with what is there.
        true => match accesses.first() {
            Some(first) if is_assigned(first) && !reads_itself(first) => Use::Written,
            _ => Use::Updated,
        },
    }
}

struct Access<'b> {
    index: &'b str,
    after: &'b str,
    /// `&name[index]`.
    is_pointed_at: bool,
}

/// Every `name[index]`, of `name[a][b]` both, every `*name`, which is `name[0]`, and `atomicAdd(name, ...)`, which is that too.
fn accesses<'b>(body: &'b str, name: &str) -> Vec<Access<'b>> {
    occurrences(body, name)
        .filter_map(|end| {
            let before = body[..end - name.len()].trim_end();
            let Some(rest) = body[end..].trim_start().strip_prefix('[') else {
                return pointed_to(before, body[end..].trim_start());
            };
            let mut close = closing(rest, '[', ']')?;
            while let Some(inner) = rest[close + 1..].strip_prefix('[') {
                close += 2 + closing(inner, '[', ']')?;
            }
            // Not `mask & name[index]`.
            let address_of = before.strip_suffix('&').map(str::trim_end);
            let is_atomic = address_of.is_some_and(is_atomic_call);
            Some(Access {
                index: &rest[..close],
                after: match is_atomic {
                    true => "+=",
                    false => rest[close + 1..].trim_start(),
                },
                is_pointed_at: !is_atomic
                    && address_of.is_some_and(|b| b.ends_with(['(', ',', '=', ';', '{'])),
            })
        })
        .collect()
}

/// Whether a text ends in `atomicAdd(` or its like, which read what they change.
fn is_atomic_call(text: &str) -> bool {
    let called = text.strip_suffix('(').and_then(|b| words(b).last());
    called.is_some_and(|word| word.starts_with("atomic"))
}

/// `*name`, with what stands before and after the name; neither a product, nor `*name++`, which moves along.
fn pointed_to<'b>(before: &str, after: &'b str) -> Option<Access<'b>> {
    if is_atomic_call(before) && after.starts_with(',') {
        return Some(Access {
            index: "0",
            after: "+=",
            is_pointed_at: false,
        });
    }
    const OPERATORS: [char; 17] = [
        '(', ',', '=', ';', '{', '}', '+', '-', '*', '/', '%', '<', '>', '!', '&', '|', '?',
    ];
    let before = before.strip_suffix('*')?.trim_end();
    let begins = before.is_empty() || before.ends_with(OPERATORS);
    let moves = after.starts_with("++") || after.starts_with("--");
    // `(*name)++` changes what is there.
    let after = match before.ends_with('(') {
        true => after.strip_prefix(')').unwrap_or(after).trim_start(),
        false => after,
    };
    (begins && !moves).then_some(Access {
        index: "0",
        after,
        is_pointed_at: false,
    })
}

/// Where each occurrence of a word ends; `threadIdx.x` is none of `x`.
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
            let is_whole =
                !before.is_some_and(|c| is_word(c) || c == '.') && !after.is_some_and(is_word);
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

/// Whether a variable keeps the value it is first given.
fn is_set_once(body: &str, name: &str) -> bool {
    let changes = |end: &usize| {
        let after = body[*end..].trim_start();
        let before = body[..*end - name.len()].trim_end();
        let sets = after.starts_with('=') && !after.starts_with("==");
        let updates = [
            "+=", "-=", "*=", "/=", "%=", "|=", "&=", "^=", "<<=", ">>=", "++", "--",
        ];
        sets || updates.iter().any(|u| after.starts_with(u))
            || before.ends_with("++")
            || before.ends_with("--")
    };
    occurrences(body, name).filter(changes).count() == 1
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

    const BLUR: &str = "for (int y = 1; y < height - 1; y++) for (int x = 1; x < width - 1; ++x) {\
        if (y == 0 || x >= width) continue;\
        float sum = 0; for (int dy = -1; dy <= 1; dy++) sum += in[(y + dy) * width + x];\
        out[y * width + x] = sum / 3; }";

    /// Of a buffer whose subscripts leave no doubt.
    fn sizes<'f>(bounds: &Bounds<'f>, buffer: &str) -> Vec<&'f str> {
        let extents = bounds.extents(buffer).expect("they tell");
        assert!(
            extents.doubt.is_none() && extents.factor.is_none(),
            "{extents:?}"
        );
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
                (e.factor, e.beyond, e.doubt.is_none())
            });
            extents.expect("they tell")
        };
        for index in ["3*i+2", "3 * i", "i * 3 + 1", "3 * (i + 1)", "(i - 1) * 3"] {
            assert_eq!(found(index), (Some(3), 0, false), "{index}");
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
            assert_eq!(found(index), (None, 0, false), "{index}");
        }
        for index in ["i", "(size_t)i", "n - 1 - i"] {
            assert_eq!(found(index), (None, 0, true), "{index}");
        }
        assert_eq!(found("i + 1"), (None, 1, false));
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
        assert_eq!(use_of("a[i] = 2 * b[i] + a[i];", "a"), Use::Updated);
        assert_eq!(use_of("if (a[i] > 0) a[i] = 0;", "a"), Use::Updated);
        assert_eq!(
            use_of("a[i] = 0; for (;;) a[i] += b[j]; a[i] = a[i] / 2;", "a"),
            Use::Written
        );
        assert_eq!(use_of("exchange(&a[i], 1);", "a"), Use::Unknown);
        assert_eq!(use_of("atomicAdd(&a[i], 1);", "a"), Use::Updated);
        for reading in ["if (x && a[i]) return;", "y = mask & a[i];"] {
            assert_eq!(use_of(reading, "a"), Use::Read, "{reading}");
        }
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
            "for (i = 0; i + 9223372036854775807 < n - 9223372036854775807; i++) a[i + 9223372036854775807]",
            "for (i = 0; i < 9223372036854775807; i++) a[i + i + n - 9223372036854775807]",
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
