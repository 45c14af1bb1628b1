//! `[tolerance]`, `[gates]`, `[search]`, `[budget]`, `[measure]` and `[confirm]`.

use super::expressions::{self, Names, Scope};
use super::section::{Section, number};
use super::{Problems, only_for_cuda};
use crate::diagnostic::{Diagnostic, nearest};
use crate::dtype::DType;
use crate::expression::Expr;
use crate::manifest::keys::{GATES, default_gate_policy};
use crate::manifest::{
    Budget, Confirm, Domain, GateAction, GatePolicy, Language, Measure, Nonfinite, Sanitize,
    Search, Shape, ToleranceRule,
};
use crate::protocol::Caches;

pub(super) fn tolerances(
    section: &Section,
    names: &Names,
    problems: &mut Problems,
) -> (Vec<(DType, ToleranceRule)>, Nonfinite) {
    let mut by_dtype = Vec::new();
    for dtype in DType::ALL {
        let rule = tolerance(section, dtype.name(), names, problems);
        by_dtype.extend(rule.map(|rule| (dtype, rule)));
    }
    let nonfinite = match section.text("nonfinite").as_str() {
        "match" => Nonfinite::Match,
        _ => Nonfinite::Reject,
    };
    (by_dtype, nonfinite)
}

/// A tolerance written as a number or as a table under `key`.
pub(super) fn tolerance(
    section: &Section,
    key: &str,
    names: &Names,
    problems: &mut Problems,
) -> Option<ToleranceRule> {
    let scope = Scope::Dimensions("how exact an answer has to be cannot depend on how it is found");
    let item = section.get(key)?;
    if number(item).is_some() {
        return Some(ToleranceRule {
            rtol: expressions::read(item, scope, names, problems),
            atol: None,
        });
    }
    let table = section.key_section(key)?;
    if !table.has("rtol") && !table.has("atol") {
        problems.push(
            Diagnostic::new(
                format!("tolerance `{key}` allows nothing"),
                table.span.clone(),
            )
            .label("expected `rtol`, `atol` or both")
            .hint("write e.g. `{ rtol = 1e-5, atol = 1e-6 }`"),
        );
    }
    let mut part = |key: &str| {
        let item = table.get(key)?;
        Some(expressions::read(item, scope, names, problems))
    };
    Some(ToleranceRule {
        rtol: part("rtol").unwrap_or_else(|| Expr::constant(0)),
        atol: part("atol"),
    })
}

/// Weaknesses of the check that are accepted.
pub(super) fn admits(section: &Section) -> Vec<String> {
    let words = section.texts("admits").unwrap_or_default();
    words.into_iter().map(|word| word.value).collect()
}

fn domains(section: &Section, shapes: &[Shape], problems: &mut Problems) -> Vec<(String, Domain)> {
    let Some(table) = section.key_section("domain") else {
        return Vec::new();
    };
    let dimensions = shapes.first().map_or(&[][..], |s| &s.dimensions);
    let mut domains = Vec::new();
    for entry in table.entries() {
        let Some(one) = table.entry_section(&entry) else {
            continue;
        };
        let name = entry.name().to_string();
        let known: Vec<&str> = dimensions.iter().map(|(n, _)| n.as_str()).collect();
        if !known.is_empty() && !known.contains(&entry.name()) {
            let problem = Diagnostic::new(
                format!("`domain` names `{name}`, which is no dimension"),
                entry.key.span(),
            )
            .label("not a dimension of the shapes");
            problems.push(match nearest(&name, known.iter().copied()) {
                Some(near) => problem.hint(format!("did you mean `{near}`?")),
                None => problem.hint(format!("dimensions: {}", known.join(", "))),
            });
        }
        let domain = Domain {
            from: one.whole("from"),
            to: one.whole("to"),
            step: one.whole("step"),
        };
        if domain
            .from
            .zip(domain.to)
            .is_some_and(|(from, to)| from > to)
        {
            problems.push(
                Diagnostic::new(format!("the domain of `{name}` is empty"), one.span.clone())
                    .label("expected `from` not to exceed `to`"),
            );
        }
        domains.push((name, domain));
    }
    domains
}

