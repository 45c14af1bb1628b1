//! `kiln completions SHELL`: a script that teaches a shell kiln's verbs, options and their values.

use clap::builder::{PossibleValue, PossibleValuesParser};
use kiln_core::search::STRATEGIES;

use crate::cli::{self, CompletionsArgs};
use crate::exit::{Exit, Failure};
use crate::printer;

pub fn run(args: &CompletionsArgs) -> Result<Exit, Failure> {
    printer::data(&script(args.shell));
    Ok(Exit::Success)
}

fn script(shell: clap_complete::Shell) -> String {
    let mut script = Vec::new();
    let mut command = cli::visible()
        .mut_subcommand("tune", |verb| verb.mut_arg("strategy", by_name))
        .mut_subcommand("replay", |verb| {
            verb.mut_arg("strategy", by_name)
                .mut_arg("compare", by_name)
        });
    clap_complete::generate(shell, &mut command, "kiln", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

/// A shell offers the names of strategies. Typed, they are looked up later: kiln's message about a wrong one is the better one.
fn by_name(option: clap::Arg) -> clap::Arg {
    let names = STRATEGIES
        .iter()
        .map(|(name, what)| PossibleValue::new(*name).help(*what));
    option.value_parser(PossibleValuesParser::new(names))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum;
    use kiln_core::diagnostic::printable_lines;

    #[test]
    fn scripts_reach_the_shell_unchanged_and_without_internal_verbs() {
        for shell in clap_complete::Shell::value_variants() {
            let script = script(*shell);
            assert_eq!(
                printable_lines(&script),
                script,
                "{shell}: printing would alter it"
            );
            assert!(script.contains("toolchain"), "{shell}");
            assert!(!script.contains("worker"), "{shell} offers `kiln worker`");
        }
    }
}
