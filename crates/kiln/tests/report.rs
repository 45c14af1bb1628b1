//! Reports of real studies, opened in a real browser: nothing is loaded, nothing fails, everything is drawn,
//! and what a study says about itself stays text. Pictures of all pages are kept (`common::browser::screenshots`).
#![allow(clippy::unwrap_used)]

mod common;

use std::path::Path;
use std::time::{Duration, Instant};

use common::browser::{Browser, Scheme};
use common::medians::medians_are_those_of_the_trials;
use common::recordings::{FAULTS, five_thousand, unpacked};
use common::{Project, repository, text};
use serde_json::{Value, json};

const ANCHOR: &str = "crates/kiln/tests/recordings/h200_anchor.kiln.json.gz";

/// Writes a report and returns its address.
fn report(project: &Project, study: &str, name: &str) -> String {
    let out = format!("{name}.html");
    let output = project.run(&["report", study, "--out", &out]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), format!("{out}\n"));
    format!("file://{}", project.root.join(out).display())
}

/// A recording made by changing one that was measured.
fn recording(project: &Project, name: &str, value: &Value) -> String {
    let file = format!("{name}.kiln.json");
    project.write(&file, &value.to_string());
    file
}

/// What holds for every page in every window: quiet, alone, no wider than the window, in its colours.
fn is_sound(browser: &mut Browser, url: &str, width: u32, scheme: Scheme, name: &str) {
    browser.open(url, width, scheme);
    assert!(
        browser.eval("document.documentElement.dataset.drawn !== undefined") == json!(true),
        "{name}"
    );
    let wide = browser.eval("[document.documentElement.scrollWidth, innerWidth]");
    assert_eq!(wide, json!([width, width]), "{name} scrolls sideways");
    let brightness = |element: &str, property: &str| {
        format!(
            "(() => {{ const [r, g, b] = getComputedStyle({element}).{property}.match(/[0-9.]+/g).map(Number); \
             return (r + g + b) / 765; }})()"
        )
    };
    let paper = browser
        .eval(&brightness("document.body", "backgroundColor"))
        .as_f64()
        .unwrap();
    let ink = browser
        .eval(&brightness("document.body", "color"))
        .as_f64()
        .unwrap();
    match scheme {
        Scheme::Light => assert!(paper > 0.9 && ink < 0.2, "{name}: {ink} on {paper}"),
        Scheme::Dark => assert!(paper < 0.2 && ink > 0.8, "{name}: {ink} on {paper}"),
    }
    assert_eq!(browser.problems(), Vec::<Value>::new(), "{name}");
    assert_eq!(browser.requests(), [url.to_string()], "{name}");
    browser.screenshot(&format!("{name}-{width}-{}.png", scheme.name()));
}

fn is_sound_everywhere(browser: &mut Browser, url: &str, name: &str) {
    is_sound(browser, url, 390, Scheme::Light, name);
    is_sound(browser, url, 390, Scheme::Dark, name);
    is_sound(browser, url, 1100, Scheme::Dark, name);
    is_sound(browser, url, 1100, Scheme::Light, name);
}

/// Every plot shows all that the study has.
fn all_is_drawn(browser: &mut Browser, trials: &[Value], varying: usize) {
    let measured = trials
        .iter()
        .filter(|t| t["outcome"]["kind"] == "measured")
        .count();
    let count = |browser: &mut Browser, figure: &str, what: &str| -> u64 {
        let sum = format!(
            "[...document.querySelectorAll('#{figure} {what}')].reduce((n, e) => n + Number(e.dataset.count || 1), 0)"
        );
        browser.eval(&sum).as_u64().unwrap()
    };
    assert_eq!(
        count(browser, "plot-search", ".mark[data-count]"),
        trials.len() as u64
    );
    assert_eq!(count(browser, "plot-search", ".best"), 1);
    assert_eq!(count(browser, "plot-effects", ".panel"), varying as u64);
    let lines = "[...document.querySelectorAll('#plot-parallel [class*=group-]')]\
                 .reduce((n, e) => n + e.getAttribute('d').split('M').length - 1, 0)";
    assert_eq!(browser.eval(lines), json!(measured));
    // Everything drawn has a size.
    let empty = browser.eval(
        "[...document.querySelectorAll('.plot')].filter((f) => { const s = f.querySelector('svg'); \
         return !s || s.getBoundingClientRect().height < 40 || s.getBBox().width < 100; }).map((f) => f.id)",
    );
    assert_eq!(empty, json!([]));
}