pub(super) fn gates(section: &Section) -> Vec<(String, GatePolicy)> {
    let policies = GATES.into_iter().filter_map(|gate| {
        let default = default_gate_policy(gate);
        let word = section.written_text(gate).map(|w| w.value);
        let policy = match (word, section.key_section(gate)) {
            (Some(word), _) => GatePolicy {
                action: action(&word),
                ..default
            },
            (None, Some(table)) => GatePolicy {
                action: action(&table.text("action")),
                limit: table.whole("limit").or(default.limit),
            },
            (None, None) => return None,
        };
        Some((gate.to_string(), policy))
    });
    policies.collect()
}

fn action(word: &str) -> GateAction {
    match word {
        "warn" => GateAction::Warn,
        "off" => GateAction::Off,
        _ => GateAction::Reject,
    }
}

pub(super) fn search(section: &Section) -> Search {
    Search {
        strategy: section.text("strategy"),
        seed_trials: section.count("seed_trials"),
        seed: section.written_count("seed"),
    }
}

pub(super) fn budget(section: &Section, problems: &mut Problems) -> Budget {
    if section.has("cost") && !section.has("price_per_hour") {
        problems.push(
            Diagnostic::new("`cost` needs `price_per_hour`", section.place("cost"))
                .label("nothing says what an hour costs")
                .hint("add a line such as `price_per_hour = 3.50`, or limit `minutes`"),
        );
    }
    Budget {
        trials: section.count("trials"),
        minutes: section.number("minutes"),
        price_per_hour: section.number("price_per_hour"),
        cost: section.number("cost"),
        stop_at_speedup: section.number("stop_at_speedup"),
        stagnation: section.written_count("stagnation"),
        hopeless_below: section.real("hopeless_below"),
    }
}

pub(super) fn measure(
    section: &Section,
    language: Option<Language>,
    problems: &mut Problems,
) -> Measure {
    for key in ["caches", "energy"] {
        if language == Some(Language::C) && section.has(key) {
            problems.push(only_for_cuda(section, "measure", key));
        }
    }
    let measure = Measure {
        min_samples: section.count("min_samples"),
        max_samples: section.count("max_samples"),
        precision: section.real("precision"),
        max_seconds: section.real("max_seconds"),
        cut_ratio: section.real("cut_ratio"),
        caches: match section.text("caches").as_str() {
            "cold" => Caches::Cold,
            _ => Caches::Warm,
        },
        energy: section.flag("energy"),
        compile_timeout_seconds: section.real("compile_timeout_seconds"),
        run_timeout_seconds: section.real("run_timeout_seconds"),
    };
    if measure.min_samples > measure.max_samples {
        let (min, max) = (measure.min_samples, measure.max_samples);
        problems.push(
            Diagnostic::new(
                format!("`min_samples` ({min}) is above `max_samples` ({max})"),
                section.place(match section.has("min_samples") {
                    true => "min_samples",
                    false => "max_samples",
                }),
            )
            .label("expected the fewest not to exceed the most"),
        );
    }
    measure
}

pub(super) fn confirm(section: &Section, shapes: &[Shape], problems: &mut Problems) -> Confirm {
    let confirm = Confirm {
        samples: section.count("samples"),
        finalists: section.count("finalists"),
        rounds: section.count("rounds"),
        margin: section.real("margin"),
        max_seconds: section.real("max_seconds"),
        unseen_shapes: section.count("unseen_shapes"),
        domain: domains(section, shapes, problems),
        repeats: section.count("repeats"),
        sanitize: match section.text("sanitize").as_str() {
            "on" => Sanitize::On,
            "off" => Sanitize::Off,
            _ => Sanitize::Auto,
        },
    };
    if confirm.rounds > confirm.samples {
        let (rounds, samples) = (confirm.rounds, confirm.samples);
        problems.push(
            Diagnostic::new(
                format!("{samples} samples cannot be spread over {rounds} rounds"),
                section.place(match section.has("rounds") {
                    true => "rounds",
                    false => "samples",
                }),
            )
            .label("expected at least one sample per round"),
        );
    }
    confirm
}
