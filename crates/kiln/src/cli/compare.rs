//! The arguments of `kiln compare` and `kiln gate`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::positive;

pub const SIDES: &str = "\
A side is one of:
  study:3, 3              the winner's config of a study, on the source as it is
  BLOCK=64,UNROLL=2       a config, on the source as it is
  other.c                 another source file with the same entry and arguments
  git:HEAD~1              manifest and sources of a revision; git:main:path/kiln.toml names the manifest
  baseline                the manifest's [baseline]
Files and revisions take a config after `@` (other.c@UNROLL=2); without one they get the other
side's, else the latest winner's.";

#[derive(Debug, Args)]
pub struct CompareArgs {
    /// What is compared with
    #[arg(allow_hyphen_values = false)]
    pub a: String,
    /// What is judged: FASTER means that B is faster than A
    pub b: String,
    /// A manifest or a folder with a kiln.toml [default: the current folder's]
    pub path: Option<PathBuf>,
    #[command(flatten)]
    pub how: HowArgs,
    #[command(flatten)]
    pub tell: TellArgs,
}

#[derive(Debug, Args)]
pub struct GateArgs {
    /// A manifest or a folder with a kiln.toml [default: the current folder's]
    pub path: Option<PathBuf>,
    /// The baseline file [default: kiln.gate.toml beside the manifest]
    #[arg(long, value_name = "FILE")]
    pub baseline: Option<PathBuf>,
    /// Write the baseline file from the kernel as it is now, instead of comparing
    #[arg(long, conflicts_with = "ratchet")]
    pub record: bool,
    /// Replace a baseline file that is already there
    #[arg(long, requires = "record")]
    pub force: bool,
    /// When the gate passes, move the baseline of every FASTER shape to the kernel as it is now
    #[arg(long)]
    pub ratchet: bool,
    /// The config of the kernel as it is now [default: the baseline's; with --record the latest
    /// winner's, else the only one]
    #[arg(long, value_name = "NAME=VALUE,…")]
    pub config: Option<String>,
    /// What becomes of a shape that cannot be decided [default: exit code 4]
    #[arg(long, value_enum, value_name = "WHAT")]
    pub undecided: Option<UndecidedArg>,
    #[command(flatten)]
    pub how: HowArgs,
    #[command(flatten)]
    pub tell: TellArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum UndecidedArg {
    Pass,
    Fail,
}

#[derive(Debug, Args)]
pub struct HowArgs {
    /// Shapes to judge, or `all` [default: the target; for `gate` those of its baseline]
    #[arg(
        long = "shape",
        visible_alias = "shapes",
        value_name = "NAME,…",
        value_delimiter = ','
    )]
    pub shapes: Vec<String>,
    /// Differences inside this fraction are the same speed [default: 0.03]
    #[arg(long, value_parser = fraction)]
    pub margin: Option<f64>,
    /// Most seconds of measuring per shape; less when it is decided sooner
    #[arg(long, default_value_t = 60.0, value_parser = positive)]
    pub seconds: f64,
    /// Most samples of each side per shape
    #[arg(long, value_parser = clap::value_parser!(u64).range(12..=1_000_000))]
    pub samples: Option<u64>,
    /// Fail instead of waiting when another kiln is measuring on this machine
    #[arg(long)]
    pub no_wait: bool,
}

#[derive(Debug, Args)]
pub struct TellArgs {
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
    /// Append a summary in Markdown, for instance to "$GITHUB_STEP_SUMMARY"
    #[arg(long, value_name = "FILE")]
    pub markdown: Option<PathBuf>,
    /// Write JUnit XML, one test per shape
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
}

pub fn fraction(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (0.0..1.0).contains(&value) => Ok(value),
        _ => Err("expected a fraction from 0 to below 1: 0.03 is 3 %".into()),
    }
}
