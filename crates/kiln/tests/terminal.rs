//! The view of a long run, in a real terminal: a pseudo-terminal, and an emulator that shows what a person
//! would see on it.
#![allow(clippy::unwrap_used)]

mod common;

use std::fs::File;
use std::io::{Read, Write};
use std::num::NonZero;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use common::{Project, orphans_after};
use nix::pty::{Winsize, openpty};

const PATIENCE: Duration = Duration::from_secs(60);

fn some(size: u16) -> NonZero<u16> {
    NonZero::new(size).unwrap()
}

struct Terminal {
    child: Child,
    keys: File,
    /// `/dev/pts/…`, to change its size.
    name: String,
    screen: Arc<Mutex<vt100::Parser>>,
    reading: std::thread::JoinHandle<()>,
}

impl Terminal {
    /// kiln on a terminal of its own, which Ctrl-C reaches as it does a person's.
    fn run(project: &Project, arguments: &[&str], rows: u16, columns: u16) -> Terminal {
        let size = Winsize {
            ws_row: rows,
            ws_col: columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        let pty = openpty(Some(&size), None).unwrap();
        let name = nix::unistd::ttyname(&pty.slave)
            .unwrap()
            .display()
            .to_string();
        let end = |fd: &OwnedFd| Stdio::from(fd.try_clone().unwrap());
        let kiln = project.command(arguments);
        // `setsid -c` makes the terminal the one that signals come from.
        let mut command = Command::new("setsid");
        command
            .args(["-c", "-w"])
            .arg(kiln.get_program())
            .args(kiln.get_args());
        for (name, value) in kiln.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let child = command
            .current_dir(&project.root)
            .env("TERM", "xterm-256color")
            .stdin(end(&pty.slave))
            .stdout(end(&pty.slave))
            .stderr(end(&pty.slave))
            .spawn()
            .unwrap();
        let screen = Arc::new(Mutex::new(vt100::Parser::new(
            some(rows),
            some(columns),
            1000,
        )));
        let mut output = File::from(pty.master.try_clone().unwrap());
        let reading = std::thread::spawn({
            let screen = Arc::clone(&screen);
            move || {
                let mut bytes = [0; 4096];
                // The end of a pseudo-terminal is an error.
                while let Ok(count @ 1..) = output.read(&mut bytes) {
                    screen.lock().unwrap().process(&bytes[..count]);
                }
            }
        });
        Terminal {
            child,
            keys: File::from(pty.master),
            name,
            screen,
            reading,
        }
    }

    fn contents(&self) -> String {
        self.screen.lock().unwrap().screen().contents()
    }

    /// The contents once they are as wanted.
    fn wait_for(&self, wanted: impl Fn(&str) -> bool) -> String {
        let until = Instant::now() + PATIENCE;
        loop {
            let contents = self.contents();
            if wanted(&contents) {
                return contents;
            }
            assert!(Instant::now() < until, "not in time:\n{contents}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn resize(&self, rows: u16, columns: u16) {
        let stty = Command::new("stty")
            .args([
                "-F",
                &self.name,
                "rows",
                &rows.to_string(),
                "cols",
                &columns.to_string(),
            ])
            .status()
            .unwrap();
        assert!(stty.success());
        self.screen
            .lock()
            .unwrap()
            .screen_mut()
            .set_size(some(rows), some(columns));
    }

    fn press(&mut self, keys: &[u8]) {
        self.keys.write_all(keys).unwrap();
    }

    /// Waits for the end; the exit code and all that is on the screen.
    fn end(mut self) -> (Option<i32>, String) {
        let code = self.child.wait().unwrap().code();
        // Everything that was written has to be read; nobody holds the other end any more.
        let until = Instant::now() + PATIENCE;
        while !self.reading.is_finished() {
            assert!(Instant::now() < until, "somebody still holds the terminal");
            std::thread::sleep(Duration::from_millis(10));
        }
        let screen = self.screen.lock().unwrap();
        let (hidden, contents) = (screen.screen().hide_cursor(), screen.screen().contents());
        assert!(!hidden, "the cursor is gone");
        assert!(!screen.screen().alternate_screen());
        (code, contents)
    }
}

fn project() -> Project {
    let project = Project::with_quick_kernel();
    project.replace("kiln.toml", "trials = 6", "trials = 66");
    project
}

/// A line of the foot, by how it begins.
fn line<'c>(contents: &'c str, begin: &str) -> Option<&'c str> {
    contents.lines().find(|line| line.starts_with(begin))
}

#[test]
fn a_long_run_is_watched_resized_and_ended() {
    let project = project();
    let mut terminal = Terminal::run(
        &project,
        &["tune", "--strategy", "random", "--cold"],
        30,
        110,
    );
    let seen = terminal.wait_for(|c| {
        line(c, "trials").is_some_and(|l| l.contains("measured")) && c.contains("busy")
    });
    let bar = seen.lines().find(|l| l.contains("/66")).expect(&seen);
    assert!(bar.contains("trials left"), "{seen}");
    assert!(
        seen.contains("best ") && seen.contains("x), trial "),
        "{seen}"
    );
    let spark = line(&seen, "search").expect(&seen);
    assert!(
        spark.contains(['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█']),
        "{seen}"
    );
    assert!(
        line(&seen, "now").is_some_and(|l| l.contains("compilers") && l.contains("kernels")),
        "{seen}"
    );
    // Narrower: cut to the new width, one line each.
    terminal.resize(24, 50);
    let seen = terminal.wait_for(|c| {
        let foot = c.lines().rev().take(5).collect::<Vec<_>>();
        foot.len() == 5 && foot[0].starts_with("now") && foot[2].starts_with("search")
    });
    assert!(seen.lines().all(|l| l.chars().count() <= 50), "{seen}");
    // Ctrl-C, as a person types it.
    terminal.press(b"\x03");
    let (code, seen) = terminal.end();
    assert_eq!(code, Some(130), "{seen}");
    assert!(seen.contains("every finished trial is kept"), "{seen}");
    assert!(seen.contains("continues where it stopped"), "{seen}");
    // The foot is gone, and what was said stays.
    assert!(!seen.contains(['━', '─']), "{seen}");
    assert!(
        line(&seen, "search ").is_none() && line(&seen, "now ").is_none(),
        "{seen}"
    );
    let left = orphans_after(&project.home, Duration::from_secs(20));
    assert!(left.is_empty(), "left running: {left:?}");
}

#[test]
fn a_run_to_its_end_leaves_only_its_answer() {
    let project = project();
    let terminal = Terminal::run(&project, &["tune", "--trials", "8", "--cold"], 40, 100);
    let (code, seen) = terminal.end();
    assert!([Some(0), Some(1), Some(4)].contains(&code), "{seen}");
    assert!(seen.contains("next: "), "{seen}");
    assert!(line(&seen, "now ").is_none(), "{seen}");
    assert!(
        line(&seen, "search ").is_none_or(|l| l.starts_with("search ended")),
        "{seen}"
    );
}

/// A low terminal gets one line, not a foot that fills it.
#[test]
fn a_low_terminal_keeps_its_room() {
    let project = project();
    let mut terminal = Terminal::run(&project, &["tune", "--strategy", "random", "--cold"], 6, 80);
    let seen = terminal.wait_for(|c| c.contains("/66") && c.contains("best "));
    assert!(line(&seen, "now ").is_none(), "{seen}");
    terminal.press(b"\x03");
    let (code, seen) = terminal.end();
    assert_eq!(code, Some(130), "{seen}");
}

/// Elsewhere there are plain lines: no escape sequence, one line per trial.
#[test]
fn elsewhere_there_are_plain_lines() {
    let project = project();
    let output = project.run(&["tune", "--trials", "10", "--cold"]);
    let said = common::text(&output.stderr);
    assert!(
        said.chars().all(|c| c == '\n' || !c.is_control()),
        "{said:?}"
    );
    assert_eq!(
        said.lines().filter(|l| l.contains("/10  #")).count(),
        10,
        "{said}"
    );
    assert!(said.contains("0 trials left"), "{said}");
}
