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

/// The refusal of a task with weaknesses.
pub(super) fn refusal(mut found: Vec<Weakness>) -> Option<Failure> {
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
    let words: BTreeSet<&str> = found.iter().map(|w| w.probe.stand_in.word()).collect();
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
