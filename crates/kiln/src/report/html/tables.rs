//! The sections of the page that are tables: fastest configs, shapes, rejections, environment, reproduction.

use std::collections::BTreeMap;

use kiln_core::study::Study;
use kiln_core::trial::Trial;
use kiln_core::units::human_ns;

use super::markup::{Align, Markup, cell, code, sentence};
use crate::report::effects::effects;
use crate::report::roofline::Roofline;
use crate::report::terminal::{config_text, group_digits, human_bytes};
use crate::report::{reproduce_command, speedup_over};
use crate::store::StudySummary;

use Align::{Left, Right};

const FASTEST_SHOWN: usize = 10;

pub fn roofline_sentence(roofline: &Roofline) -> String {
    let intensity = roofline.flops / roofline.bytes;
    let balance = roofline.peaks.flops_per_second / roofline.peaks.bytes_per_second;
    let is_fed = intensity < balance;
    let bound = match is_fed {
        true => "memory is what holds it back",
        false => "arithmetic is what holds it back",
    };
    let mut said = format!(
        "A launch has {} FLOP for every byte it must move: at its best, {bound}.",
        digits(intensity)
    );
    match roofline.floor {
        Some((_, "flops")) | None if is_fed => {
            said.push_str(" Here all of its data fits into the L2 cache, so memory sets no floor.");
        }
        _ => {}
    }
    if let (Some((floor, needed)), Some((name, ns))) = (roofline.floor, roofline.found()) {
        said.push_str(&format!(
            " No kernel can do its {needed} in less than {}; the {name} takes {} times that.",
            human_ns(floor),
            digits(ns / floor)
        ));
    }
    said
}

