//! The foot of the terminal while a study runs: five lines that are drawn again in place.

use std::time::Duration;

use console::Term;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use kiln_core::diagnostic::printable;

use crate::printer;

/// Below this height the foot is one line: a terminal should show more than its foot.
const FEWEST_ROWS: u16 = 10;
/// Of the line the sparkline stands in.
const BESIDE_SPARKLINE: usize = 10;

pub struct View {
    all: MultiProgress,
    bar: ProgressBar,
    /// Best, sparkline, outcomes, what is done; none in a low terminal.
    more: Vec<ProgressBar>,
}

/// The lines' texts.
pub struct Texts {
    pub budget: String,
    pub best: String,
    pub spark: String,
    pub outcomes: String,
    pub doing: String,
}

impl View {
    /// Nothing where nobody would see it move.
    pub fn open(trials: u64) -> Option<View> {
        if !printer::talks_to_terminal() {
            return None;
        }
        let (rows, _) = Term::stderr().size();
        let all = MultiProgress::with_draw_target(ProgressDrawTarget::stderr());
        let style = |template: &str| {
            ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
        };
        let bar = all.add(ProgressBar::new(trials));
        bar.set_style(style("{bar:24} {pos}/{len} {elapsed} {wide_msg}"));
        let names: &[&str] = match rows < FEWEST_ROWS {
            true => &[],
            false => &["", "search", "trials", "now"],
        };
        let line = |name: &&str| {
            let line = all.add(ProgressBar::new_spinner());
            line.set_style(style("{prefix:<8}{wide_msg}"));
            line.set_prefix(name.to_string());
            line
        };
        let more = names.iter().map(line).collect();
        // The clock goes on, and a terminal that changed its size is drawn again, while a trial takes long.
        bar.enable_steady_tick(Duration::from_millis(250));
        Some(View { all, bar, more })
    }

    /// Columns for a sparkline in the terminal as it is now.
    pub fn columns(&self) -> usize {
        let (_, columns) = Term::stderr().size();
        usize::from(columns).saturating_sub(BESIDE_SPARKLINE)
    }

    pub fn show(&self, done: u64, texts: &Texts) {
        self.bar.set_position(done);
        let first = match self.more.is_empty() {
            true => format!("{}; {}; {}", texts.best, texts.doing, texts.budget),
            false => texts.budget.clone(),
        };
        self.bar.set_message(printable(&first));
        let lines = [&texts.best, &texts.spark, &texts.outcomes, &texts.doing];
        for (line, text) in self.more.iter().zip(lines) {
            line.set_message(printable(text));
        }
    }

    /// A line above the foot, which stays.
    pub fn say(&self, text: &str) {
        // A terminal that is gone says so to the next thing that matters.
        let _ = self.all.println(text);
    }

    pub fn close(self) {
        for line in &self.more {
            line.finish_and_clear();
        }
        self.bar.finish_and_clear();
        let _ = self.all.clear();
    }
}
