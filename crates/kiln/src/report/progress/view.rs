//! The foot of the terminal while a study runs: five lines that are drawn again in place.
//!
//! Lines are cut to the width the terminal has when they are drawn and not filled up, so that most of them
//! survive a terminal that is made narrower. The cursor rests below them at the start of a line: however kiln ends,
//! the terminal is as usual.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use console::{Term, measure_text_width, truncate_str};
use kiln_core::diagnostic::printable;

use super::lines::human_seconds;
use crate::printer;

/// Below this height the foot is one line: a terminal should show more than its foot.
const FEWEST_ROWS: usize = 10;
const BAR_COLUMNS: usize = 24;
/// What stands before each line after the first.
const NAMES: [&str; 4] = ["", "search", "trials", "now"];
const NAME_COLUMNS: usize = 8;
/// The clock goes on while a trial takes long, and a terminal of another size is drawn anew.
const BETWEEN_TICKS: Duration = Duration::from_millis(500);

/// The lines' texts.
#[derive(Default)]
pub struct Texts {
    pub budget: String,
    pub best: String,
    pub spark: String,
    pub outcomes: String,
    pub doing: String,
}

struct Foot {
    done: u64,
    trials: u64,
    texts: Texts,
    began: Instant,
    /// How wide the lines on the screen are.
    drawn: Vec<usize>,
}

pub struct View {
    foot: Arc<Mutex<Foot>>,
    /// Dropped to end the clock.
    stop: Option<Sender<()>>,
    clock: Option<JoinHandle<()>>,
}

impl View {
    /// Nothing where nobody would see it move.
    pub fn open(trials: u64) -> Option<View> {
        if !printer::talks_to_terminal() {
            return None;
        }
        let foot = Arc::new(Mutex::new(Foot {
            done: 0,
            trials,
            texts: Texts::default(),
            began: Instant::now(),
            drawn: Vec::new(),
        }));
        let (stop, stopped) = channel::<()>();
        let clock = std::thread::spawn({
            let foot = Arc::clone(&foot);
            move || {
                while stopped.recv_timeout(BETWEEN_TICKS) == Err(RecvTimeoutError::Timeout) {
                    lock(&foot).draw("");
                }
            }
        });
        Some(View {
            foot,
            stop: Some(stop),
            clock: Some(clock),
        })
    }

    /// Columns for a sparkline in the terminal as it is now.
    pub fn spark_columns(&self) -> usize {
        size().1.saturating_sub(NAME_COLUMNS + 1)
    }

    pub fn show(&self, done: u64, texts: Texts) {
        let mut foot = lock(&self.foot);
        foot.done = done;
        foot.texts = texts;
        foot.draw("");
    }

    /// A line above the foot, which stays.
    pub fn say(&self, text: &str) {
        lock(&self.foot).draw(&format!("{text}\n"));
    }

    /// Takes the foot away.
    pub fn close(mut self) {
        self.stop.take();
        if let Some(clock) = self.clock.take() {
            // It only draws; there is nothing to do about one that failed.
            let _ = clock.join();
        }
        let mut foot = lock(&self.foot);
        let erased = foot.erase(size().1);
        printer::draw(&erased);
    }
}

impl Drop for View {
    fn drop(&mut self) {
        self.stop.take();
    }
}

/// Who panicked while drawing left texts behind that are whole.
fn lock(foot: &Mutex<Foot>) -> MutexGuard<'_, Foot> {
    foot.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Rows and columns of the terminal as it is now.
fn size() -> (usize, usize) {
    let (rows, columns) = Term::stderr().size();
    (usize::from(rows), usize::from(columns).max(1))
}

impl Foot {
    /// Erases the foot, writes what is to stay, and draws the foot below it: in one piece, so that nothing
    /// flickers.
    fn draw(&mut self, above: &str) {
        let (rows, columns) = size();
        let mut out = self.erase(columns);
        out.push_str(above);
        for line in self.lines(rows, columns) {
            self.drawn.push(measure_text_width(&line));
            out.push_str(&line);
            out.push('\n');
        }
        printer::draw(&out);
    }

    /// What takes the cursor to the start of the foot and clears the rest of the screen.
    fn erase(&mut self, columns: usize) -> String {
        // A line that is wider than the terminal is now goes on in the next rows.
        let height = |width: &usize| width.div_ceil(columns).max(1);
        let up: usize = self.drawn.iter().map(height).sum();
        self.drawn.clear();
        match up {
            0 => String::new(),
            up => format!("\r\x1b[{up}A\x1b[J"),
        }
    }

    fn lines(&self, rows: usize, columns: usize) -> Vec<String> {
        let texts = &self.texts;
        let is_low = rows < FEWEST_ROWS;
        let elapsed = human_seconds(self.began.elapsed().as_secs_f64());
        let first = match is_low {
            true => format!("{}; {}; {}", texts.best, texts.doing, texts.budget),
            false => texts.budget.clone(),
        };
        let mut lines = vec![format!(
            "{} {}/{}  {elapsed}  {first}",
            bar(self.done, self.trials),
            self.done,
            self.trials
        )];
        if !is_low && !texts.doing.is_empty() {
            let more = [&texts.best, &texts.spark, &texts.outcomes, &texts.doing];
            let named = NAMES.iter().zip(more);
            lines.extend(named.map(|(name, text)| format!("{name:<NAME_COLUMNS$}{text}")));
        }
        let room = columns.saturating_sub(1);
        let cut = |line: String| truncate_str(&printable(&line), room, "…").into_owned();
        lines.into_iter().map(cut).collect()
    }
}

fn bar(done: u64, all: u64) -> String {
    let part = done as f64 / all.max(1) as f64;
    let full = ((part * BAR_COLUMNS as f64) as usize).min(BAR_COLUMNS);
    format!("{}{}", "━".repeat(full), "─".repeat(BAR_COLUMNS - full))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn foot() -> Foot {
        Foot {
            done: 20,
            trials: 80,
            texts: Texts {
                budget: "60 trials left".into(),
                best: "best 3.35 ms".into(),
                spark: "▁▂".into(),
                outcomes: "20 measured".into(),
                doing: "compiling\x1b[2J 4".into(),
            },
            began: Instant::now(),
            drawn: vec![70, 10],
        }
    }

    #[test]
    fn lines_fit_the_terminal_and_carry_no_escapes() {
        let lines = foot().lines(30, 40);
        assert_eq!(lines.len(), 5);
        assert!(
            lines[0].starts_with("━━━━━━──────────────────"),
            "{lines:?}"
        );
        let fits = |l: &String| measure_text_width(l) < 40 && l.chars().all(|c| !c.is_control());
        assert!(lines.iter().all(fits), "{lines:?}");
        assert_eq!(foot().lines(9, 40).len(), 1);
    }

    #[test]
    fn what_wrapped_in_a_narrower_terminal_is_erased_too() {
        assert_eq!(foot().erase(80), "\r\x1b[2A\x1b[J");
        assert_eq!(foot().erase(30), "\r\x1b[4A\x1b[J");
        let mut empty = foot();
        empty.drawn.clear();
        assert_eq!(empty.erase(80), "");
    }
}
