//! Which outputs are a sum of many elements and nothing else, as far as the text shows it.

use super::{closing, occurrences};
use crate::manifest::init::source::words;

/// Whether what is written to `output` is what was added up, as in `s += x[i]; ... *output = s;`, and no mean, root or
/// largest element of it. With one of `scalars` in it a sum can be of any size.
pub(in crate::manifest::init) fn is_plain_sum(body: &str, output: &str, scalars: &[&str]) -> bool {
    let mut sums = Vec::new();
    for after in uses(body, output) {
        // `*output = s;`, `*output += s;` and `atomicAdd(output, s)`.
        let value = match operand(after, "+=").or_else(|| operand(after, "=")) {
            Some(value) => value,
            None => match after.strip_prefix(',').and_then(|a| a.split_once(')')) {
                Some((value, _)) => value.trim(),
                None => return false,
            },
        };
        if is_number(value) {
            continue;
        }
        match only_name(value) {
            Some(name) if name != output && adds_up(body, name, scalars) => sums.push(name),
            _ if after.starts_with("+=") && keeps_size(value, scalars) => sums.push(output),
            _ => return false,
        }
    }
    !sums.is_empty()
}

/// What follows each occurrence of a name and its subscripts.
fn uses<'b>(body: &'b str, name: &str) -> impl Iterator<Item = &'b str> {
    occurrences(body, name).map(|end| {
        let mut after = body[end..].trim_start();
        while let Some((rest, close)) = after
            .strip_prefix('[')
            .and_then(|rest| Some((rest, closing(rest, '[', ']')?)))
        {
            after = rest[close + 1..].trim_start();
        }
        after
    })
}

/// The right side of `operator`.
fn operand<'b>(after: &'b str, operator: &str) -> Option<&'b str> {
    let value = after.strip_prefix(operator)?;
    let end = value.find(';')?;
    (!value.starts_with('=')).then(|| value[..end].trim())
}

fn is_number(value: &str) -> bool {
    value.trim_end_matches(['f', 'F']).parse::<f64>().is_ok()
}

/// `s` of `s`, `s[0]` and `(float)s`; `None` of everything that computes.
fn only_name(value: &str) -> Option<&str> {
    let value = match value.strip_prefix('(') {
        Some(cast) => cast.split_once(')')?.1.trim(),
        None => value,
    };
    let name = words(value).next()?;
    let rest = value.strip_prefix(name)?.trim();
    let is_element = rest.starts_with('[') && closing(&rest[1..], '[', ']') == Some(rest.len() - 2);
    (rest.is_empty() || is_element).then_some(name)
}

/// Whether a variable is added to, and never divided or multiplied.
fn adds_up(body: &str, name: &str, scalars: &[&str]) -> bool {
    let added: Vec<&str> = uses(body, name)
        .filter_map(|after| operand(after, "+="))
        .collect();
    let changes_size = |after: &str| after.starts_with("*=") || after.starts_with("/=");
    !added.is_empty()
        && added.iter().all(|value| keeps_size(value, scalars))
        && !uses(body, name).any(changes_size)
}

/// Whether what is added is about as large as the elements it is made from.
fn keeps_size(value: &str, scalars: &[&str]) -> bool {
    !value.contains('/') && !words(value).any(|word| scalars.contains(&word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_sum(body: &str) -> bool {
        is_plain_sum(body, "out", &["scale"])
    }

    #[test]
    fn what_is_added_up_and_handed_out_is_a_sum() {
        for body in [
            "float s = 0; for (int i = 0; i < n; i++) s += x[i]; *out = s;",
            "double s = 0; for (int i = 0; i < n; i++) s += x[i] * y[i]; out[0] = (float)s;",
            "*out = 0.0f; for (int i = 0; i < n; i++) *out += x[i];",
            "float s = 0; for (; i < n; i += step) s += x[i]; atomicAdd(out, s);",
            "s[t] = v; for (int k = 128; k > 0; k /= 2) s[t] += s[t + k]; if (t == 0) atomicAdd(&out[0], s[0]);",
        ] {
            assert!(is_sum(body), "{body}");
        }
    }

    #[test]
    fn what_may_be_of_another_size_is_none() {
        for body in [
            "float s = 0; for (int i = 0; i < n; i++) s += x[i]; *out = s / n;",
            "float s = 0; for (int i = 0; i < n; i++) s += x[i] / n; *out = s;",
            "float s = 0; for (int i = 0; i < n; i++) s += scale * x[i]; *out = s;",
            "float s = 0; for (int i = 0; i < n; i++) s += x[i]; s /= n; *out = s;",
            "float s = 0; for (int i = 0; i < n; i++) s += x[i]; *out = sqrtf(s);",
            "float m = x[0]; for (int i = 0; i < n; i++) if (x[i] > m) m = x[i]; *out = m;",
            "for (int i = 0; i < n; i++) if (x[i] > *out) *out = x[i];",
            "*out = 0;",
            "helper(out, n);",
            "out[",
            "",
        ] {
            assert!(!is_sum(body), "{body}");
        }
    }
}
