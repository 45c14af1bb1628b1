//! kill -9 at random times: no acknowledged event is lost, the store is sound and opens, the study
//! resumes to its end, and nothing is left running.
//!
//! A round starts or resumes a study and kills: kiln, one of its workers (or a compiler, or Python),
//! all of them, or kiln and one. A third of the rounds aim at the recovery from the kill before. A
//! round counts when the kill hit somebody. 90 by default; `KILN_KILL_ROUNDS=3000 cargo test --test
//! crash` runs more, and `KILN_KILL_SEED` others.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use common::{Project, family, processes_of};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::Value;

const TRIALS: usize = 24;

/// Rounds in one project: killing its very first run, which makes the store, is a case of its own.
const ROUNDS_PER_PROJECT: u64 = 30;

/// For a busy machine: who notices its end late is no orphan.
const GRACE: Duration = Duration::from_secs(20);

/// A kernel that compiles and runs fast, so that kills land in every phase.
fn project(reference: Reference) -> Project {
    let reference_key = match reference {
        Reference::C => "c = \"reference.c:scale\"",
        Reference::Python => "python = \"reference.py:scale\"",
    };
    let manifest = format!(
        "[kernel]\nname = \"scale\"\nsource = \"kernel.c\"\nentry = \"scale\"\nflags = [\"-O1\"]\n\
         [tunables]\nSTEP = {{ from = 1, to = 12 }}\nWIDTH = [1, 2, 4]\n\
         [shapes.target]\nN = 2000\n[shapes.tiny]\nN = 3\n\
         [arguments]\nx = {{ dtype = \"f32\", shape = [\"N\"] }}\n\
         y = {{ dtype = \"f32\", shape = [\"N\"], role = \"output\" }}\n\
         n = {{ dtype = \"i32\", value = \"N\" }}\n\
         [reference]\n{reference_key}\n\
         [baseline]\nconfig = {{ STEP = 1, WIDTH = 1 }}\n\
         [budget]\ntrials = {TRIALS}\nhopeless_below = 0.0\n\
         [measure]\nmax_samples = 10\nmax_seconds = 0.05\n\
         [confirm]\nsamples = 10\nrounds = 2\nfinalists = 1\n"
    );
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
        .write("reference.py", "def scale(x, n):\n    return 3.0 * x\n")
        .write("kiln.toml", &manifest);
    project
}

#[derive(Clone, Copy, Debug)]
enum Reference {
    C,
    Python,
}

