//! The command line: exactly what was typed.

use std::path::PathBuf;

use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};

use crate::{exit, settings};

mod compare;
mod export;
mod install;
mod learn;
mod profile;
mod report;

const TUNE_EXAMPLE: &str =
    "Example:\n  kiln tune kernels/attention_cpu --trials 40 --seed 1 --json";

#[derive(Debug, Parser)]
#[command(
    name = "kiln",
    version,
    about = "Takes a tunable kernel, a reference and a baseline; returns a correct, confirmed winner, or an honest negative result.",
    after_help = format!("{TUNE_EXAMPLE}\n\n{}\n\n{}", exit::HELP, settings::HELP),
    subcommand_required = true,
    arg_required_else_help = true
)]
pub struct Cli {
    #[command(subcommand)]
    pub verb: Verb,
}

#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Check driver, GPU, compilers, Python, profilers and disk; each problem comes with its fix
    #[command(after_help = format!("Example:\n  kiln doctor --json\n\n{}", exit::DOCTOR_HELP))]
    Doctor(DoctorArgs),
    /// Search for the fastest config, confirm it against the baseline, and say what was found
    #[command(after_help = format!("{TUNE_EXAMPLE}\n\n{}", exit::HELP))]
    Tune(TuneArgs),
    /// Read a manifest, count its space, apply the gates; optionally compile every config
    #[command(after_help = "Example:\n  kiln check kernels/attention_cpu --explain")]
    Check(CheckArgs),
    /// Count a space: a manifest's, or one another tuner wrote down as T1
    #[command(after_help = "Example:\n  kiln space kernels/attention_cpu --json")]
    Space(SpaceArgs),
    /// Which of two kernels is faster: studies, configs, source files, git revisions, the baseline
    #[command(after_help = format!(
        "Example:\n  kiln compare baseline study:1 kernels/vector_add --seconds 10\n\n{}\n\n{}",
        compare::SIDES, exit::COMPARE_HELP
    ))]
    Compare(CompareArgs),
    /// Say what binds a kernel, with evidence, and what to change next, with the gain to expect
    #[command(after_help = format!(
        "Example:\n  kiln profile --import profile.csv --json\n\n{}",
        profile::WHAT
    ))]
    Profile(ProfileArgs),
    /// Fail when a kernel is slower than the baseline in your repository
    #[command(after_help = format!(
        "Example:\n  kiln gate kernels/vector_add --record\n  kiln gate kernels/vector_add --ratchet --seconds 10\n\n{}",
        exit::GATE_HELP
    ))]
    Gate(GateArgs),
    /// Write confirmed winners as a package that programs can use: for PyTorch, C++, Rust
    #[command(after_help = "Example:\n  kiln export --to torch --out my_kernel")]
    Export(ExportArgs),
    /// Check an exported package on this machine: its files, its answers, its speed
    #[command(after_help = format!("Example:\n  kiln verify my_kernel --answers\n\n{}", exit::VERIFY_HELP))]
    Verify(VerifyArgs),
    /// Write a first manifest for a C or CUDA source file
    #[command(after_help = "Example:\n  kiln init my_kernel.c")]
    Init(InitArgs),
    /// Record a hypothesis and an edit, measure it against the incumbent, keep or reject it
    #[command(after_help = format!(
        "Example:\n  kiln iterate kernels/vector_add --history\n\n{}",
        exit::ITERATE_HELP
    ))]
    Iterate(IterateArgs),
    /// What was learnt about kernels: list, show, export, import, forget
    #[command(after_help = "Example:\n  kiln lessons list")]
    Lessons(LessonsArgs),
    /// List, show, record or export the studies of a project
    #[command(after_help = "Example:\n  kiln studies list")]
    Studies(StudiesArgs),
    /// A study as one HTML file to look at, or as Markdown, JSON, CSV or T4
    #[command(after_help = "Example:\n  kiln report 1 --out report.html")]
    Report(ReportArgs),
    /// Why: what each tunable did to time, which values make configs fail, which line of source fails
    #[command(after_help = "Example:\n  kiln explain\n  kiln explain 1 2 --json")]
    Explain(ExplainArgs),
    /// Try search strategies on a recording of a whole space: no device, thousands of trials a second
    #[command(
        after_help = "Example:\n  kiln replay A100.json.gz --space T1.json --compare auto,random --trials 100"
    )]
    Replay(ReplayArgs),
    /// Look after the compile cache
    #[command(after_help = "Example:\n  kiln cache stats")]
    Cache(CacheArgs),
    /// Show the CUDA compilers of this machine, or install one for kiln
    #[command(after_help = "Example:\n  kiln toolchain --json")]
    Toolchain(ToolchainArgs),
    /// Try kiln's promises on this machine: faults, timing, verdicts, throughput
    #[command(after_help = format!("Example:\n  kiln selftest --backend cpu --quick\n\n{}", exit::SELFTEST_HELP))]
    Selftest(SelftestArgs),
    /// Try to fool kiln: cheating kernels, broken kernels and honest ones, each also in a plain harness
    #[command(after_help = format!("Example:\n  kiln redteam --backend cpu --only cheats --match noop\n\n{}", exit::SELFTEST_HELP))]
    Redteam(RedteamArgs),
    /// Print the JSON Schema of kiln.toml, for editors
    #[command(after_help = "Example:\n  kiln schema > kiln.schema.json")]
    Schema,
    /// Print a script that completes kiln's verbs and options in your shell
    #[command(after_help = "Example:\n  kiln completions bash > kiln.bash")]
    Completions(CompletionsArgs),
    /// Print kiln's manual page or a verb's, or write all of them to a folder
    #[command(after_help = "Example:\n  kiln man tune\n  kiln man --out man/man1")]
    Man(ManArgs),
    /// Internal: the process that compiles or runs candidates
    #[command(hide = true)]
    Worker {
        kind: WorkerArg,
        /// kiln's helper kernels for the GPU.
        support: Option<String>,
        /// What it may reach, as JSON; without it there are no walls.
        #[arg(long)]
        jail: Option<String>,
    },
}

