//! The answer first: what was found, how sure it is, what to do now.

use kiln_core::stats::Interval;
use kiln_core::study::Study;
use kiln_core::units::human_ns;
use kiln_core::verdict::Verdict;

use super::markup::Markup;
use crate::report::terminal::{flags_text, group_digits};
use crate::report::{advice, cost, is_success, notes, rates};

/// How an answer is shown: a class for its colour and a sign that says the same without colour.
struct Tone {
    class: &'static str,
    sign: &'static str,
    word: String,
}

fn tone(study: &Study) -> Tone {
    let tone = |class, sign, word: &str| Tone {
        class,
        sign,
        word: word.into(),
    };
    match study.winner().map(|w| w.comparison.verdict) {
        Some(Verdict::Faster) if is_success(study) => tone("good", "▲", "FASTER"),
        Some(Verdict::Faster) => tone("even", "▲", "FASTER, BELOW THE TARGET"),
        Some(verdict) if is_success(study) => tone("good", "✓", verdict.name()),
        Some(Verdict::Same) => tone("even", "=", "SAME"),
        Some(Verdict::Slower) => tone("bad", "▼", "SLOWER"),
        Some(Verdict::Undecided) => tone("even", "?", "UNDECIDED"),
        None if !study.finished => tone("even", "…", "NOT FINISHED"),
        None => tone("bad", "✕", "NO WINNER"),
    }
}

pub fn section(page: &mut Markup, study: &Study) {
    let tone = tone(study);
    page.raw("<section id=\"answer\" class=\"")
        .raw(tone.class)
        .raw("\">\n<p class=\"verdict\"><span aria-hidden=\"true\">")
        .raw(tone.sign)
        .raw("</span> ")
        .text(&tone.word)
        .raw("</p>\n");
    match study.winner() {
        Some(winner) => {
            let c = &winner.comparison;
            page.raw("<p class=\"figure\"><span class=\"big\">")
                .text(format!("{:.2}", c.speedup))
                .raw("<small>×</small></span> <span class=\"interval\">95 % interval <b>")
                .text(format!("{:.2}", c.speedup_ci_95.low))
                .raw("</b> to <b>")
                .text(format!("{:.2}", c.speedup_ci_95.high))
                .raw("</b></span></p>\n<p class=\"plain\">")
                .text(in_words(study))
                .raw("</p>\n");
            super::plot(page, "plot-interval", "Interval of the speedup");
        }
        None => {
            page.raw("<p class=\"plain\">")
                .text(in_words(study))
                .raw("</p>\n");
        }
    }
    numbers(page, study);
    page.raw("<div class=\"next\"><h2>Next</h2><p>")
        .prose(&next(study))
        .raw("</p>\n");
    if let Some(winner) = study.winner() {
        page.raw("<pre class=\"copy\" tabindex=\"0\"><code>")
            .text(flags_text(study, &winner.config))
            .raw("</code></pre>\n");
    }
    page.raw("</div>\n");
    let notes = notes(study);
    if !notes.is_empty() {
        page.raw("<ul class=\"notes\">\n");
        for note in notes {
            page.raw("<li>").prose(&note).raw("</li>\n");
        }
        page.raw("</ul>\n");
    }
    page.raw("</section>\n");
}

/// The terminal's advice speaks of what is above it; here the flags are below, and it is a sentence.
fn next(study: &Study) -> String {
    let advice = advice(study).replace("the flags above", "the flags below");
    let mut letters = advice.chars();
    match letters.next() {
        Some(first) => format!("{}{}.", first.to_uppercase(), letters.as_str()),
        None => advice,
    }
}