/// Where the first measured trial is drawn, in the window.
fn first_mark(browser: &mut Browser) -> (f64, f64) {
    browser.eval("document.getElementById('plot-search').scrollIntoView()");
    browser.painted();
    let at = browser.eval(
        "(() => { const f = document.getElementById('plot-search'); \
         const [, x, y] = f.querySelector('.kind-0[data-count]').getAttribute('d').match(/M([0-9.]+) ([0-9.]+)/); \
         const box = f.querySelector('svg').getBoundingClientRect(); return [box.left + Number(x), box.top + Number(y)]; })()",
    );
    (at[0].as_f64().unwrap(), at[1].as_f64().unwrap())
}

/// What is shown about the trial that was picked: its number and every tunable that varied, with its value.
fn tip_tells_the_config(browser: &mut Browser, trials: &[Value], how: &str) -> u64 {
    browser.wait_for("!document.getElementById('tip').hidden");
    let said = browser.eval("document.getElementById('tip').innerText");
    let said = said.as_str().unwrap();
    let number: u64 = said.split_whitespace().nth(1).unwrap().parse().unwrap();
    let trial = trials.iter().find(|t| t["number"] == number).unwrap();
    let rows = browser.eval("[...document.querySelectorAll('#tip dl div')].map((d) => [...d.children].map((c) => c.textContent))");
    let rows = rows.as_array().unwrap();
    assert!(!rows.is_empty(), "{how}: {said}");
    for row in rows {
        let config = trial["config"].as_array().unwrap();
        let (_, value) = config
            .iter()
            .map(|pair| (pair[0].as_str().unwrap(), &pair[1]))
            .find(|(name, _)| row[0] == *name)
            .unwrap_or_else(|| panic!("{how}: {row} in {config:?}"));
        let value = value
            .as_str()
            .map_or_else(|| value.to_string(), String::from);
        assert_eq!(row[1], json!(value), "{how}: {row}");
    }
    number
}

fn is_explored(browser: &mut Browser, url: &str, trials: &[Value]) {
    browser.open(url, 1100, Scheme::Light);
    let (x, y) = first_mark(browser);
    browser.hover(x, y);
    tip_tells_the_config(browser, trials, "pointer");
    browser.hover(2.0, 2.0);
    browser.wait_for("document.getElementById('tip').hidden");
    // With keys alone: into the plot, to the last trial, one back.
    browser.eval("document.querySelector('#plot-search svg').focus()");
    browser.key("End");
    let last = tip_tells_the_config(browser, trials, "End");
    assert_eq!(json!(last), trials.last().unwrap()["number"]);
    browser.key("ArrowLeft");
    assert_eq!(tip_tells_the_config(browser, trials, "ArrowLeft"), last - 1);
    browser.key("Escape");
    browser.wait_for("document.getElementById('tip').hidden");
    // With a finger.
    browser.open(url, 390, Scheme::Light);
    let (x, y) = first_mark(browser);
    browser.touch(x, y);
    tip_tells_the_config(browser, trials, "finger");
    assert_eq!(browser.problems(), Vec::<Value>::new());
}

