//! What `kiln profile` takes.

use std::path::PathBuf;

use clap::Args;

pub const WHAT: &str = "\
What is profiled: one launch of the kernel in one config, and the baseline, each in a process of its own under NVIDIA's
ncu, clocks left alone. Without ncu, or without the right to read counters, kiln says so, and what else is known: the
compiler's report, the time against what the device can do, and, where the manifest has [stages], what leaving each of
them out brings. A C kernel is profiled by its stages alone.

Exit codes:
  0    something was said; `without_counters` in the JSON document tells whether counters were to be had
  1    the kernel does not run, or gives wrong answers
  2    bad usage, a bad manifest, a file that is no table of ncu
  3    the machine cannot: no device, no compiler
  130  interrupted";

#[derive(Debug, Args)]
pub struct ProfileArgs {
    /// A manifest, a folder with a kiln.toml, or the number of a study, whose winner is profiled [default: the current
    /// folder's manifest]
    #[arg(value_name = "PATH|STUDY")]
    pub what: Option<String>,
    /// Profile on this shape [default: the target]
    #[arg(long, value_name = "NAME", conflicts_with = "shapes")]
    pub shape: Option<String>,
    /// Profile on several shapes and show how the bottleneck moves: names, or `all`
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub shapes: Vec<String>,
    /// Profile this config: NAME=VALUE,… [default: the study's or the latest winner, else the only config]
    #[arg(long, value_name = "NAME=VALUE,…")]
    pub config: Option<String>,
    /// Leave the baseline out
    #[arg(long)]
    pub no_baseline: bool,
    /// Also leave out the manifest's [stages] and say what that brings; without counters that is done anyway
    #[arg(long, conflicts_with_all = ["import", "ceilings"])]
    pub stages: bool,
    /// Read a table that `ncu --csv --page raw` wrote, instead of profiling; needs no device
    #[arg(long, value_name = "FILE", conflicts_with_all = ["shapes", "ceilings", "no_baseline"])]
    pub import: Option<PathBuf>,
    /// Only measure and print what the device can do at the most: copy bandwidth, matrix products, exponentials, launches
    #[arg(long, conflicts_with_all = ["what", "shape", "shapes", "config", "no_baseline"])]
    pub ceilings: bool,
    /// Measure the ceilings again, even if they are known for this device
    #[arg(long, conflicts_with = "import")]
    pub fresh: bool,
    /// Fail instead of waiting when another kiln is measuring on this machine
    #[arg(long, conflicts_with = "import")]
    pub no_wait: bool,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}
