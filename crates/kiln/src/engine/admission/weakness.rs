//! Why a task is refused, and what would make it sound.

use std::collections::BTreeSet;

use kiln_core::admission::{Probe, StandIn};

use crate::exit::Failure;

/// A stand-in that passed although a tolerance exists that would tell.
pub(super) struct Weakness {
    pub(super) probe: Probe,
    pub(super) shape: String,
    /// The tolerance that would tell, as the manifest writes it, and for which output.
    pub(super) remedy: Option<String>,
    /// The part of the present tolerance that right answers need.
    pub(super) honest: f64,
}

/// The refusal of a task with weaknesses, beyond those it `admits`.
pub(super) fn refusal(mut found: Vec<Weakness>, admits: &[String]) -> Option<Failure> {
    found.sort_by(|a, b| a.probe.error_ratio.total_cmp(&b.probe.error_ratio));
    let first = found.first()?;
    let mut message = format!(
        "the check of this task is weak: a kernel that {} would pass",
        first.probe.stand_in.deed()
    );
    for weak in &found {
        message.push_str(&format!(
            "\n  one that {}: output `{}` on shape `{}` is off by {:.2} of what is allowed; \
                 a right answer needs {:.2} of it",
            weak.probe.stand_in.deed(),
            weak.probe.output,
            weak.shape,
            weak.probe.error_ratio,
            weak.honest
        ));
    }
    let words = found.iter().map(|w| w.probe.stand_in.word());
    let words: BTreeSet<&str> = words.chain(admits.iter().map(String::as_str)).collect();
    let words: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
    let accept = format!(
        "accept it with `admits = [{}]` in [tolerance]",
        words.join(", ")
    );
    Some(Failure::usage(message).hint(format!("{}; or {accept}", remedy(first))))
}

/// What to change, for the weakness that the tightest tolerance is needed for.
fn remedy(weak: &Weakness) -> String {
    let tolerance = weak.remedy.as_ref().map(|line| {
        format!(
            "write `{line}` in [tolerance] (or as the `tolerance` of `{}`)",
            weak.probe.output
        )
    });
    let inputs = match weak.probe.stand_in {
        StandIn::Previous if weak.remedy.is_none() => {
            "the inputs are the same each time: draw them (`draw = \"normal\"`)"
        }
        StandIn::CoarserOutput(_) | StandIn::CoarserInputs(_) => "",
        _ => "draw inputs that make a greater difference",
    };
    match (tolerance, inputs) {
        (Some(tolerance), "") => tolerance,
        (Some(tolerance), inputs) => format!("{tolerance}, or {inputs}"),
        (None, "") => "draw inputs that need more digits".into(),
        (None, inputs) => inputs.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kiln_core::precision::Coarser;

    fn weakness(stand_in: StandIn, error_ratio: f64, remedy: Option<&str>) -> Weakness {
        Weakness {
            probe: Probe {
                stand_in,
                output: "y".into(),
                error: String::new(),
                error_ratio,
            },
            shape: "target".into(),
            remedy: remedy.map(str::to_string),
            honest: 0.125,
        }
    }

    fn refused(found: Vec<Weakness>) -> (String, String) {
        let failure = refusal(found, &[]).expect("weaknesses refuse");
        (failure.message, failure.hints.join("; "))
    }

    #[test]
    fn a_task_without_weaknesses_is_not_refused() {
        assert!(refusal(Vec::new(), &["tf32".to_string()]).is_none());
    }

    #[test]
    fn what_is_accepted_already_stays_so() {
        let found = vec![weakness(StandIn::CoarserInputs(Coarser::F8), 0.5, None)];
        let failure = refusal(found, &["tf32".to_string()]).unwrap();
        let hint = failure.hints.join("; ");
        assert!(hint.contains("admits = [\"f8\", \"tf32\"]"), "{hint}");
    }

    #[test]
    fn the_weakness_that_needs_the_tightest_tolerance_comes_first() {
        let (message, hint) = refused(vec![
            weakness(StandIn::Zeros, 0.75, Some("f32 = 5e-3")),
            weakness(
                StandIn::CoarserOutput(Coarser::Bf16),
                0.5,
                Some("f32 = 3e-3"),
            ),
        ]);
        let (first, others) = message.split_once('\n').unwrap();
        assert!(first.contains("rounds its results to bf16"), "{first}");
        assert!(
            others.contains("0.50") && others.contains("0.75"),
            "{others}"
        );
        assert!(others.contains("a right answer needs 0.12"), "{others}");
        assert!(hint.starts_with("write `f32 = 3e-3`"), "{hint}");
        assert!(hint.contains("admits = [\"bf16\", \"zeros\"]"), "{hint}");
        // Other inputs round alike.
        assert!(!hint.contains("draw"), "{hint}");
    }

    #[test]
    fn each_weakness_has_its_remedy() {
        let hint = |stand_in, remedy| refused(vec![weakness(stand_in, 0.5, remedy)]).1;
        let coarse = StandIn::CoarserInputs(Coarser::F8);
        assert!(hint(coarse, None).starts_with("draw inputs that need more digits"));
        assert!(hint(StandIn::Previous, None).starts_with("the inputs are the same each time"));
        let previous = hint(StandIn::Previous, Some("f32 = 1e-3"));
        assert!(previous.contains("f32 = 1e-3") && previous.contains("greater difference"));
        assert!(hint(StandIn::Zeros, None).starts_with("draw inputs that make a greater"));
    }
}