/// The interpreter itself: `python3` may be a script, and one whose helpers are killed may take
/// another Python for the right one.
fn python_with_numpy() -> Option<String> {
    let mut python = Command::new("python3");
    let output = python.args(["-c", "import numpy, sys; print(sys.executable)"]);
    let output = output.output().ok().filter(|o| o.status.success());
    if output.is_none() {
        eprintln!("skipped: no python3 with numpy, so no Python process is killed");
    }
    output.map(|output| common::text(&output.stdout).trim().to_string())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Victim {
    Parent,
    /// One of the parent's children or theirs.
    Worker,
    /// All of them, but not the parent.
    Workers,
    /// The parent and one of them.
    Both,
    /// Parent, workers and compilers, in no order.
    All,
}

#[derive(Clone, Copy, Debug)]
struct Round {
    victim: Victim,
    delay: Duration,
    /// Decides which worker, and whether the parent follows it.
    luck: u32,
}

/// What the rounds came to.
#[derive(Default)]
struct Tally {
    by_victim: BTreeMap<Victim, u64>,
    /// A study was unfinished, and the kill came before the resumed run had anything to show.
    in_recovery: u64,
    /// The kill came before the project had a store with a study.
    before_study: u64,
    ended_by_themselves: u64,
    acknowledged: usize,
}

/// One project and what kiln has told about it.
struct Ground {
    project: Project,
    python: String,
    /// Every event as it was printed, in order.
    acknowledged: Vec<Value>,
    is_unfinished: bool,
    /// How long runs took from their start to the first thing they showed.
    first_shown: Duration,
}

#[test]
fn no_acknowledged_event_is_ever_lost() {
    let number = |name: &str, default: u64| {
        std::env::var(name).map_or(default, |n| n.parse().expect("a number"))
    };
    let wanted = number("KILN_KILL_ROUNDS", 90);
    family::adopt_orphans();
    let python = python_with_numpy();
    let mut rng = ChaCha8Rng::seed_from_u64(number("KILN_KILL_SEED", 17));
    let mut tally = Tally::default();
    let (mut hits, mut rounds, mut projects) = (0, 0, 0);
    while hits < wanted {
        let reference = match python.is_some() && projects % 4 == 1 {
            true => Reference::Python,
            false => Reference::C,
        };
        let mut ground = Ground {
            project: project(reference),
            python: python.clone().unwrap_or_default(),
            acknowledged: Vec::new(),
            is_unfinished: false,
            first_shown: Duration::from_millis(300),
        };
        projects += 1;
        for _ in 0..ROUNDS_PER_PROJECT {
            if hits == wanted {
                break;
            }
            let round = draw(&mut rng, &ground);
            let hit = ground.play(round, &mut tally);
            hits += u64::from(hit);
            rounds += 1;
            let left = family::left_after(GRACE);
            assert!(left.is_empty(), "{round:?}: left running: {left:?}");
            ground.verify(round);
        }
        ground.finish();
        eprintln!("{hits} kills in {rounds} rounds so far");
        tally.acknowledged += ground.acknowledged.len();
        assert!(
            rounds < 4 * wanted + 100,
            "the kills come too late to mean anything: {hits} of {rounds} hit"
        );
    }
    println!(
        "{hits} kills in {rounds} rounds on {projects} projects: {:?}; {} during recovery, {} before there was \
         a study; {} runs ended by themselves; {} events acknowledged, 0 lost; 0 corrupt stores; 0 orphans",
        tally.by_victim,
        tally.in_recovery,
        tally.before_study,
        tally.ended_by_themselves,
        tally.acknowledged
    );
    assert!(
        tally.in_recovery >= wanted / 10,
        "too few kills during recovery: {}",
        tally.in_recovery
    );
}

fn draw(rng: &mut ChaCha8Rng, ground: &Ground) -> Round {
    let victim = match rng.next_u32() % 8 {
        0 | 1 => Victim::Parent,
        2 => Victim::Worker,
        3 => Victim::Workers,
        4 | 5 => Victim::Both,
        _ => Victim::All,
    };
    let aims_at_recovery = ground.is_unfinished && rng.next_u32().is_multiple_of(3);
    let most = match aims_at_recovery {
        true => ground.first_shown,
        false => ground.first_shown + Duration::from_millis(500),
    };
    Round {
        victim,
        delay: most.mul_f64(f64::from(rng.next_u32()) / f64::from(u32::MAX)),
        luck: rng.next_u32(),
    }
}

impl Ground {
    /// Starts kiln, kills after the delay, and notes what was shown. True if somebody was hit.
    fn play(&mut self, round: Round, tally: &mut Tally) -> bool {
        let started = Instant::now();
        let mut child = self
            .project
            .command(&["tune", "--events"])
            .env("KILN_PYTHON", &self.python)
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(self.project.root.join("said.txt")).unwrap())
            .spawn()
            .unwrap();
        let lines = lines_of(&mut child);
        thread::sleep(round.delay.saturating_sub(started.elapsed()));
        let mut shown: Vec<(Duration, String)> = lines.try_iter().collect();
        let was_quiet = shown.is_empty();
        let hit = strike(&child, round);
        let mut spared = matches!(round.victim, Victim::Worker | Victim::Workers);
        if spared && hit && round.luck.is_multiple_of(2) {
            // kiln must get over it by itself, which it has once it shows something new. Then it is
            // killed too: rounds that end early are rounds more.
            let later = match lines.recv_timeout(Duration::from_secs(60)) {
                Ok(line) => Some(line),
                Err(RecvTimeoutError::Disconnected) => None,
                Err(RecvTimeoutError::Timeout) => panic!("{round:?}: kiln hangs"),
            };
            if later.is_some() {
                spared = !kill_alive(child.id() as i32);
            }
            shown.extend(later);
        }
        let status = child.wait().unwrap();
        shown.extend(lines.iter());
        if let Some(code) = status.code() {
            let said = std::fs::read_to_string(self.project.root.join("said.txt")).unwrap();
            assert!(matches!(code, 0 | 1 | 4), "{round:?}: exit {code}\n{said}");
            tally.ended_by_themselves += 1;
        } else {
            assert!(!spared, "{round:?}: kiln died of its worker: {status}");
        }
        if let Some((after, _)) = shown.first() {
            self.first_shown = (*after + self.first_shown * 3) / 4;
        }
        if hit {
            *tally.by_victim.entry(round.victim).or_default() += 1;
            tally.in_recovery += u64::from(self.is_unfinished && was_quiet);
            tally.before_study += u64::from(self.acknowledged.is_empty() && was_quiet);
        }
        for (_, line) in shown {
            // The last line may be torn by the kill.
            if let Ok(event) = serde_json::from_str::<Value>(&line) {
                self.is_unfinished = event["event"] != "study_finished";
                self.acknowledged.push(event);
            }
        }
        hit
    }

    /// The store is sound, kiln opens it, and it holds every event as it was shown, in that order.
    /// Looks at a copy: the next run is to find the store as the kill left it.
    fn verify(&self, round: Round) {
        let store = self.project.root.join(".kiln/kiln.db");
        if !store.exists() {
            assert!(self.acknowledged.is_empty(), "{round:?}: the store is gone");
            return;
        }
        let copy = tempfile::tempdir().unwrap();
        let folder = copy.path().join(".kiln");
        std::fs::create_dir(&folder).unwrap();
        for file in ["kiln.db", "kiln.db-wal"] {
            let from = self.project.root.join(".kiln").join(file);
            if from.exists() {
                std::fs::copy(from, folder.join(file)).unwrap();
            }
        }
        let listed = self
            .project
            .command(&["studies", "list", "--json"])
            .current_dir(copy.path())
            .output()
            .unwrap();
        let said = common::text(&listed.stderr);
        assert_eq!(listed.status.code(), Some(0), "{round:?}: {said}");
        let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
        let stored = sound_events(&folder.join("kiln.db"));
        let mut trials: BTreeMap<i64, u64> = BTreeMap::new();
        for (study, event) in &stored {
            if event["event"] == "trial_finished" {
                let count = trials.entry(*study).or_default();
                *count += 1;
                assert_eq!(event["number"], *count, "{round:?}: study {study}");
            }
        }
        for study in listed["studies"].as_array().unwrap() {
            let count = trials.get(&study["study"].as_i64().unwrap());
            assert_eq!(study["trials"], count.copied().unwrap_or(0), "{round:?}");
        }
        let mut rest = stored.iter();
        for event in &self.acknowledged {
            assert!(
                rest.any(|(_, stored)| stored == event),
                "{round:?}: lost, changed or out of order: {event}"
            );
        }
    }

    /// Whatever is unfinished runs to its end.
    fn finish(&self) {
        let mut command = self.project.command(&["tune", "--json"]);
        let output = command.env("KILN_PYTHON", &self.python).output().unwrap();
        let said = common::text(&output.stderr);
        assert!(matches!(output.status.code(), Some(0 | 1 | 4)), "{said}");
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(document["trials"], TRIALS);
        assert!(processes_of(&self.project.home).is_empty());
    }
}

