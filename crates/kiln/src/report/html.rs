//! A study as one HTML file that needs nothing else: no network, no fonts, no images, one script whose hash
//! the page's own policy names.
//!
//! Words and tables are written here and read without a script; plots are drawn by `script/*.js` from the
//! document of `data`, at the width of the screen that shows them.

mod answer;
mod binds;
mod data;
mod markup;
mod tables;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use kiln_core::diagnostic::printable;
use kiln_core::effects::{Effects, Finding, Observations};
use kiln_core::failure_rules::Failures;
use kiln_core::study::Study;
use sha2::{Digest, Sha256};

use crate::report::roofline;
use crate::report::terminal::date;
use crate::store::StudySummary;
use markup::Markup;

const STYLE: &str = include_str!("html/page.css");

/// One program; in several files for the reader of the source.
const SCRIPT: &str = concat!(
    "\"use strict\";\n(() => {\n",
    include_str!("html/script/draw.js"),
    include_str!("html/script/pick.js"),
    include_str!("html/script/interval.js"),
    include_str!("html/script/search.js"),
    include_str!("html/script/parallel.js"),
    include_str!("html/script/effects.js"),
    include_str!("html/script/samples.js"),
    include_str!("html/script/roofline.js"),
    include_str!("html/script/page.js"),
    "})();\n"
);

/// What a report is made of beside the study.
pub struct Context<'a> {
    /// Where the study is kept, for people.
    pub place: &'a str,
    /// Studies of the same project, for what is known about other shapes.
    pub others: &'a [StudySummary],
    pub view: View,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// A file: what is known when it is written.
    File,
    /// Served while the study runs: asks for itself again.
    Live,
}

pub fn page(study: &Study, context: &Context) -> String {
    let mut page = head(&study.header.kernel, context.view);
    page.raw("<main>\n");
    title(&mut page, study);
    answer::section(&mut page, study);
    search(&mut page, study);
    // A page that is asked for every second cannot wait for it.
    let model = (context.view == View::File).then(|| Effects::of(&Observations::of_study(study)));
    if study.trials.len() > 1 {
        effects(&mut page, study, model.as_ref());
    }
    confirmation(&mut page, study);
    roofline(&mut page, study);
    tables::fastest(&mut page, study);
    tables::shapes(&mut page, study, context.others);
    tables::rejected(&mut page, study);
    tables::environment(&mut page, study);
    tables::reproduce(&mut page, study, context.place);
    page.json("data", &data::document(study, model.as_ref()));
    page.raw("</main>\n");
    foot(&mut page);
    page.finish()
}

/// A live page before there is a study to show.
pub fn waiting(kernel: &str) -> String {
    let mut page = head(kernel, View::Live);
    page.raw("<main>\n<header><p class=\"kicker\">kiln</p><h1>")
        .text(kernel)
        .raw("</h1><p class=\"where\">Compiling, checking and timing the baseline. The search begins after that.</p></header>\n</main>\n");
    foot(&mut page);
    page.finish()
}

/// What may be loaded and run: this style and this script, and for a live page the page itself again.
pub fn policy(view: View) -> String {
    let hash = |text: &str| BASE64_STANDARD.encode(Sha256::digest(text.as_bytes()));
    let connect = match view {
        View::File => "'none'",
        View::Live => "'self'",
    };
    format!(
        "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; connect-src {connect}; base-uri 'none'; form-action 'none'",
        hash(SCRIPT),
        hash(STYLE)
    )
}

fn head(kernel: &str, view: View) -> Markup {
    let mut page = Markup::new();
    page.raw("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n")
        .raw("<meta http-equiv=\"Content-Security-Policy\" content=\"")
        .text(policy(view))
        .raw("\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n")
        .raw("<meta name=\"referrer\" content=\"no-referrer\">\n<meta name=\"color-scheme\" content=\"light dark\">\n<title>")
        .text(kernel)
        .raw(" - kiln report</title>\n<style>")
        .raw(STYLE)
        .raw("</style>\n</head>\n")
        .raw(match view {
            View::File => "<body>\n",
            View::Live => "<body data-live=\"yes\">\n",
        });
    page
}

fn foot(page: &mut Markup) {
    page.raw("<footer><p>Written by kiln ")
        .text(env!("CARGO_PKG_VERSION"))
        .raw(". Times are medians; intervals hold 95 % of the uncertainty. How to read this: docs/report.md of kiln.</p></footer>\n")
        .raw("<div id=\"tip\" role=\"status\" aria-live=\"polite\" hidden></div>\n<script>")
        .raw(SCRIPT)
        .raw("</script>\n</body>\n</html>\n");
}

fn title(page: &mut Markup, study: &Study) {
    let header = &study.header;
    let dimensions = header.dimensions.iter();
    let dimensions: Vec<String> = dimensions.map(|(n, v)| format!("{n}={v}")).collect();
    page.raw("<header><p class=\"kicker\">kiln report");
    if study.id > 0 {
        page.raw(" · study ").text(study.id);
    }
    page.raw(" · ")
        .text(date(header.created_unix_ms))
        .raw(" UTC</p>\n<h1>")
        .text(&header.kernel)
        .raw("</h1>\n<p class=\"where\">on <b>")
        .text(&header.device.name)
        .raw("</b>, shape <b>")
        .text(&header.shape)
        .raw("</b> <span>")
        .text(dimensions.join(" "))
        .raw("</span></p></header>\n");
}