/// The command line as people see it: what completions and manual pages are made from. Generators of
/// completions offer hidden verbs too, so those are left out here.
pub fn visible() -> clap::Command {
    let whole = Cli::command();
    let text = |styled: Option<&clap::builder::StyledStr>| styled.cloned().unwrap_or_default();
    clap::Command::new("kiln")
        .version(env!("CARGO_PKG_VERSION"))
        .about(text(whole.get_about()))
        .after_help(text(whole.get_after_help()))
        .subcommand_required(true)
        .subcommand_value_name("VERB")
        .subcommand_help_heading("VERBS")
        .subcommands(
            whole
                .get_subcommands()
                .filter(|verb| !verb.is_hide_set())
                .cloned(),
        )
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum WorkerArg {
    Compile,
    Cpu,
    Cuda,
}

#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// A manifest or a folder with a kiln.toml: judge the machine by what it needs
    pub path: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct TuneArgs {
    /// A manifest or a folder with a kiln.toml [default: the current folder's, else the built-in kernel]
    pub path: Option<PathBuf>,
    /// Tune for this shape of the manifest [default: its target]
    #[arg(long, value_name = "NAME", conflicts_with = "shapes")]
    pub shape: Option<String>,
    /// Tune several shapes together and find a few configs that serve them all: names, or `all` for the target and
    /// every shape with `use = "sweep"`
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', conflicts_with_all = ["replay", "events", "timings"])]
    pub shapes: Vec<String>,
    /// With --shapes: geomean counts every shape by its `weight`, worst the one that gains least
    #[arg(long, value_enum, requires = "shapes", default_value_t = ObjectiveArg::Geomean)]
    pub objective: ObjectiveArg,
    /// With --shapes: settle for so many configs [default: the fewest within 1 % of the best choice]
    #[arg(long, value_name = "N", requires = "shapes", value_parser = clap::value_parser!(u64).range(1..=1_000))]
    pub configs: Option<u64>,
    /// Most configs to try
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    pub trials: Option<u64>,
    /// Most minutes to search; confirmation comes on top (`max_seconds` in [confirm], 60 by default)
    #[arg(long, value_parser = positive)]
    pub minutes: Option<f64>,
    /// Seed of the search; the same seed, measurements and beginning (`--warm`) give the same trials
    #[arg(long, value_parser = clap::value_parser!(u64).range(..=i64::MAX as u64))]
    pub seed: Option<u64>,
    /// auto, tpe, forest, genetic, annealing, local, random, lhs or exhaustive
    #[arg(long)]
    pub strategy: Option<String>,
    /// Begin with what an earlier study knew: its number, or a recording, a Kernel Tuner cache or a T4
    /// file [default: the latest study of this kernel on another shape, device or source]
    #[arg(long, value_name = "STUDY|FILE", conflicts_with = "cold")]
    pub warm: Option<String>,
    /// Begin with nothing
    #[arg(long)]
    pub cold: bool,
    /// Take every outcome from a recording instead of measuring: needs no device, compiler or
    /// source; without PATH, no manifest either
    #[arg(long, value_name = "FILE", conflicts_with = "jobs")]
    pub replay: Option<PathBuf>,
    /// Compilers to run side by side [default: one per core, fewer when memory is short]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=256))]
    pub jobs: Option<u64>,
    /// Run the winner under compute-sanitizer (CUDA) or with memory checked (C): auto (where it can be had), on or off
    /// [default: `sanitize` in [confirm], else auto]
    #[arg(long, value_name = "WHEN", conflicts_with = "replay")]
    pub sanitize: Option<SanitizeArg>,
    /// Start a new study even if an interrupted one could be continued
    #[arg(long)]
    pub fresh: bool,
    /// Fail instead of waiting when another kiln is measuring on this machine
    #[arg(long)]
    pub no_wait: bool,
    /// Run kernels and compilers with all your rights, e.g. under a debugger; the verdict says so
    #[arg(long)]
    pub no_sandbox: bool,
    /// Print one JSON document at the end
    #[arg(long, conflicts_with = "events")]
    pub json: bool,
    /// Print every event as a JSON line, as it happens
    #[arg(long)]
    pub events: bool,
    /// Show the report in a browser while the study runs, at an address of this machine that is printed
    #[arg(long, value_name = "PORT", num_args = 0..=1, require_equals = true, default_missing_value = "0")]
    pub serve: Option<u16>,
    /// Say where the time went: candidates per minute, waiting for compilers, GPU at work
    #[arg(long)]
    pub timings: bool,
}

#[derive(Debug, Args)]
pub struct CheckArgs {
    /// A manifest or a folder with a kiln.toml
    pub path: Option<PathBuf>,
    /// Look at the space of this shape of the manifest [default: its target]
    #[arg(long, value_name = "NAME")]
    pub shape: Option<String>,
    /// Show one example of each rejection
    #[arg(long)]
    pub explain: bool,
    /// Compile the configs that are left
    #[arg(long)]
    pub compile: bool,
    /// Compile at most this many, spread over the space
    #[arg(long, requires = "compile", value_parser = clap::value_parser!(u64).range(1..))]
    pub limit: Option<u64>,
    /// Compilers to run side by side
    #[arg(long, requires = "compile", value_parser = clap::value_parser!(u64).range(1..=256))]
    pub jobs: Option<u64>,
    /// Print a line for every config that compiles: registers, spills, shared memory, occupancy
    #[arg(long, requires = "compile")]
    pub list: bool,
    /// Run the reference and see whether the check can tell work from pretence, as `tune` does first
    #[arg(long)]
    pub admit: bool,
    /// CUDA architecture to gate and compile for
    #[arg(long, default_value = "sm_80")]
    pub arch: String,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ObjectiveArg {
    Geomean,
    Worst,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum SanitizeArg {
    Auto,
    On,
    Off,
}

#[derive(Debug, Args)]
pub struct SpaceArgs {
    /// A manifest, a folder with a kiln.toml, or a T1 file: FILE.json or FILE.json.gz
    #[arg(value_name = "FILE")]
    pub path: Option<PathBuf>,
    /// CUDA architecture whose limits a manifest's configs must keep
    #[arg(long, default_value = "sm_80")]
    pub arch: String,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

pub use learn::{IterateArgs, LessonFormat, LessonsArgs, LessonsVerb};
pub use profile::ProfileArgs;

pub use compare::{CompareArgs, GateArgs, HowArgs, TellArgs, UndecidedArg};
pub use export::{ExportArgs, ExportTarget, VerifyArgs};
pub use install::{CompletionsArgs, ManArgs};
pub use report::{ReportArgs, ReportFormat};

#[derive(Debug, Args)]
pub struct InitArgs {
    /// The source file: FILE.c or FILE.cu
    pub source: PathBuf,
    /// The function to tune [default: the one named like the file, else the last]
    #[arg(long, value_name = "NAME")]
    pub entry: Option<String>,
    /// Replace a kiln.toml that is already there, and the files that `kiln init` wrote for another function
    #[arg(long)]
    pub force: bool,
}

#[derive(Debug, Args)]
pub struct StudiesArgs {
    #[command(subcommand)]
    pub verb: StudiesVerb,
}

#[derive(Debug, Subcommand)]
pub enum StudiesVerb {
    /// All studies of the project, oldest first
    #[command(after_help = "Example:\n  kiln studies list --json")]
    List {
        #[command(flatten)]
        project: ProjectArgs,
    },
    /// One study: its verdict, best configs and failures
    #[command(after_help = "Example:\n  kiln studies show 1 --trials")]
    Show {
        /// Number of the study [default: the latest]
        id: Option<u64>,
        /// Also list every trial
        #[arg(long)]
        trials: bool,
        /// Show all twelve checks of good practice, not only those that fire
        #[arg(long)]
        practice: bool,
        #[command(flatten)]
        project: ProjectArgs,
    },
    /// Whether studies of a kernel get faster from one to the next
    #[command(after_help = "Example:\n  kiln studies trend")]
    Trend {
        /// Name of the kernel [default: that of the latest measured study]
        kernel: Option<String>,
        #[command(flatten)]
        project: ProjectArgs,
    },
    /// Save a study with all its samples and failures in one file, for `kiln tune --replay`
    #[command(after_help = "Example:\n  kiln studies record --to study.kiln.json.gz")]
    Record {
        /// Number of the study [default: the latest]
        id: Option<u64>,
        /// NAME.kiln.json, or NAME.kiln.json.gz to compress it
        #[arg(long, value_name = "FILE")]
        to: PathBuf,
        /// Replace a file that is already there
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        project: ProjectArgs,
    },
    /// Write a study for the tools of others: its space as T1, its results as T4 or a Kernel Tuner cache file
    #[command(after_help = "Example:\n  kiln studies export --to kernel-tuner --out study.json")]
    Export {
        /// Number of the study [default: the latest]
        id: Option<u64>,
        /// The format
        #[arg(long, value_enum)]
        to: ExportFormat,
        /// NAME.json, or NAME.json.gz to compress it
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
        /// Replace a file that is already there
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        project: ProjectArgs,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    /// Tunables and constraints
    T1,
    /// Results, for any tool that reads the format
    T4,
    /// Results, for Kernel Tuner: to simulate, or to continue from
    KernelTuner,
}

#[derive(Debug, Args)]
pub struct ProjectArgs {
    /// A folder of the project
    #[arg(long, default_value = ".")]
    pub project: PathBuf,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// A study is named by its number; a folder says where to look for it.
pub fn study_number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| match std::path::Path::new(text).is_dir() {
        true => format!(
            "`{text}` is a folder, and a study is named by its number: `--project {text}` looks for it there"
        ),
        false => "a study is named by its number, which `kiln studies list` shows".to_string(),
    })
}

#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// Number of the study [default: the latest]
    #[arg(value_parser = study_number)]
    pub study: Option<u64>,
    /// Run this trial of it once more, watched: which kernel, source line, thread and address failed
    pub trial: Option<u64>,
    /// Only read what is stored: run no failed trial to see where it fails
    #[arg(long, conflicts_with = "trial")]
    pub no_run: bool,
    #[command(flatten)]
    pub project: ProjectArgs,
}

#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// Configs with their times or failures: a Kernel Tuner cache file, a T4 file or a recording of
    /// `kiln studies record`, plain or .gz
    pub recording: PathBuf,
    /// T1 file with the tunables and conditions [default: what the recording holds]
    #[arg(long, value_name = "T1")]
    pub space: Option<PathBuf>,
    /// auto, tpe, forest, genetic, annealing, local, random, lhs or exhaustive
    #[arg(long, default_value = "auto")]
    pub strategy: String,
    /// Several strategies side by side, instead of one
    #[arg(
        long,
        value_name = "NAME,…",
        value_delimiter = ',',
        conflicts_with = "strategy"
    )]
    pub compare: Vec<String>,
    /// Distinct valid configs per search; failed ones count
    #[arg(long, allow_negative_numbers = true, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub trials: u64,
    /// Searches, each with a seed of its own
    #[arg(long, allow_negative_numbers = true, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub repeats: u64,
    /// End a search when its trials have cost so many seconds of compiling and measuring, as recorded
    #[arg(long, allow_negative_numbers = true, value_parser = positive)]
    pub seconds: Option<f64>,
    /// Begin each search with what 200 trials on this recording of the same tunables would have found
    #[arg(long, value_name = "RECORDING")]
    pub warm: Option<PathBuf>,
    /// Configs asked for together
    #[arg(long, allow_negative_numbers = true, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    pub batch: u64,
    /// Size of the first design, for strategies that begin with one; `auto` takes 10 at most
    #[arg(long, allow_negative_numbers = true, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub seed_trials: u64,
    /// Seed of the searches; the same seed finds the same
    #[arg(long, allow_negative_numbers = true, default_value_t = 0)]
    pub seed: u64,
    /// The whole way, trial by trial
    #[arg(long)]
    pub curve: bool,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct CacheArgs {
    #[command(subcommand)]
    pub verb: CacheVerb,
}

#[derive(Debug, Subcommand)]
pub enum CacheVerb {
    /// How many images, how many bytes, where
    #[command(after_help = "Example:\n  kiln cache stats --json")]
    Stats {
        /// Print one JSON document
        #[arg(long)]
        json: bool,
    },
    /// Remove every image
    #[command(after_help = "Example:\n  kiln cache clear")]
    Clear,
    /// Re-read every image and remove damaged ones
    #[command(after_help = "Example:\n  kiln cache verify")]
    Verify,
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct ToolchainArgs {
    #[command(subcommand)]
    pub verb: Option<ToolchainVerb>,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Subcommand)]
pub enum ToolchainVerb {
    /// Fetch NVIDIA's compiler library and headers with pip, into kiln's own folder
    #[command(after_help = "Example:\n  kiln toolchain install --cuda 13.0 --dry-run")]
    Install {
        /// CUDA version
        #[arg(long, default_value = crate::toolchain::install::DEFAULT_CUDA)]
        cuda: String,
        /// A Python that has pip [default: KILN_PYTHON, then python3]
        #[arg(long)]
        python: Option<String>,
        /// Only say what would be fetched
        #[arg(long)]
        dry_run: bool,
    },
    /// Compare what kiln installed, byte for byte, with what it was
    #[command(after_help = "Example:\n  kiln toolchain verify")]
    Verify,
    /// Remove what kiln installed
    #[command(after_help = "Example:\n  kiln toolchain remove")]
    Remove {
        /// CUDA version [default: all]
        #[arg(long)]
        cuda: Option<String>,
    },
}

#[derive(Debug, Args)]
pub struct SelftestArgs {
    /// Where kernels run
    #[arg(long, value_enum, default_value_t = Backend::Cuda)]
    pub backend: Backend,
    /// Only these sections
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Fewer repetitions: a first impression instead of proof
    #[arg(long)]
    pub quick: bool,
    /// Pairs of the same kernel for the section `gate` [default: 1000]
    #[arg(long, value_name = "N", value_parser = pairs)]
    pub pairs: Option<usize>,
    /// Write each pair of the section `gate` to this file the moment it is judged, as one line of JSON
    #[arg(long, value_name = "FILE")]
    pub rows: Option<PathBuf>,
    /// Print one JSON document with all numbers
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct RedteamArgs {
    /// Where kernels run [default: on the CPU, and on the GPU where there is one]
    #[arg(long, value_enum)]
    pub backend: Option<Backend>,
    /// Only these parts: cheats, mutants, honest
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub only: Vec<RedteamPart>,
    /// Only cheats, mutants and honest kernels with this in their name or class; `KERNEL:LINE,FROM-TO` for mutants of
    /// single lines
    #[arg(long = "match", value_name = "TEXT", default_value = "")]
    pub filter: String,
    /// Every mutant and every honest config there is, instead of a sample: takes half an hour and more
    #[arg(long)]
    pub full: bool,
    /// How many mutants, drawn from all there are [default: 80]
    #[arg(long, value_name = "COUNT", conflicts_with = "full", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub mutants: Option<u64>,
    /// Candidates to run side by side, those apart whose time matters [default: 1 on a CPU, 3 on a GPU]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..=64))]
    pub jobs: Option<u64>,
    /// Print one JSON document with every row
    #[arg(long)]
    pub json: bool,
    /// Write each row to this file the moment it is decided, as one line of JSON
    #[arg(long, value_name = "FILE")]
    pub rows: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RedteamPart {
    /// Kernels that cheat: none may be accepted
    Cheats,
    /// Kernels that ship, broken in one place: none may be accepted
    Mutants,
    /// Configs of kernels that ship: hardly any may be refused
    Honest,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Backend {
    Cuda,
    Cpu,
}

fn pairs(text: &str) -> Result<usize, String> {
    match text.parse::<usize>() {
        Ok(count) if (1..=1_000_000).contains(&count) => Ok(count),
        _ => Err("expected a number from 1 to 1000000".into()),
    }
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() && value > 0.0 => Ok(value),
        _ => Err("expected a number above 0".into()),
    }
}
