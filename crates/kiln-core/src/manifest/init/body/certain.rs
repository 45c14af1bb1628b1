//! Whether a subscript shows how large a buffer is. `y * width + x` does, with `y` below `height` and `x` below `width`;
//! `row * width + x` with a `row` that nothing bounds, `i + j` and `i + 1` do not, and what is guessed from them is said to
//! be a guess.

use std::collections::BTreeMap;

use super::{Bound, Bounds};

/// Beyond these nobody writes a subscript.
const MOST_PRODUCTS: usize = 64;
const DEEPEST: usize = 32;

const CASTS: [&str; 13] = [
    "(int)",
    "(unsigned)",
    "(unsigned int)",
    "(long)",
    "(unsigned long)",
    "(size_t)",
    "(ptrdiff_t)",
    "(int32_t)",
    "(int64_t)",
    "(uint32_t)",
    "(uint64_t)",
    "(long long)",
    "(unsigned long long)",
];

pub(super) fn without_casts(text: &str) -> String {
    let mut text = text.to_string();
    for cast in CASTS {
        text = text.replace(cast, "");
    }
    text
}

/// A sum of products of names: how often each product, its names in order, is counted. The empty product is the number.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Sum(BTreeMap<Vec<String>, i64>);

impl Sum {
    /// `None` where there is more in a text than names, whole numbers, `+`, `-`, `*` and parentheses.
    pub(super) fn of(text: &str) -> Option<Sum> {
        let text = without_casts(text);
        let mut reader = Reader {
            rest: &text,
            depth: 0,
        };
        let sum = reader.sum()?;
        reader.rest.trim().is_empty().then_some(sum)
    }

    fn add(&mut self, names: Vec<String>, times: i64) -> Option<()> {
        let count = self.0.entry(names).or_default();
        *count = count.checked_add(times)?;
        (self.0.len() <= MOST_PRODUCTS).then_some(())
    }

    fn times(&self, other: &Sum) -> Option<Sum> {
        let mut product = Sum::default();
        for (names, count) in &self.0 {
            for (others, by) in &other.0 {
                let mut all = [names.as_slice(), others].concat();
                all.sort();
                product.add(all, count.checked_mul(*by)?)?;
            }
        }
        Some(product)
    }

    /// The number, and the only product beside it where that is counted once.
    pub(super) fn product_and_number(mut self) -> Option<(Vec<String>, i64)> {
        let number = self.0.remove(&Vec::new()).unwrap_or(0);
        self.0.retain(|_, count| *count != 0);
        let mut products = self.0.into_iter();
        match (products.next(), products.next()) {
            (None, _) => Some((Vec::new(), number)),
            (Some((names, 1)), None) => Some((names, number)),
            _ => None,
        }
    }
}

struct Reader<'t> {
    rest: &'t str,
    depth: usize,
}

impl Reader<'_> {
    fn takes(&mut self, sign: char) -> bool {
        match self.rest.trim_start().strip_prefix(sign) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn sum(&mut self) -> Option<Sum> {
        let mut all = Sum::default();
        let mut sign = if self.takes('-') { -1 } else { 1 };
        loop {
            let term = self.product()?;
            for (names, count) in term.0 {
                all.add(names, count.checked_mul(sign)?)?;
            }
            sign = match (self.takes('+'), self.takes('-')) {
                (true, false) => 1,
                (false, true) => -1,
                // `+ -1` is rare enough to be left alone.
                (true, true) => return None,
                (false, false) => return Some(all),
            };
        }
    }

    fn product(&mut self) -> Option<Sum> {
        let mut all = self.factor()?;
        while self.takes('*') {
            all = all.times(&self.factor()?)?;
        }
        Some(all)
    }

    fn factor(&mut self) -> Option<Sum> {
        if self.takes('(') {
            self.depth += 1;
            let inner = (self.depth <= DEEPEST).then(|| self.sum())??;
            self.depth -= 1;
            return self.takes(')').then_some(inner);
        }
        let text = self.rest.trim_start();
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let end = text.find(|c| !is_part(c)).unwrap_or(text.len());
        let (word, rest) = text.split_at(end);
        self.rest = rest;
        let mut sum = Sum::default();
        match word.chars().next()? {
            digit if digit.is_ascii_digit() => {
                let number = word.trim_end_matches(['u', 'U', 'l', 'L']);
                sum.add(Vec::new(), number.parse().ok()?)?;
            }
            _ => sum.add(vec![word.to_string()], 1)?,
        }
        Some(sum)
    }
}

