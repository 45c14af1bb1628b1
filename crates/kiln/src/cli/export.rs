//! What was typed after `kiln export` and `kiln verify`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::positive;

#[derive(Debug, Args)]
pub struct ExportArgs {
    /// Numbers of the studies, one per shape [default: of the kernel tuned last, the latest of each shape]
    #[arg(value_name = "STUDY", value_parser = super::study_number)]
    pub studies: Vec<u64>,
    /// What the package is for
    #[arg(long, value_enum)]
    pub to: ExportTarget,
    /// The folder to write [default: the kernel's name, and for other targets than torch the target's]
    #[arg(long, value_name = "FOLDER")]
    pub out: Option<PathBuf>,
    /// Take configs from a file of winners instead of studies; needs --manifest
    #[arg(
        long,
        value_name = "FILE",
        requires = "manifest",
        conflicts_with = "studies"
    )]
    pub winners: Option<PathBuf>,
    /// The kernel the winners are of: a manifest or a folder with a kiln.toml
    #[arg(
        long,
        value_name = "PATH",
        requires = "winners",
        conflicts_with = "studies"
    )]
    pub manifest: Option<PathBuf>,
    /// GPU architectures to compile for, e.g. sm_90a [default: that of the studies' device]
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub arch: Vec<String>,
    /// Also export what was not confirmed; the package says so
    #[arg(long)]
    pub unconfirmed: bool,
    /// Replace a package that is already there
    #[arg(long)]
    pub force: bool,
    /// A folder of the project
    #[arg(long, default_value = ".", conflicts_with = "winners")]
    pub project: PathBuf,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExportTarget {
    /// A Python module for PyTorch, without a build step
    Torch,
    /// A C++ header and an example
    Cpp,
    /// A Rust crate and an example
    Rust,
    /// Compiled images and the dispatch table (CUDA)
    Cubin,
    /// The tunables as #define
    Header,
    /// The dispatch table
    Json,
}

#[derive(Debug, Args)]
pub struct VerifyArgs {
    /// The folder of a package
    pub package: PathBuf,
    /// Only these shapes [default: all that were tuned]
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub shapes: Vec<String>,
    /// Check files only; run nothing
    #[arg(long)]
    pub files: bool,
    /// Check files and answers; time nothing
    #[arg(long, conflicts_with = "files")]
    pub answers: bool,
    /// Most seconds of timing per shape
    #[arg(long, default_value_t = 20.0, value_parser = positive)]
    pub seconds: f64,
    /// Fail instead of waiting when another kiln is measuring on this machine
    #[arg(long)]
    pub no_wait: bool,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}
