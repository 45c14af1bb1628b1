//! What loops and conditions say about a variable: `y < height - 1`, `dx <= 1`.

use super::certain::Sum;
use super::{Bound, closing, occurrences};
use crate::manifest::init::source::words;

/// What is in the parentheses after each `word`.
pub(super) fn conditions<'b>(body: &'b str, word: &str) -> Vec<&'b str> {
    occurrences(body, word)
        .filter_map(|end| {
            let rest = body[end..].trim_start().strip_prefix('(')?;
            Some(&rest[..closing(rest, '(', ')')?])
        })
        .collect()
}

/// `left < right` and its kin.
struct Comparison<'f> {
    left: &'f str,
    right: &'f str,
    is_less: bool,
    or_equal: bool,
}

impl<'f> Comparison<'f> {
    fn of(part: &'f str) -> Option<Comparison<'f>> {
        let at = part.find(['<', '>'])?;
        let right = &part[at + 1..];
        // Of `((x < w) && …` only `x < w`.
        let left = part[..at].rsplit('(').next()?;
        let (or_equal, right) = match right.strip_prefix('=') {
            Some(right) => (true, right),
            None => (false, right),
        };
        Some(Comparison {
            left: if part[..at].contains(')') {
                &part[..at]
            } else {
                left
            },
            right: &right[..closing(right, '(', ')').unwrap_or(right.len())],
            is_less: part[at..].starts_with('<'),
            or_equal,
        })
    }
}

/// `y < height - 1`: the first name, and what it is compared with: a product of `integers`, or the first of them in
/// something else.
pub(super) fn compared<'f>(
    part: &'f str,
    integers: &[&'f str],
    keyword: &str,
) -> Option<(&'f str, Bound<'f>)> {
    let comparison = Comparison::of(part)?;
    let (left, right) = part.split_once(['<', '>'])?;
    let is_name = |word: &&str| word.starts_with(|c: char| c.is_alphabetic() || c == '_');
    let variable = words(left).find(is_name)?;
    let first = words(right)
        .chain(words(left))
        .find_map(|word| integers.iter().find(|i| **i == word))?;
    if integers.contains(&variable) {
        return None;
    }
    let plain = || {
        let (sizes, number) = Sum::of(comparison.right)?.product_and_number()?;
        let (name, added) = Sum::of(comparison.left)?.product_and_number()?;
        let is_known = |size: &String| integers.contains(&size.as_str());
        if !sizes.iter().all(is_known) {
            return None;
        }
        // As they were written, the number of rows mostly first.
        let written = words(comparison.right).filter(|word| sizes.iter().any(|s| s == word));
        let sizes: Vec<&str> = written.collect();
        // `if (i >= n) return;` bounds what comes after; a loop `while (i > n)` runs the other way.
        let strictly = match (comparison.is_less, keyword) {
            (true, _) => !comparison.or_equal,
            (false, "if") => comparison.or_equal,
            (false, _) => return None,
        };
        (name == [variable] && !sizes.is_empty()).then(|| Bound {
            sizes,
            slack: added
                .saturating_sub(number)
                .saturating_sub(i64::from(!strictly)),
            is_plain: true,
        })
    };
    let bound = plain().unwrap_or(Bound {
        sizes: vec![first],
        slack: 0,
        is_plain: false,
    });
    Some((variable, bound))
}

/// The variable of `dx <= 1`, and the largest value that it has.
pub(super) fn numbered(part: &str) -> Option<(&str, i64)> {
    let comparison = Comparison::of(part).filter(|c| c.is_less)?;
    let variable = words(comparison.left).last()?;
    let (nothing, number) = Sum::of(comparison.right)?.product_and_number()?;
    let (name, added) = Sum::of(comparison.left)?.product_and_number()?;
    let most = number
        .saturating_sub(added)
        .saturating_sub(i64::from(!comparison.or_equal));
    (nothing.is_empty() && name == [variable]).then_some((variable, most))
}