impl Bounds<'_> {
    /// How many elements a subscript reaches beyond a buffer of these sizes, none or less being inside; `None` where it does
    /// not tell.
    pub(super) fn beyond(&self, index: &str, sizes: &[&str]) -> Option<i64> {
        let rows = index.split("][").map(|row| self.beyond_in_row(row, sizes));
        rows.collect::<Option<Vec<i64>>>()?.into_iter().max()
    }

    fn beyond_in_row(&self, index: &str, sizes: &[&str]) -> Option<i64> {
        // A running variable and the sizes it is multiplied by.
        let mut running: Vec<(&Bound<'_>, Vec<String>)> = Vec::new();
        let mut offsets: BTreeMap<Vec<String>, i64> = BTreeMap::new();
        let mut reversed = None;
        for (names, count) in Sum::of(index)?.0 {
            let is_size = |name: &String| self.integers.contains(&name.as_str());
            let (strides, others): (Vec<String>, Vec<String>) =
                names.into_iter().partition(is_size);
            let offset = match (&others[..], count) {
                ([], count) => count,
                (_, 0) => return None,
                ([name], 1) => match (self.of.get(name.as_str()), self.most.get(name.as_str())) {
                    (Some(bound), _) if bound.is_plain => {
                        running.push((bound, strides));
                        continue;
                    }
                    (None, Some(most)) => *most,
                    _ => return None,
                },
                ([name], -1) if strides.is_empty() && reversed.is_none() => {
                    reversed = Some(self.of.get(name.as_str()).filter(|b| b.is_plain)?);
                    continue;
                }
                _ => return None,
            };
            let sum = offsets.entry(strides).or_default();
            *sum = sum.saturating_add(offset);
        }
        let mut beyond = i64::MIN;
        let mut row: Vec<String> = Vec::new();
        if let Some(bound) = reversed {
            // `n - 1 - i`, from the far end to the near one.
            if !running.is_empty() || offsets.remove(&bound.product()) != Some(1) {
                return None;
            }
            let number = offsets.remove(&Vec::new()).unwrap_or(0);
            beyond = number.saturating_add(1);
        } else if running.is_empty() {
            // `0`, `n - 1`: the first or last ones.
            let number = offsets.remove(&Vec::new()).unwrap_or(0);
            let is_first = offsets.is_empty() && number >= 0;
            let is_last = number < 0 && offsets.len() == 1 && offsets.values().all(|c| *c == 1);
            return (is_first || is_last).then_some(0);
        }
        running.sort_by_key(|(_, strides)| strides.len());
        for (bound, strides) in running {
            // Each is multiplied by all sizes that lie inside it: rows of rows that do not overlap. `y * width` by itself is the
            // first of every row.
            if !is_part(&row, &strides) {
                return None;
            }
            let offset = offsets.remove(&strides).unwrap_or(0);
            beyond = beyond.max(offset.saturating_sub(bound.slack));
            row = [strides, bound.product()].concat();
        }
        let sizes: Vec<String> = sizes.iter().map(|s| s.to_string()).collect();
        let is_told = offsets.values().all(|c| *c == 0) && is_part(&row, &sizes);
        is_told.then_some(beyond)
    }
}