/// A plain number with about three digits.
fn digits(value: f64) -> String {
    match value {
        v if v >= 1000.0 => group_digits(v.round() as u128),
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

/// The fastest of the search, with the tunables that varied in columns of their own.
pub fn fastest(page: &mut Markup, study: &Study) {
    let ranked = study.ranked();
    if ranked.is_empty() {
        return;
    }
    page.raw("<section id=\"fastest\"><h2>Fastest in the search</h2>\n<p class=\"lead\">As the search measured them, before confirmation. Differences of a percent or two here are noise.</p>\n");
    let varying: Vec<usize> = {
        let mut places: Vec<usize> = effects(study, None).iter().map(|e| e.place).collect();
        places.sort_unstable();
        places
    };
    page.raw("<div class=\"wide\"><table><thead><tr><th class=\"number\">trial</th><th class=\"number\">time</th><th class=\"number\">speedup</th>");
    let names = study.trials.first().map(|t| &t.config);
    for place in &varying {
        let name = names
            .and_then(|c| c.get(*place))
            .map_or("", |(n, _)| n.as_str());
        page.raw("<th class=\"number\">").text(name).raw("</th>");
    }
    page.raw("<th>also</th></tr></thead><tbody>\n");
    let dropped: Vec<u64> = study
        .confirmation
        .iter()
        .flat_map(|c| &c.dropped)
        .map(|d| d.trial)
        .collect();
    let winner = study.winner().map(|w| w.trial);
    for (trial, ns) in ranked.into_iter().take(FASTEST_SHOWN) {
        page.raw(match winner == Some(trial.number) {
            true => "<tr class=\"winner\">",
            false => "<tr>",
        });
        page.raw("<td class=\"number\">")
            .text(trial.number)
            .raw("</td><td class=\"number\">")
            .text(human_ns(ns));
        let speedup = study
            .baseline_ns()
            .map_or(String::new(), |b| format!("{:.2}x", b / ns));
        page.raw("</td><td class=\"number\">")
            .text(speedup)
            .raw("</td>");
        for place in &varying {
            let value = trial.config.get(*place).map(|(_, v)| v.to_string());
            page.raw("<td class=\"number\">")
                .text(value.unwrap_or_default())
                .raw("</td>");
        }
        let mark = match (
            winner == Some(trial.number),
            dropped.contains(&trial.number),
        ) {
            (true, _) => "the winner",
            (_, true) => "failed confirmation",
            _ => "",
        };
        page.raw("<td>").raw(mark);
        if let Some(made) = compiled(trial) {
            page.raw(if mark.is_empty() { "" } else { ", " }).text(made);
        }
        page.raw("</td></tr>\n");
    }
    page.raw("</tbody></table></div>\n");
    let fixed: Vec<String> = names
        .into_iter()
        .flatten()
        .enumerate()
        .filter(|(place, _)| !varying.contains(place))
        .map(|(_, (name, value))| format!("{name}={value}"))
        .collect();
    if !fixed.is_empty() {
        page.raw("<p class=\"fine\">The same in every trial: <code>")
            .text(fixed.join(" "))
            .raw("</code></p>\n");
    }
    if !study.also.is_empty() {
        beside(page, study);
    }
    page.raw("</section>\n");
}

fn compiled(trial: &Trial) -> Option<String> {
    let facts = trial.compile.as_ref()?;
    let resources = facts.resources?;
    let occupancy = facts
        .occupancy
        .map_or(String::new(), |o| format!(", occupancy {:.0} %", 100.0 * o));
    let spilled = match resources.spill_store_bytes {
        0 => String::new(),
        bytes => format!(", {bytes} bytes spilled"),
    };
    Some(format!(
        "{} registers{spilled}{occupancy}",
        resources.registers
    ))
}

/// Other implementations, measured once: good for orientation, not judged.
fn beside(page: &mut Markup, study: &Study) {
    page.raw("<h3>Other implementations</h3>\n<p class=\"lead\">Measured once, for orientation; not judged.</p>\n");
    let rows = study.also.iter().map(|also| {
        let against = study.winner().and_then(|w| speedup_over(also, w));
        vec![
            cell(&also.label),
            cell(
                also.outcome
                    .median_ns()
                    .map_or_else(|| also.outcome.to_string(), human_ns),
            ),
            cell(against.map_or(String::new(), |ratio| format!("{ratio:.2}x"))),
        ]
    });
    page.table(
        &[
            ("implementation", Left),
            ("time", Right),
            ("the winner is", Right),
        ],
        rows,
    );
}

/// The target, the shapes the winner was checked on, and what other studies found on theirs.
pub fn shapes(page: &mut Markup, study: &Study, others: &[StudySummary]) {
    page.raw("<section id=\"shapes\"><h2>Shapes</h2>\n");
    let header = &study.header;
    let judged = |c: Option<&kiln_core::verdict::Comparison>| match c {
        Some(c) => [
            format!("{:.2}x", c.speedup),
            format!("{:.2} to {:.2}", c.speedup_ci_95.low, c.speedup_ci_95.high),
            c.verdict.name().to_string(),
        ],
        None => [String::new(), String::new(), "not judged".into()],
    };
    let [speedup, interval, verdict] = judged(study.winner().map(|w| &w.comparison));
    let mut rows = vec![vec![
        cell(&header.shape),
        sizes(&header.dimensions),
        cell(speedup),
        cell(interval),
        cell(format!("{verdict}: the target of this study")),
    ]];
    for other in latest_of_other_shapes(study, others) {
        let [speedup, interval, verdict] = judged(other.winner.as_ref());
        rows.push(vec![
            cell(&other.header.shape),
            sizes(&other.header.dimensions),
            cell(speedup),
            cell(interval),
            cell(format!(
                "{verdict}: study {}, with a config of its own",
                other.id
            )),
        ]);
    }
    let winner = study.winner();
    let trial = winner.and_then(|w| study.trials.iter().find(|t| t.number == w.trial));
    if let (Some(trial), Ok(manifest)) = (trial, study.own_manifest()) {
        for shape in manifest.shapes.iter().filter(|s| s.name != header.shape) {
            let said = match trial.skipped_shapes.contains(&shape.name) {
                true => "not checked: a constraint does not hold there",
                false => "the winner's answer is right; not timed",
            };
            rows.push(vec![
                cell(&shape.name),
                sizes(&shape.dimensions),
                cell(""),
                cell(""),
                cell(said),
            ]);
        }
    }
    page.table(
        &[
            ("shape", Left),
            ("sizes", Left),
            ("speedup", Right),
            ("95 % interval", Right),
            ("what is known", Left),
        ],
        rows,
    );
    made_up(page, study);
    page.raw("</section>\n");
}

/// Shapes nobody wrote down, on which the winner was right.
fn made_up(page: &mut Markup, study: &Study) {
    let acceptance = study.winner().and_then(|w| w.acceptance.as_ref());
    let unseen = acceptance.map_or(&[][..], |a| a.unseen.as_slice());
    let worst = unseen.iter().map(|u| u.error_ratio).fold(0.0, f64::max);
    if unseen.is_empty() {
        return;
    }
    page.raw("<details><summary>The winner is also right on ")
        .text(unseen.len())
        .raw(" shapes that kiln made up; the worst error is ")
        .text(format!("{:.0}", 100.0 * worst))
        .raw(" % of what is allowed</summary>\n");
    let rows = unseen.iter().map(|unseen| {
        vec![
            sizes(&unseen.dimensions),
            cell(format!("{:.0} %", 100.0 * unseen.error_ratio)),
        ]
    });
    page.table(&[("sizes", Left), ("of the allowed error", Right)], rows);
    page.raw("</details>\n");
}

/// The newest study of each other shape of the same manifest on the same device.
fn latest_of_other_shapes<'a>(study: &Study, others: &'a [StudySummary]) -> Vec<&'a StudySummary> {
    let mut latest: BTreeMap<&str, &StudySummary> = BTreeMap::new();
    for other in others {
        let header = &other.header;
        let same = header.kernel == study.header.kernel
            && header.manifest == study.header.manifest
            && header.device.name == study.header.device.name;
        if same && other.id != study.id && header.shape != study.header.shape {
            latest.insert(&header.shape, other);
        }
    }
    latest.into_values().collect()
}

