//! What `kiln report` understands.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Number of the study, or a recording: FILE.kiln.json or FILE.kiln.json.gz [default: the latest study]
    #[arg(value_name = "STUDY")]
    pub study: Option<String>,
    /// Show it in the browser
    #[arg(long)]
    pub open: bool,
    /// Write it to this file [default: the page of a study to .kiln/reports of its project, that of a recording
    /// to NAME.html here, all else to standard output]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// What to write
    #[arg(long, value_enum, default_value_t = ReportFormat::Html)]
    pub format: ReportFormat,
    /// Replace a file that is already there
    #[arg(long)]
    pub force: bool,
    /// A folder of the project
    #[arg(long, default_value = ".")]
    pub project: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// One file with all plots, for a browser; it loads nothing
    Html,
    /// For pull requests and notes
    Md,
    /// The document of `kiln tune --json`
    Json,
    /// A row per trial
    Csv,
    /// Results in the field's T4 format
    T4,
}