/// Whether all of `some` are among `all`, each as often.
fn is_part(some: &[String], all: &[String]) -> bool {
    let mut left: Vec<&String> = all.iter().collect();
    some.iter().all(|name| {
        let place = left.iter().position(|l| *l == name);
        place.map(|place| left.swap_remove(place)).is_some()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_multiplied_out() {
        let sum = |text: &str| Sum::of(text).map(|s| s.0);
        let expected = |terms: &[(&[&str], i64)]| {
            let terms = terms.iter().map(|(names, count)| {
                let names = names.iter().map(|n| n.to_string()).collect();
                (names, *count)
            });
            Some(terms.collect::<BTreeMap<Vec<String>, i64>>())
        };
        assert_eq!(
            sum("(y + 1) * w + (size_t)x - 2u"),
            expected(&[(&["w", "y"], 1), (&["w"], 1), (&["x"], 1), (&[], -2)])
        );
        assert_eq!(sum("-x + x"), expected(&[(&["x"], 0)]));
        let deep = format!("{}x{}", "(".repeat(5000), ")".repeat(5000));
        let wide = "(a + b + c + d + e + f + g + h)".to_string() + &"*(a+b+c+d+e+f+g+h)".repeat(20);
        for text in [
            "a / 2",
            "a[i]",
            "a +",
            "",
            "(a",
            "a)",
            "threadIdx.x",
            "é",
            "a << 1",
            "99999999999999999999",
            &deep,
            &wide,
        ] {
            assert_eq!(Sum::of(text), None, "{text}");
        }
    }

    /// Loops over `h` rows, `w` columns and `c` channels, a window, and two that stop early.
    const LOOPS: &str = "for (int y = 0; y < h; y++) for (int x = 0; x < w; x++) for (int k = 0; k < c; k++)\
        for (int d = 0; d < 3; d++) for (int a = 1; a < h - 1; a++) for (int b = 0; b + 4 <= w; b += 4)\
        for (int f = 0; f < h * w; f++) for (int o = 0; o <= w; o++) for (int q = 0; q < h / 2; q++)";

    #[test]
    fn rows_of_rows_are_told_from_everything_else() {
        let integers = ["h", "w", "c"];
        let bounds = Bounds::of(LOOPS, &integers);
        for index in [
            "x",
            "y * w + x",
            "x + w * y",
            "(y * w + x) * c + k",
            "x * h + y",
            "(c * h) * x + k * h + y",
            "y][x",
            "f",
            "f * c + k",
            "a + 1",
            "(a - 1) * w + x",
            "a * w + w + x",
            "b + 3",
            "w - 1 - x",
            "0",
            "w - 1",
            "o - 1",
            "y * (w) + (x)",
            "2 + a - 1",
        ] {
            let beyond = bounds.beyond(index, &integers);
            assert!(beyond.is_some_and(|b| b <= 0), "{index}: {beyond:?}");
        }
        for (index, beyond) in [
            ("x + 1", 1),
            ("o", 1),
            ("a + 2", 1),
            ("b + 7", 4),
            ("x + d", 2),
            ("(y + 1) * w + x", 1),
            ("y][x + 1", 1),
            ("w - x", 1),
        ] {
            assert_eq!(bounds.beyond(index, &integers), Some(beyond), "{index}");
        }
        for index in [
            "x + y",
            "y * c + x",
            "z * w + x",
            "y * h + x",
            "blockIdx.x * w + x",
            "2 * x",
            "x * x",
            "x - d",
            "y * w * w + x",
            "q",
            "h * w",
            "x + c",
            "-x",
            "w",
            "x % 2",
            "x * stride + k",
        ] {
            assert_eq!(bounds.beyond(index, &integers), None, "{index}");
        }
        for index in ["x * h + y", "y * w"] {
            assert_eq!(bounds.beyond(index, &["h", "w"]), Some(0), "{index}");
            assert_eq!(bounds.beyond(index, &["w", "c"]), None, "{index}");
        }
    }
}