pub fn rejected(page: &mut Markup, study: &Study) {
    page.raw("<section id=\"rejected\"><h2>Rejected</h2>\n");
    let space = &study.header.space;
    let before = &space.removed;
    let failed: Vec<&Trial> = study
        .trials
        .iter()
        .filter(|t| t.outcome.measurement().is_none())
        .collect();
    if before.is_empty() && failed.is_empty() {
        page.raw("<p>Nothing: every config is valid, and every trial was measured.</p>\n");
    }
    let count = |text: &str| text.parse().map_or_else(|_| text.to_string(), group_digits);
    page.raw("<p class=\"lead\">")
        .text(match &space.valid {
            Some(valid) => format!(
                "{} of {} configs are valid",
                count(valid),
                count(&space.cartesian)
            ),
            None => format!(
                "{} configs, too many to count the valid ones",
                count(&space.cartesian)
            ),
        })
        .raw("; ")
        .text(group_digits(study.trials.len() as u128))
        .raw(" were tried.</p>\n");
    if !before.is_empty() {
        let least = if space.valid.is_none() {
            "at least "
        } else {
            ""
        };
        let rows = before.iter().map(|removed| {
            let (what, name) = removed
                .rule
                .split_once(':')
                .unwrap_or(("rule", &removed.rule));
            vec![
                cell(format!(
                    "{least}{}",
                    group_digits(u128::from(removed.count))
                )),
                sentence(what),
                code(name),
            ]
        });
        page.raw("<h3>Before compiling</h3>\n");
        page.table(&[("configs", Right), ("by", Left), ("name", Left)], rows);
    }
    if !failed.is_empty() {
        let mut reasons: BTreeMap<&str, (usize, &Trial)> = BTreeMap::new();
        for trial in failed {
            reasons
                .entry(trial.outcome.reason())
                .or_insert((0, trial))
                .0 += 1;
        }
        let mut reasons: Vec<_> = reasons.into_iter().collect();
        reasons.sort_by_key(|(_, (count, _))| std::cmp::Reverse(*count));
        let rows = reasons.into_iter().map(|(reason, (count, first))| {
            let mut example = Markup::new();
            example
                .raw("trial ")
                .text(first.number)
                .raw(": ")
                .prose(&shortened(&first.outcome.to_string()))
                .raw("<br><code>")
                .text(config_text(&first.config))
                .raw("</code>");
            vec![
                cell(group_digits(count as u128)),
                cell(reason.replace('_', " ")),
                example,
            ]
        });
        page.raw("<h3>Trials that failed</h3>\n");
        page.table(
            &[
                ("trials", Right),
                ("reason", Left),
                ("the first of them", Left),
            ],
            rows,
        );
    }
    page.raw("</section>\n");
}

