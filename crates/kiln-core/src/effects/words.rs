//! Effects in sentences.

use super::{Cost, Finding, MARGIN, TunableEffect, ValueEffect};
use crate::value::Value;

/// Values named one by one before "and 3 more".
const NAMED: usize = 3;

/// What a tunable does, in one sentence without a full stop.
pub(super) fn tunable(effect: &TunableEffect) -> String {
    let name = &effect.tunable;
    let said = match effect.finding {
        Finding::Matters => format!("{name}: {}", what_it_does(effect)),
        Finding::DoesNotMatter => {
            format!("{name} does not matter here (below {})", percent(MARGIN))
        }
        Finding::Undecided => format!("{name}: {}", what_is_open(effect)),
        Finding::NeverVaried => {
            let measured = effect.values.iter().find(|v| v.measured > 0);
            match measured {
                Some(only) => format!("{name}: only {} was measured", plain(&only.value)),
                None => format!("{name}: nothing was measured"),
            }
        }
    };
    format!("{said}{}", never_worked(effect))
}

fn what_it_does(effect: &TunableEffect) -> String {
    let Some(best) = &effect.best else {
        return "matters".into();
    };
    let mut others: Vec<(&Value, Cost)> = effect
        .values
        .iter()
        .filter_map(|v| Some((&v.value, v.cost?)))
        .collect();
    others.sort_by(|a, b| a.1.change.total_cmp(&b.1.change));
    let (clear, open): (Vec<_>, Vec<_>) = others.into_iter().partition(|(_, c)| c.is_clear());
    let said = match (clear.as_slice(), open.as_slice()) {
        ([], _) => "matters, but which value is best depends on the others".into(),
        ([(_, cost)], []) => format!("{} is {} faster {}", plain(best), size(*cost), range(*cost)),
        _ => {
            let mut parts = vec![format!("{} best", plain(best))];
            if !open.is_empty() {
                let names: Vec<String> = open.iter().map(|(v, _)| plain(v)).collect();
                parts.push(format!("{} about as good", some(&names)));
            }
            let mut said = parts.join(", ");
            let shown = match clear.len() {
                0..=NAMED => &clear[..],
                // The nearest and the farthest say the range.
                _ => &[clear[0], clear[clear.len() - 1]][..],
            };
            let costs = shown
                .iter()
                .map(|(value, cost)| format!("{} {}", plain(value), costs(*cost)));
            said.push_str("; ");
            said.push_str(&costs.collect::<Vec<_>>().join(", "));
            said
        }
    };
    format!("{said}{}", in_the_fastest(effect, best))
}

/// Where the fastest config has another value than the one that is best on average, and rightly so.
fn in_the_fastest(effect: &TunableEffect, best: &Value) -> String {
    let has = effect
        .values
        .iter()
        .find(|v| v.measured > 0 && v.cost_in_best.is_none());
    let with_best = effect.values.iter().find(|v| v.value == *best);
    match (has, with_best.and_then(|v| v.cost_in_best)) {
        (Some(has), Some(cost)) if cost.low > 0.0 => format!(
            "; but the fastest config has {}, where {} {}",
            plain(&has.value),
            plain(best),
            costs(cost)
        ),
        _ => String::new(),
    }
}

fn what_is_open(effect: &TunableEffect) -> String {
    let costs = || effect.values.iter().filter_map(|v| v.cost);
    let reach = costs().map(|c| c.high.max(-c.low)).fold(0.0, f64::max);
    match effect.values.iter().filter(|v| v.measured > 0).count() {
        0 => "nothing was measured".into(),
        _ if reach > 0.0 => format!(
            "not decided, its values may differ by up to {}",
            percent(reach)
        ),
        _ => "not decided".into(),
    }
}

fn never_worked(effect: &TunableEffect) -> String {
    let dead: Vec<&ValueEffect> = effect
        .values
        .iter()
        .filter(|v| v.measured == 0 && v.failed > 0)
        .collect();
    if dead.is_empty() {
        return String::new();
    }
    let failed: usize = dead.iter().map(|v| v.failed).sum();
    let names: Vec<String> = dead.iter().map(|v| plain(&v.value)).collect();
    let trials = if failed == 1 { "trial" } else { "trials" };
    format!("; {} never worked ({failed} {trials})", some(&names))
}

/// `8 costs 6 % [3, 9]`, without the 8.
pub(super) fn costs(cost: Cost) -> String {
    match cost.change {
        ..0.0 => format!("gains {} {}", size(cost.reversed()), range(cost.reversed())),
        ..1.0 => format!("costs {} {}", size(cost), range(cost)),
        _ => format!(
            "takes {:.1}x as long [{:.1}, {:.1}]",
            1.0 + cost.change,
            1.0 + cost.low,
            1.0 + cost.high
        ),
    }
}

pub(super) fn size(cost: Cost) -> String {
    percent(cost.change)
}

/// A part as `6 %`.
pub(super) fn percent(part: f64) -> String {
    format!("{} %", hundredths(part))
}

/// An interval of parts as `[3, 9]`.
pub(super) fn range(cost: Cost) -> String {
    format!("[{}, {}]", hundredths(cost.low), hundredths(cost.high))
}

fn hundredths(part: f64) -> String {
    let value = 100.0 * part;
    let text = match value.abs() {
        9.95.. => format!("{value:.0}"),
        _ => format!("{value:.1}"),
    };
    let text = text.strip_suffix(".0").unwrap_or(&text).to_string();
    if text == "-0" { "0".into() } else { text }
}

/// As a reader says it.
pub(super) fn plain(value: &Value) -> String {
    match value {
        Value::Bool(true) => "on".into(),
        Value::Bool(false) => "off".into(),
        other => other.to_string(),
    }
}

fn some(names: &[String]) -> String {
    match names.len() {
        0..=NAMED => names.join(", "),
        more => format!(
            "{} and {} more",
            names[..NAMED - 1].join(", "),
            more - NAMED + 1
        ),
    }
}