fn search(page: &mut Markup, study: &Study) {
    page.raw("<section id=\"search\"><h2>The search</h2>\n");
    if study.trials.is_empty() {
        page.raw("<p>No trial has ended yet.</p></section>\n");
        return;
    }
    page.raw("<p class=\"lead\">Every trial is a mark: how long its config took, or in the lanes above how it failed. The line is the best so far. Lower is faster.</p>\n");
    if data::has_times(study) {
        page.raw("<div class=\"switch\" role=\"radiogroup\" aria-label=\"Horizontal axis\"><label><input type=\"radio\" name=\"axis\" value=\"trial\" checked> by trial</label><label><input type=\"radio\" name=\"axis\" value=\"time\"> by time</label></div>\n");
    }
    plot(
        page,
        "plot-search",
        "Time of every trial in the order of the search",
    );
    page.raw("</section>\n");
}

fn effects(page: &mut Markup, study: &Study, model: Option<&Effects>) {
    page.raw("<section id=\"effects\"><h2>What mattered</h2>\n");
    if let Some(model) = model {
        sentences(page, study, model);
    }
    if study.best().is_none() {
        page.raw("<p>No config was measured, so nothing can be said about times.</p></section>\n");
        return;
    }
    page.raw("<p class=\"lead\">One panel per tunable, the most telling first: each dot is a trial, each bar the median of the trials with that value, which are counted below it (✕ counts those that failed). The value of the winner is bold. The search tries good values more often, so dots show what was tried; what a tunable explains, alone and with others, is estimated with that in mind (docs/explain.md of kiln).</p>\n");
    plot(page, "plot-effects", "Time by value of each tunable");
    page.raw("<h3>Whole configs</h3>\n<p class=\"lead\">Each line is a config, from tunable to tunable and to its time at the right. The strongest lines are the fastest configs, the heavy one is the best; failed ones are left out.</p>\n");
    plot(page, "plot-parallel", "Configs as lines over all tunables");
    page.raw("</section>\n");
}

/// What the model says of each tunable and of pairs, and which values make configs fail.
fn sentences(page: &mut Markup, study: &Study, model: &Effects) {
    let rules = Failures::of_study(study).headlines();
    let varied = model.tunables.iter();
    let varied = varied.filter(|t| t.finding != Finding::NeverVaried && model.silent.is_none());
    let said = varied.map(|t| &t.sentence);
    let said: Vec<&String> = said
        .chain(model.pairs.iter().map(|p| &p.sentence))
        .collect();
    let all = || rules.iter().chain(said.iter().copied());
    if let Some(why) = &model.silent {
        page.raw("<p class=\"fine\">").prose(why).raw("</p>\n");
    }
    if all().next().is_none() {
        return;
    }
    page.raw("<ul id=\"learnt\">\n");
    for sentence in all() {
        page.raw("<li>").prose(&printable(sentence)).raw("</li>\n");
    }
    page.raw("</ul>\n");
}

fn confirmation(page: &mut Markup, study: &Study) {
    page.raw("<section id=\"samples\"><h2>The confirmation</h2>\n");
    match study.winner() {
        None if !study.finished => {
            page.raw("<p>Not yet: finalists meet the baseline when the search is over.</p>\n");
        }
        None => {
            page.raw("<p>No config came that far.</p>\n");
        }
        Some(winner) => {
            page.raw("<p class=\"lead\">Every sample of winner and baseline, one row per round of fresh processes. The line is the median, the band its 95 % interval.</p>\n");
            plot(page, "plot-samples", "Samples of baseline and winner");
            let c = &winner.comparison;
            page.raw("<p class=\"fine\">")
                .text(&c.sentence)
                .raw("; Mann-Whitney p = ")
                .text(format!("{:.2e}", c.p_value))
                .raw(", Cliff's delta ")
                .text(format!("{:.2}", c.cliffs_delta))
                .raw(".</p>\n");
        }
    }
    page.raw("</section>\n");
}

fn roofline(page: &mut Markup, study: &Study) {
    page.raw("<section id=\"roofline\"><h2>Against the device</h2>\n");
    match roofline::of(study) {
        Err(missing) => {
            page.raw("<p>").prose(&missing.0).raw("</p>\n");
        }
        Ok(roofline) => {
            page.raw("<p class=\"lead\">")
                .prose(&tables::roofline_sentence(&roofline))
                .raw("</p>\n");
            plot(page, "plot-roofline", "Roofline: rate over intensity");
        }
    }
    binds::section(page, study);
    page.raw("</section>\n");
}

fn plot(page: &mut Markup, id: &'static str, label: &'static str) {
    page.raw("<figure id=\"")
        .raw(id)
        .raw("\" class=\"plot\" data-label=\"")
        .raw(label)
        .raw("\"><noscript>This plot needs the page's script.</noscript></figure>\n");
}