/// All events of a store, in order, after a check of the whole file.
fn sound_events(path: &Path) -> Vec<(i64, Value)> {
    let store = rusqlite::Connection::open(path).unwrap();
    let sound: String = store
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .unwrap();
    assert_eq!(sound, "ok");
    // A kill may come before there are tables.
    let version: i64 = store
        .query_row("PRAGMA user_version", [], |row| row.get(0))
        .unwrap();
    if version == 0 {
        return Vec::new();
    }
    let mut statement = store
        .prepare("SELECT study, body FROM events ORDER BY sequence")
        .unwrap();
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get::<_, String>(1)?)));
    rows.unwrap()
        .map(|row| row.unwrap())
        .map(|(study, body)| (study, serde_json::from_str(&body).unwrap()))
        .collect()
}

/// What kiln shows, as it shows it, with the time since its start.
fn lines_of(child: &mut Child) -> Receiver<(Duration, String)> {
    let started = Instant::now();
    let stdout = child.stdout.take().unwrap();
    let (sender, lines) = channel();
    thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            let _ = sender.send((started.elapsed(), line));
        }
    });
    lines
}

/// Kills as the round says; true if all it names were there to be killed.
fn strike(child: &Child, round: Round) -> bool {
    let parent = child.id() as i32;
    let below: Vec<i32> = family::below(parent).into_keys().collect();
    let one = below.get(round.luck as usize / 2 % below.len().max(1));
    let kill_one = || one.is_some_and(|pid| kill_alive(*pid));
    match round.victim {
        Victim::Parent => kill_alive(parent),
        Victim::Worker => kill_one(),
        Victim::Workers => below.iter().filter(|pid| kill_alive(**pid)).count() > 0,
        // One after the other: each must have been alive.
        Victim::Both => kill_alive(parent) & kill_one(),
        Victim::All => {
            let workers = below.iter().rev().filter(|pid| kill_alive(**pid)).count();
            kill_alive(parent) && workers > 0
        }
    }
}

/// False if it is not there, or dead and not yet collected.
fn kill_alive(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let is_alive = stat
        .rsplit_once(") ")
        .is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']));
    is_alive && kill(Pid::from_raw(pid), Signal::SIGKILL).is_ok()
}