fn in_words(study: &Study) -> String {
    let baseline = study.baseline_ns();
    if let Some(winner) = study.winner() {
        let c = &winner.comparison;
        let found = format!(
            "{} instead of {} per launch, confirmed in fresh processes on inputs the search never saw",
            human_ns(c.candidate_ns),
            human_ns(c.baseline_ns)
        );
        return match c.verdict {
            Verdict::Faster => format!("{found}."),
            Verdict::Same => format!(
                "The best config takes {}, the baseline {}: the difference is within {:.0} %.",
                human_ns(c.candidate_ns),
                human_ns(c.baseline_ns),
                c.margin * 100.0
            ),
            Verdict::Slower => format!(
                "The best config takes {}, the baseline {}: nothing that was tried beats it.",
                human_ns(c.candidate_ns),
                human_ns(c.baseline_ns)
            ),
            Verdict::Undecided => format!(
                "The best config takes {}, the baseline {}, and the noise does not let kiln say which is faster.",
                human_ns(c.candidate_ns),
                human_ns(c.baseline_ns)
            ),
        };
    }
    let best = match (study.best(), baseline) {
        (Some((trial, ns)), Some(baseline)) => format!(
            " The best so far is trial {} at {}, about {:.2}x the baseline's speed as the search saw it; nothing is confirmed.",
            trial.number,
            human_ns(ns),
            baseline / ns
        ),
        _ => String::new(),
    };
    match (study.finished, study.best()) {
        (false, _) => format!("{} trials so far.{best}", study.trials.len()),
        (true, None) => {
            "Not one config gave a right answer in time. The failures are below, by reason.".into()
        }
        (true, Some(_)) => {
            "Configs were measured, but no finalist survived the confirmation.".into()
        }
    }
}

fn numbers(page: &mut Markup, study: &Study) {
    page.raw("<dl class=\"numbers\">\n");
    let mut pair = |name: &'static str, value: String, details: Vec<String>| {
        page.raw("<div><dt>").raw(name).raw("</dt><dd>").text(value);
        for detail in details.iter().filter(|d| !d.is_empty()) {
            page.raw("<small>").text(detail).raw("</small>");
        }
        page.raw("</dd></div>\n");
    };
    let label = study.baseline.as_ref().map_or("", |b| b.label.as_str());
    let interval = |i: Interval| format!("{} to {}", human_ns(i.low), human_ns(i.high));
    match study.winner().map(|w| (w, &w.comparison)) {
        Some((winner, c)) => {
            let mut details = vec![interval(c.baseline_ci_95)];
            details.extend(rate_texts(study, c.baseline_ns));
            details.push(label.to_string());
            pair("baseline", human_ns(c.baseline_ns), details);
            let mut details = vec![interval(c.candidate_ci_95)];
            details.extend(rate_texts(study, c.candidate_ns));
            details.push(format!("trial {}", winner.trial));
            pair("winner", human_ns(c.candidate_ns), details);
        }
        None => {
            if let Some(ns) = study.baseline_ns() {
                let mut details = rate_texts(study, ns);
                details.push(format!("{label}, as the search saw it"));
                pair("baseline", human_ns(ns), details);
            }
            if let Some((trial, ns)) = study.best() {
                let mut details = rate_texts(study, ns);
                details.push(format!("trial {}, as the search saw it", trial.number));
                pair("best so far", human_ns(ns), details);
            }
        }
    }
    let measured = study.ranked().len();
    let mut details = vec![format!("{measured} measured")];
    details.extend(match study.trials.len() - measured {
        0 => None,
        failed => Some(format!("{failed} failed")),
    });
    details.extend(study.stop.map(|stop| stop.sentence().to_string()));
    pair("trials", group_digits(study.trials.len() as u128), details);
    if study.wall_ms > 0 && study.header.replayed_from.is_none() {
        let money = cost(study).map(|c| format!("cost {c:.2}"));
        let seconds = study.wall_ms as f64 / 1e3;
        pair("time", seconds_text(seconds), money.into_iter().collect());
    }
    page.raw("</dl>\n");
}

fn rate_texts(study: &Study, ns: f64) -> Vec<String> {
    let rates = rates(study, ns);
    let gflops = rates.gflops.map(|g| match g >= 1e4 {
        true => format!("{:.1} TFLOP/s", g / 1e3),
        false => format!("{g:.1} GFLOP/s"),
    });
    let bytes = rates.gigabytes_per_second.map(|g| format!("{g:.1} GB/s"));
    gflops.into_iter().chain(bytes).collect()
}

fn seconds_text(seconds: f64) -> String {
    match seconds {
        s if s < 120.0 => format!("{s:.0} s"),
        s if s < 7200.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}
