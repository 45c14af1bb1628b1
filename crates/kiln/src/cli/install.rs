//! What was typed after `kiln completions` and `kiln man`.

use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell;

#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell that is to complete kiln's verbs and options
    #[arg(value_enum)]
    pub shell: Shell,
}

#[derive(Debug, Args)]
pub struct ManArgs {
    /// Print the page of this verb, e.g. `tune` or `studies show` [default: the page of kiln itself]
    #[arg(value_name = "VERB", conflicts_with = "out")]
    pub verb: Vec<String>,
    /// Write all pages to this folder, one per verb, in place of older ones
    #[arg(long, value_name = "FOLDER")]
    pub out: Option<PathBuf>,
}
