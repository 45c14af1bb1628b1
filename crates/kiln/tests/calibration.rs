//! A/A: the same code as baseline and candidate must not be called faster or slower.
//!
//! 16 runs by default; `KILN_AA_RUNS=1000 cargo test --test calibration` runs more. `KILN_GATE_PAIRS` is the same for
//! `kiln gate`, of which CI runs 1,000; without the tests: `kiln selftest --backend cpu --only gate`.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use common::Project;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

#[test]
fn the_same_code_is_hardly_ever_called_faster_or_slower() {
    let _turn = TURN.lock();
    let runs: u64 = std::env::var("KILN_AA_RUNS").map_or(16, |r| r.parse().expect("a number"));
    let project = Project::new();
    let body = "for (int i = 0; i < n; i++) { float s = x[i]; \
                for (int k = 0; k < 8; k++) s = s * 0.99f + 0.5f; y[i] = s; }";
    let signature = "(const float *x, float *y, int n)";
    project
        .write("kernel.c", &format!("void work{signature} {{ {body} }}\n"))
        .write("baseline.c", &format!("void work_baseline{signature} {{ {body} }}\n"))
        .write(
            "reference.c",
            "void work(const double *x, double *y, int n) { for (int i = 0; i < n; i++) { double s = x[i]; \
             for (int k = 0; k < 8; k++) s = s * 0.99 + 0.5; y[i] = s; } }\n",
        )
        .write(
            "kiln.toml",
            "[kernel]\nname = \"work\"\nsource = \"kernel.c\"\nentry = \"work\"\nflags = [\"-O2\"]\n\
             [shapes.target]\nN = 20000\n[shapes.tiny]\nN = 5\n\
             [arguments]\nx = { dtype = \"f32\", shape = [\"N\"] }\n\
             y = { dtype = \"f32\", shape = [\"N\"], role = \"output\" }\n\
             n = { dtype = \"i32\", value = \"N\" }\n\
             [reference]\nc = \"reference.c:work\"\n\
             [baseline]\nc = \"baseline.c:work_baseline\"\n\
             [measure]\nmax_samples = 10\nmax_seconds = 0.05\n\
             [confirm]\nfinalists = 1\n",
        );
    let mut verdicts = Verdicts::new();
    let false_calls = |verdicts: &Verdicts| {
        let called = |verdict| verdicts.get(verdict).copied().unwrap_or(0);
        called("FASTER") + called("SLOWER")
    };
    // One wrong among a few says little about one in a hundred, so then there are a hundred.
    let mut done = 0;
    while done < runs || (done < 100 && false_calls(&verdicts) > 0) {
        let document = project.json(&["tune", "--json"], &[0, 1, 4]);
        let verdict = document["verdict"].as_str();
        let verdict = verdict.unwrap_or_else(|| panic!("an honest kernel refused: {document:#}"));
        *verdicts.entry(verdict.to_string()).or_default() += 1;
        done += 1;
    }
    println!("{done} A/A runs at the 3 % margin: {verdicts:?}");
    assert!(false_calls(&verdicts) * 100 <= done, "{verdicts:?}");
    say_if_too_loud(verdicts.get("SAME").copied().unwrap_or(0));
}

/// Not being able to say is no false call, but proves less.
fn say_if_too_loud(called_same: u64) {
    if called_same == 0 {
        println!(
            "this machine is too loud for SAME at 3 %: only shown that nothing is called FASTER or SLOWER"
        );
    }
}

/// They time things, so they take turns.
static TURN: Mutex<()> = Mutex::new(());

/// Counted verdicts.
type Verdicts = BTreeMap<String, u64>;

/// As many pairs as 30 s allow; `KILN_GATE_PAIRS` asks for a number of them, and 25 minutes are the limit then.
#[test]
fn the_gate_lets_the_same_code_pass() {
    let _turn = TURN.lock();
    let asked = std::env::var("KILN_GATE_PAIRS").ok();
    let (pairs, limit) = match asked {
        Some(pairs) => (
            pairs.parse().expect("a number"),
            Duration::from_secs(25 * 60),
        ),
        None => (200, Duration::from_secs(30)),
    };
    let deadline = Instant::now() + limit;
    let left = &Mutex::new(pairs);
    let found: Vec<Verdicts> = std::thread::scope(|scope| {
        let series: Vec<_> = cores()
            .into_iter()
            .map(|core| scope.spawn(move || pairs_on(core, left, deadline)))
            .collect();
        series.into_iter().map(|s| s.join().unwrap()).collect()
    });
    let mut verdicts = Verdicts::new();
    for (verdict, count) in found.into_iter().flatten() {
        *verdicts.entry(verdict).or_default() += count;
    }
    let done: u64 = verdicts.values().sum();
    assert!(done > 0, "no pair was judged");
    println!("{done} A/A pairs through the gate at the 3 % margin: {verdicts:?}");
    let called = |verdict: &str| verdicts.get(verdict).copied().unwrap_or(0);
    let false_calls = called("FASTER") + called("SLOWER");
    assert!(false_calls <= (done * 5).div_ceil(1_000), "{verdicts:?}");
    say_if_too_loud(called("SAME"));
}

/// Those this process may use: two at the most, for more share what is between them and memory.
fn cores() -> Vec<usize> {
    let allowed = sched_getaffinity(Pid::from_raw(0)).unwrap();
    let is_allowed = |core: &usize| allowed.is_set(*core).unwrap_or(false);
    (0..CpuSet::count()).filter(is_allowed).take(2).collect()
}

/// One series after another, on a core that no other series uses: kiln itself would put them all on the last one.
fn pairs_on(core: usize, left: &Mutex<u64>, deadline: Instant) -> Verdicts {
    const AT_ONCE: u64 = 12;
    let mut only = CpuSet::new();
    only.set(core).unwrap();
    // Programs that this thread starts stay there.
    sched_setaffinity(Pid::from_raw(0), &only).unwrap();
    let project = Project::new();
    let mut verdicts = Verdicts::new();
    while Instant::now() < deadline {
        let now = {
            let mut left = left.lock().unwrap();
            let now = AT_ONCE.min(*left);
            *left -= now;
            now
        };
        if now == 0 {
            break;
        }
        let count = now.to_string();
        let arguments = [
            "selftest",
            "--backend",
            "cpu",
            "--only",
            "gate",
            "--quick",
            "--json",
            "--pairs",
            &count,
        ];
        let document = project.json(&arguments, &[0, 1]);
        let section = &document["sections"][0];
        let counted = section["numbers"]["same_verdicts"].as_object();
        let counted = counted.unwrap_or_else(|| panic!("an honest kernel refused: {section:#}"));
        let counted: Vec<(&String, u64)> = counted
            .iter()
            .map(|(v, c)| (v, c.as_u64().unwrap()))
            .collect();
        let judged: u64 = counted.iter().map(|(_, count)| count).sum();
        assert_eq!(judged, now, "an honest kernel was refused: {section:#}");
        for (verdict, count) in counted {
            *verdicts.entry(verdict.clone()).or_default() += count;
        }
    }
    verdicts
}