#[test]
fn a_study_tuned_here_is_shown_whole() {
    let project = Project::with_quick_kernel();
    project.replace("kiln.toml", "trials = 6", "trials = 12");
    let document = project.json(&["tune", "--seed", "2", "--json"], &[0, 1, 4]);
    let shown = project.json(&["studies", "show", "--trials", "--json"], &[0]);
    let trials = shown["trial_list"].as_array().unwrap();
    let url = report(&project, "1", "tuned");
    let page = std::fs::read_to_string(project.root.join("tuned.html")).unwrap();
    let speedup = format!("{:.2}", document["speedup"].as_f64().unwrap());
    assert!(
        page.contains(&format!("<span class=\"big\">{speedup}<small>")),
        "{page}"
    );
    for part in [
        "kiln tune kiln.toml --shape target --strategy auto --seed 2",
        "keep_needs_prefetch",
        "95 % interval",
    ] {
        assert!(page.contains(part), "{part}");
    }
    let Some(mut browser) = Browser::start() else {
        return;
    };
    is_sound_everywhere(&mut browser, &url, "tuned");
    let varying =
        browser.eval("JSON.parse(document.getElementById('data').textContent).tunables.length");
    all_is_drawn(&mut browser, trials, varying.as_u64().unwrap() as usize);
    let samples = browser.eval("[...document.querySelectorAll('#plot-samples .sample')].reduce((n, e) => n + Number(e.dataset.count), 0)");
    let taken = document["samples"]["baseline"].as_u64().unwrap()
        + document["samples"]["winner"].as_u64().unwrap();
    assert_eq!(samples, json!(taken));
    // On a CPU nobody knows the ceilings, and the page says so.
    let said = browser.eval("document.getElementById('roofline').innerText");
    assert!(said.as_str().unwrap().contains("No roofline"), "{said}");
    // By time instead of by trial: drawn again.
    browser.eval("document.querySelector('input[value=time]').click()");
    let label = browser.eval("document.querySelector('#plot-search .label').textContent");
    assert_eq!(label, json!("time since the study began"));
    let data = browser.eval("JSON.parse(document.getElementById('data').textContent)");
    medians_are_those_of_the_trials(&data, trials);
    is_explored(&mut browser, &url, trials);
    browser.open(&url, 1100, Scheme::Dark);
    browser.print("tuned.pdf");
    assert_eq!(browser.problems(), Vec::<Value>::new());
}

#[test]
fn recordings_of_a_gpu_are_shown_whole() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let project = Project::new();
    for (name, file, varying) in [("anchor", ANCHOR, 6), ("faults", FAULTS, 1)] {
        let url = report(
            &project,
            &repository().join(file).display().to_string(),
            name,
        );
        let recorded = unpacked(file);
        let names: Vec<&Value> = recorded["tunables"]
            .as_array()
            .unwrap()
            .iter()
            .map(|t| &t["name"])
            .collect();
        let mut trials = recorded["trials"].as_array().unwrap().clone();
        for trial in &mut trials {
            let values = trial["config"].as_array().unwrap().clone();
            let pairs = names
                .iter()
                .zip(values)
                .map(|(name, value)| json!([name, value]));
            trial["config"] = pairs.collect();
        }
        is_sound_everywhere(&mut browser, &url, name);
        all_is_drawn(&mut browser, &trials, varying);
        is_explored(&mut browser, &url, &trials);
        let points = browser.eval("[...document.querySelectorAll('#plot-roofline .strong')].map((e) => e.textContent.split(' ')[0])");
        // The data of `faults` fits into the L2 cache, but its arithmetic has a floor too.
        assert_eq!(points, json!(["baseline", "winner", "floor"]), "{name}");
    }
}

/// Studies that did not go as one would wish are told as what they are.
#[test]
fn honest_about_what_is_not_there() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let project = Project::new();
    let of = |change: &dyn Fn(&mut Value)| {
        let mut recorded = unpacked(FAULTS);
        change(&mut recorded);
        recorded
    };
    let keep = |recorded: &mut Value, wanted: &dyn Fn(&Value) -> bool| {
        let trials = recorded["trials"].as_array_mut().unwrap();
        trials.retain(|t| wanted(t));
        for (index, trial) in trials.iter_mut().enumerate() {
            trial["number"] = json!(index + 1);
        }
    };
    let cases = [
        (
            "unfinished",
            "NOT FINISHED",
            of(&|r| {
                r["finished"] = json!(false);
                r["confirmation"] = Value::Null;
            }),
        ),
        (
            "begun",
            "NOT FINISHED",
            of(&|r| {
                r["finished"] = json!(false);
                r["confirmation"] = Value::Null;
                r["trials"] = json!([]);
            }),
        ),
        (
            "all-failed",
            "NO WINNER",
            of(&|r| {
                r["confirmation"] = json!({"playoff": [], "dropped": [], "winner": null});
                keep(r, &|t| t["outcome"]["kind"] != "measured");
            }),
        ),
        (
            "none-survived",
            "NO WINNER",
            of(&|r| {
                let outcome = r["trials"][7]["outcome"].clone();
                r["confirmation"] = json!({"playoff": [], "dropped": [{"trial": 1, "outcome": outcome}], "winner": null});
            }),
        ),
        (
            "one-trial",
            "SAME",
            of(&|r| {
                keep(r, &|t| t["number"] == 1);
                r["confirmation"]["playoff"]
                    .as_array_mut()
                    .unwrap()
                    .truncate(1);
            }),
        ),
        (
            "no-work",
            "SAME",
            of(&|r| {
                let manifest = r["manifest"].as_str().unwrap();
                r["manifest"] =
                    json!(manifest.replace("[work]\nflops = \"N\"\nbytes = \"3 * N * 4\"\n", ""));
            }),
        ),
    ];
    for (name, word, recorded) in &cases {
        let file = recording(&project, name, recorded);
        let url = report(&project, &file, name);
        is_sound(&mut browser, &url, 390, Scheme::Light, name);
        is_sound(&mut browser, &url, 1100, Scheme::Light, name);
        let said = browser.eval("document.querySelector('.verdict').textContent");
        assert!(said.as_str().unwrap().contains(word), "{name}: {said}");
    }
}

