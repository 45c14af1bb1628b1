//! kill -9 at random times: no acknowledged trial is lost, the store opens, the study resumes to
//! its end, and nothing is left running.
//!
//! 200 rounds by default; `KILN_KILL_ROUNDS=3000 cargo test --test crash` runs more.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use common::{Project, orphans_after, processes_of};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::Value;

const TRIALS: usize = 24;

/// A kernel that compiles and runs fast, so that kills land in every phase.
fn project() -> Project {
    let project = Project::new();
    project
        .write(
            "kernel.c",
            "void scale(const float *x, float *y, int n) {\n\
             for (int i = 0; i < n; i++) y[i] = 3.0f * x[i] + 0.0f * STEP * WIDTH;\n}\n",
        )
        .write(
            "reference.c",
            "void scale(const double *x, double *y, int n) { for (int i = 0; i < n; i++) y[i] = 3.0 * x[i]; }\n",
        )
        .write(
            "kiln.toml",
            "[kernel]\nname = \"scale\"\nsource = \"kernel.c\"\nentry = \"scale\"\nflags = [\"-O1\"]\n\
             [tunables]\nSTEP = { from = 1, to = 12 }\nWIDTH = [1, 2, 4]\n\
             [shapes.target]\nN = 2000\n[shapes.tiny]\nN = 3\n\
             [arguments]\nx = { dtype = \"f32\", shape = [\"N\"] }\n\
             y = { dtype = \"f32\", shape = [\"N\"], role = \"output\" }\n\
             n = { dtype = \"i32\", value = \"N\" }\n\
             [reference]\nc = \"reference.c:scale\"\n\
             [baseline]\nconfig = { STEP = 1, WIDTH = 1 }\n\
             [budget]\ntrials = 24\nhopeless_below = 0.0\n\
             [measure]\nmax_samples = 10\nmax_seconds = 0.05\n\
             [confirm]\nsamples = 10\nrounds = 2\nfinalists = 1\n",
        );
    project
}

#[derive(Clone, Copy, Debug)]
enum Victim {
    Parent,
    Worker,
    Both,
    /// Parent, workers and compilers, in no order.
    All,
}

/// Trials by study and number, as kiln printed them after storing them.
type Acknowledged = BTreeMap<(u64, u64), Value>;

#[test]
fn no_acknowledged_trial_is_ever_lost() {
    let rounds: u64 =
        std::env::var("KILN_KILL_ROUNDS").map_or(200, |r| r.parse().expect("a number"));
    let project = project();
    let mut rng = ChaCha8Rng::seed_from_u64(17);
    let mut acknowledged = Acknowledged::new();
    let (mut finished, mut killed) = (0, 0);
    for round in 0..rounds {
        let victim = match rng.next_u32() % 4 {
            0 => Victim::Parent,
            1 => Victim::Worker,
            2 => Victim::Both,
            _ => Victim::All,
        };
        let delay = Duration::from_micros(u64::from(rng.next_u32() % 700_000));
        let ended = one_round(&project, victim, delay, &mut acknowledged);
        finished += u64::from(ended);
        killed += u64::from(!ended);
        let left = orphans_after(&project.home, Duration::from_secs(5));
        assert!(
            left.is_empty(),
            "round {round}, {victim:?} after {delay:?}: left running: {left:?}"
        );
        verify(&project, &acknowledged, round);
    }
    // Whatever is unfinished runs to its end.
    let output = project.run(&["tune", "--json"]);
    assert!(
        matches!(output.status.code(), Some(0 | 1 | 4)),
        "{}",
        common::text(&output.stderr)
    );
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["trials"], TRIALS);
    verify(&project, &acknowledged, rounds);
    println!(
        "{rounds} rounds: {killed} runs killed, {finished} ended by themselves, {} trials acknowledged, 0 lost",
        acknowledged.len()
    );
    assert!(
        killed > rounds / 4,
        "the kills came too late to mean anything: {killed}"
    );
}

/// Starts kiln, kills after the delay, and notes what was acknowledged. True if it ended itself.
fn one_round(
    project: &Project,
    victim: Victim,
    delay: Duration,
    acknowledged: &mut Acknowledged,
) -> bool {
    let mut child = project
        .command(&["tune", "--events"])
        .stdout(Stdio::piped())
        .stderr(std::fs::File::create(project.root.join("said.txt")).unwrap())
        .spawn()
        .unwrap();
    let stdout = child.stdout.take().unwrap();
    let lines = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&lines);
    let reader = thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            sink.lock().unwrap().push(line);
        }
    });
    thread::sleep(delay);
    let parent = child.id() as i32;
    let family = processes_of(&project.home);
    let workers = family.keys().copied().filter(|pid| *pid != parent);
    let mut ended = false;
    match victim {
        Victim::Parent => strike(parent),
        Victim::Worker => {
            workers.for_each(strike);
            // kiln must get over it by itself.
            let status = child.wait().unwrap();
            assert!(
                matches!(status.code(), Some(0 | 1 | 4)),
                "a killed worker ended the run: {status}\n{}",
                std::fs::read_to_string(project.root.join("said.txt")).unwrap()
            );
            ended = true;
        }
        Victim::Both => {
            let worker = workers.min();
            strike(parent);
            worker.into_iter().for_each(strike);
        }
        Victim::All => family.keys().rev().copied().for_each(strike),
    }
    child.wait().unwrap();
    reader.join().unwrap();
    let study = latest_study(project);
    for line in lines.lock().unwrap().iter() {
        // The last line may be torn by the kill.
        let Ok(event) = serde_json::from_str::<Value>(line) else {
            continue;
        };
        if event["event"] == "trial_finished" {
            let number = event["number"].as_u64().unwrap();
            acknowledged.insert((study, number), event);
        }
    }
    ended
}

fn strike(pid: i32) {
    // It may have ended by itself meanwhile.
    let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
}

fn latest_study(project: &Project) -> u64 {
    let list = project.json(&["studies", "list", "--json"], &[0]);
    list["studies"]
        .as_array()
        .unwrap()
        .last()
        .map_or(0, |s| s["study"].as_u64().unwrap())
}

/// The store opens, is sound, and holds every acknowledged trial as it was acknowledged.
fn verify(project: &Project, acknowledged: &Acknowledged, round: u64) {
    let path = project.root.join(".kiln/kiln.db");
    if !path.exists() {
        assert!(acknowledged.is_empty());
        return;
    }
    let store = rusqlite::Connection::open(&path).unwrap();
    let sound: String = store
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .unwrap();
    assert_eq!(sound, "ok", "round {round}");
    let mut statement = store
        .prepare("SELECT study, body FROM events WHERE kind = 'trial_finished' ORDER BY sequence")
        .unwrap();
    let rows = statement
        .query_map([], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?))
        })
        .unwrap();
    let mut stored = Acknowledged::new();
    for row in rows {
        let (study, body) = row.unwrap();
        let event: Value = serde_json::from_str(&body).unwrap();
        let number = event["number"].as_u64().unwrap();
        let earlier = stored.insert((study as u64, number), event);
        assert!(
            earlier.is_none(),
            "round {round}: trial {number} was stored twice"
        );
    }
    for (key, trial) in acknowledged {
        assert_eq!(
            stored.get(key),
            Some(trial),
            "round {round}: trial {key:?} was lost or changed"
        );
    }
}