/// Sizes of a shape, in one line.
fn sizes(dimensions: &[(String, i64)]) -> Markup {
    let sizes: Vec<String> = dimensions.iter().map(|(n, v)| format!("{n}={v}")).collect();
    let mut markup = Markup::new();
    markup
        .raw("<span class=\"nowrap\">")
        .text(sizes.join(" "))
        .raw("</span>");
    markup
}

fn shortened(text: &str) -> String {
    const MOST: usize = 400;
    match text.char_indices().nth(MOST) {
        None => text.to_string(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

pub fn environment(page: &mut Markup, study: &Study) {
    let header = &study.header;
    let device = &header.device;
    let mut rows: Vec<(String, String)> = vec![
        ("device".into(), device.name.clone()),
        (
            match device.cuda {
                Some(_) => "multiprocessors".into(),
                None => "cores".into(),
            },
            device.cores.to_string(),
        ),
        ("memory".into(), human_bytes(device.memory_bytes)),
    ];
    if let Some(gpu) = &device.cuda {
        rows.push((
            "clock".into(),
            format!("{} MHz at the most", gpu.clock_khz / 1000),
        ));
        rows.push(("L2 cache".into(), human_bytes(gpu.l2_bytes)));
    }
    rows.extend(
        device
            .environment
            .iter()
            .map(|(n, v)| (n.replace('_', " "), v.clone())),
    );
    rows.push(("compiler".into(), header.identity.compiler.clone()));
    if let Some(sandbox) = &header.sandbox {
        let said = sandbox
            .caution()
            .unwrap_or_else(|| "kernels and compilers ran behind walls that were tried".into());
        rows.push(("sandbox".into(), said));
    }
    page.raw("<section id=\"environment\"><h2>Environment</h2>\n<dl class=\"facts\">\n");
    for (name, value) in rows {
        page.raw("<div><dt>")
            .text(name)
            .raw("</dt><dd>")
            .text(value)
            .raw("</dd></div>\n");
    }
    page.raw("</dl></section>\n");
}

pub fn reproduce(page: &mut Markup, study: &Study, place: &str) {
    let header = &study.header;
    page.raw("<section id=\"reproduce\"><h2>Do it again</h2>\n<p class=\"lead\">The same seed and measurements give the same trials; other measurements lead a search elsewhere. In the folder of the project:</p>\n<pre class=\"copy\" tabindex=\"0\"><code>")
        .text(reproduce_command(study))
        .raw("</code></pre>\n<dl class=\"facts\">\n");
    let mut rows = vec![
        ("kiln", header.kiln_version.clone()),
        ("seed", header.seed.to_string()),
        ("strategy", header.strategy.clone()),
        (
            "manifest",
            format!("{} (hash {})", header.manifest, header.identity.manifest),
        ),
        ("sources", format!("hash {}", header.identity.sources)),
    ];
    if let Some(earlier) = &header.earlier {
        rows.push((
            "began with",
            format!(
                "what {} found ({} trials)",
                earlier.from,
                earlier.trials.len()
            ),
        ));
    }
    if header.compilers.is_some() {
        let said = "the search weighed gain against time (--minutes)";
        rows.push(("budget", said.to_string()));
    }
    if study.resumed > 0 {
        rows.push(("resumed", format!("{} times", study.resumed)));
    }
    rows.push(("kept in", place.to_string()));
    for (name, value) in rows {
        page.raw("<div><dt>")
            .raw(name)
            .raw("</dt><dd>")
            .text(value)
            .raw("</dd></div>\n");
    }
    page.raw("</dl></section>\n");
}