/// A file can claim anything; the verdict comes from its samples.
#[test]
fn a_recording_is_judged_by_its_samples() {
    let project = Project::new();
    let mut recorded = unpacked(FAULTS);
    let comparison = &mut recorded["confirmation"]["winner"]["comparison"];
    comparison["verdict"] = json!("FASTER");
    comparison["speedup"] = json!(99.0);
    comparison["speedup_ci_95"] = json!([98.0, 99.5]);
    comparison["sentence"] = json!("99 times as fast");
    let file = recording(&project, "forged", &recorded);
    let found = project.json(&["report", &file, "--format", "json"], &[0]);
    assert_eq!(found["verdict"], "SAME", "{found:#}");
    assert_eq!(found["success"], false);
    let output = project
        .command(&["report", &file, "--format", "md"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        text.contains("SAME 1.00x") && !text.contains("99 times"),
        "{text}"
    );
}

#[test]
fn what_a_study_says_stays_text() {
    let project = Project::new();
    let evil = "</script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">'\u{202e}\u{1b}[2J";
    let mut recorded = unpacked(FAULTS);
    recorded["device"]["name"] = json!(evil);
    recorded["device"]["environment"][0] = json!([evil, evil]);
    recorded["compiler"] = json!(evil);
    recorded["baseline"]["label"] = json!(evil);
    for trial in recorded["trials"].as_array_mut().unwrap() {
        if trial["outcome"]["kind"] == "crashed" {
            trial["outcome"] = json!({"kind": "not_compiled", "first_error": evil, "log": evil});
        }
    }
    recorded["confirmation"]["winner"]["comparison"]["sentence"] = json!(evil);
    let file = recording(&project, "evil", &recorded);
    for format in ["md", "csv"] {
        let output = project.run(&["report", &file, "--format", format]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let said = text(&output.stdout);
        assert!(
            !said.contains('\u{1b}') && !said.contains('\u{202e}'),
            "{said}"
        );
        assert!(format == "csv" || !said.contains("<img"), "{said}");
    }
    let url = report(&project, &file, "evil");
    let page = std::fs::read_to_string(project.root.join("evil.html")).unwrap();
    assert!(!page.contains('\u{1b}') && !page.contains('\u{202e}'));
    let Some(mut browser) = Browser::start() else {
        return;
    };
    is_sound(&mut browser, &url, 390, Scheme::Light, "evil");
    let (x, y) = first_mark(&mut browser);
    browser.touch(x, y);
    browser.eval("document.querySelector('#plot-search svg').focus()");
    browser.key("End");
    browser.key("Home");
    browser.key("ArrowRight");
    browser.wait_for("document.getElementById('tip').innerText.includes('<img')");
    assert_ne!(browser.eval("document.title"), json!("owned"));
    let strange = "document.querySelectorAll('img, iframe, object, embed, link, main script:not([type])').length";
    assert_eq!(browser.eval(strange), json!(0));
    assert_eq!(browser.problems(), Vec::<Value>::new());
}

#[test]
fn five_thousand_trials_are_drawn_within_two_seconds() {
    let project = Project::new();
    let file = recording(&project, "many", &five_thousand());
    let url = report(&project, &file, "many");
    let size = std::fs::metadata(project.root.join("many.html"))
        .unwrap()
        .len();
    assert!(size < 2 << 20, "{size} bytes");
    let Some(mut browser) = Browser::start() else {
        return;
    };
    is_sound(&mut browser, &url, 390, Scheme::Dark, "many");
    is_sound(&mut browser, &url, 1100, Scheme::Light, "many");
    let drawn = browser.eval("[...document.querySelectorAll('#plot-search .mark[data-count]')].reduce((n, e) => n + Number(e.dataset.count), 0)");
    assert_eq!(drawn, json!(5000));
    // From asking for the page to everything drawn and painted. The machine has other work, so a few tries.
    let mut times = Vec::new();
    while times.len() < 10 && times.iter().all(|time| *time >= Duration::from_secs(2)) {
        let loaded = browser.open(&url, 1100, Scheme::Light);
        let begun = Instant::now();
        browser.painted();
        times.push(loaded + begun.elapsed());
    }
    eprintln!("5,000 trials: {times:?}, {size} bytes");
    assert!(times.last().unwrap() < &Duration::from_secs(2), "{times:?}");
}

/// The same study for people, programs and other tuners.
#[test]
fn a_study_is_told_in_every_format() {
    let project = Project::with_quick_kernel();
    let document = project.json(&["tune", "--seed", "2", "--json"], &[0, 1, 4]);
    let run = |arguments: &[&str]| {
        let output = project.run(arguments);
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let markdown = run(&["report", "--format", "md"]);
    assert!(markdown.starts_with("### vector\\_add: "), "{markdown}");
    assert!(
        markdown.contains("```sh\nkiln tune kiln.toml --shape target"),
        "{markdown}"
    );
    let json: Value = serde_json::from_str(&run(&["report", "--format", "json"])).unwrap();
    for key in [
        "schema_version",
        "verdict",
        "speedup",
        "best_config",
        "seed",
    ] {
        assert_eq!(json[key], document[key], "{key}");
    }
    let csv = run(&["report", "--format", "csv"]);
    let mut rows = csv::Reader::from_reader(csv.as_bytes());
    let head = rows.headers().unwrap().clone();
    assert_eq!(
        head.iter().skip(9).collect::<Vec<_>>(),
        ["VECTOR", "UNROLL", "PREFETCH", "PREFETCH_KEEP"]
    );
    let rows: Vec<csv::StringRecord> = rows.records().map(Result::unwrap).collect();
    assert_eq!(json!(rows.len()), document["trials"]);
    assert!(
        rows.iter()
            .all(|row| &row[1] == "measured" && row[2].parse::<f64>().unwrap() > 0.0)
    );
    let t4: Value = serde_json::from_str(&run(&["report", "--format", "t4"])).unwrap();
    assert_eq!(
        json!(t4["results"].as_array().unwrap().len()),
        document["trials"]
    );
    // Without a name the page goes where studies are, again and again; with one, nothing is lost.
    for _ in 0..2 {
        let path = run(&["report"]);
        assert!(
            path.trim_end().ends_with(".kiln/reports/study-1.html"),
            "{path}"
        );
        assert!(Path::new(path.trim_end()).is_file());
    }
    // A recording has no store to be kept with: its page lies here, and its results are told like a study's.
    run(&["studies", "record", "--to", "kept.kiln.json.gz"]);
    assert_eq!(run(&["report", "kept.kiln.json.gz"]), "kept.html\n");
    assert_eq!(
        project.run(&["report", "kept.kiln.json.gz"]).status.code(),
        Some(2)
    );
    let again: Value =
        serde_json::from_str(&run(&["report", "kept.kiln.json.gz", "--format", "t4"])).unwrap();
    let results = again["results"].as_array().unwrap();
    assert_eq!(json!(results.len()), document["trials"]);
    project.write("mine.html", "precious");
    let refused = project.run(&["report", "--out", "mine.html"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("hint: --force replaces it"));
    run(&["report", "--out", "mine.html", "--force"]);
    let wrong = project.run(&["report", "nothing.html"]);
    assert_eq!(wrong.status.code(), Some(2));
    insta::assert_snapshot!(text(&wrong.stderr), @r"
    error: `nothing.html` is neither the number of a study nor a recording
    hint: `kiln studies list` shows the numbers
    ");
    let wrong = project.run(&["report", "--open", "--format", "md"]);
    assert_eq!(wrong.status.code(), Some(2));
}
