//! The arguments of `kiln iterate` and `kiln lessons`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::{ProjectArgs, positive};

#[derive(Debug, Args)]
pub struct IterateArgs {
    /// A manifest or a folder with a kiln.toml [default: the current folder's]
    pub path: Option<PathBuf>,
    /// What the edit should do and why, in your words
    #[arg(long, value_name = "TEXT", required_unless_present_any = ["history", "restore"])]
    pub hypothesis: Option<String>,
    /// The speedup it should bring: 1.10 is 10 % faster [default: what the advice predicts, else any]
    #[arg(long, value_name = "SPEEDUP", value_parser = speedup)]
    pub expect: Option<f64>,
    /// The rule whose advice the edit follows, as `kiln profile` names it
    #[arg(long, value_name = "RULE")]
    pub advice: Option<String>,
    /// What to measure against, as a side of `kiln compare` [default: the winner of the last study or iteration]
    #[arg(long, value_name = "SIDE")]
    pub against: Option<String>,
    /// The config of the edited kernel [default: the incumbent's]
    #[arg(long, value_name = "NAME=VALUE,…")]
    pub config: Option<String>,
    /// Measure on this shape [default: the target]
    #[arg(long, value_name = "NAME")]
    pub shape: Option<String>,
    /// Differences inside this fraction are the same speed
    #[arg(long, default_value_t = 0.03, value_parser = super::compare::fraction)]
    pub margin: f64,
    /// Most seconds of measuring; less when it is decided sooner
    #[arg(long, default_value_t = 60.0, value_parser = positive)]
    pub seconds: f64,
    /// Put files back as they were: those of the incumbent, or those that DIGEST names; what is there now is kept
    #[arg(long, value_name = "DIGEST", num_args = 0..=1, default_missing_value = "",
          conflicts_with_all = ["hypothesis", "expect", "advice", "against", "config", "history"])]
    pub restore: Option<String>,
    /// List iterations, and how often each rule and hypothesis was right
    #[arg(long, conflicts_with_all = ["hypothesis", "expect", "advice", "against", "config"])]
    pub history: bool,
    /// Fail instead of waiting when another kiln is measuring on this machine
    #[arg(long)]
    pub no_wait: bool,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// More than this nobody gains with one edit; it is a slip of the keyboard.
const MOST_SPEEDUP: f64 = 1000.0;

fn speedup(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value > 0.0 && value <= MOST_SPEEDUP => Ok(value),
        _ => Err(format!(
            "expected a factor above 0 and up to {MOST_SPEEDUP}: 1.10 is 10 % faster, 2 is twice as fast"
        )),
    }
}

#[derive(Debug, Args)]
pub struct LessonsArgs {
    #[command(subcommand)]
    pub verb: LessonsVerb,
}

#[derive(Debug, Subcommand)]
pub enum LessonsVerb {
    /// All lessons of the project, oldest first
    #[command(after_help = "Example:\n  kiln lessons list --json")]
    List {
        /// Also those that were forgotten
        #[arg(long)]
        all: bool,
        /// Only lessons about this kernel
        #[arg(long, value_name = "NAME")]
        kernel: Option<String>,
        #[command(flatten)]
        project: ProjectArgs,
    },
    /// One lesson with what speaks for and against it
    #[command(after_help = "Example:\n  kiln lessons show L2fca5")]
    Show {
        /// Its name, or the beginning of it
        lesson: String,
        #[command(flatten)]
        project: ProjectArgs,
    },
    /// Learn from finished studies that have not been learnt from; `kiln tune` does this at its end
    #[command(after_help = "Example:\n  kiln lessons learn")]
    Learn {
        /// Number of the study [default: all]
        study: Option<u64>,
        #[command(flatten)]
        project: ProjectArgs,
    },
    /// Write lessons to a file: TOML for another project, Markdown for people
    #[command(after_help = "Example:\n  kiln lessons export --to lessons.toml --force")]
    Export {
        /// NAME.toml or NAME.md
        #[arg(long, value_name = "FILE")]
        to: PathBuf,
        /// What it is to be [default: by the name]
        #[arg(long, value_enum)]
        format: Option<LessonFormat>,
        /// Only lessons about this kernel
        #[arg(long, value_name = "NAME")]
        kernel: Option<String>,
        /// Replace a file that is already there
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        project: ProjectArgs,
    },
    /// Take lessons of another project over
    #[command(after_help = "Example:\n  kiln lessons import lessons.toml")]
    Import {
        /// What `kiln lessons export` wrote
        file: PathBuf,
        /// They are about the kernel of this name here
        #[arg(long, value_name = "NAME")]
        kernel: Option<String>,
        #[command(flatten)]
        project: ProjectArgs,
    },
    /// Retire a lesson: it is no longer shown or used
    #[command(after_help = "Example:\n  kiln lessons forget L2fca5 --because rewritten")]
    Forget {
        /// Its name, or the beginning of it
        lesson: String,
        /// Why, for whoever wonders later
        #[arg(long, value_name = "TEXT", default_value = "")]
        because: String,
        #[command(flatten)]
        project: ProjectArgs,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LessonFormat {
    Toml,
    Markdown,
}
