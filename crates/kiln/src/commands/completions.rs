//! `kiln completions SHELL`: a script that teaches a shell kiln's verbs and options.

use crate::cli::{self, CompletionsArgs};
use crate::exit::{Exit, Failure};
use crate::printer;

pub fn run(args: &CompletionsArgs) -> Result<Exit, Failure> {
    printer::data(&script(args.shell));
    Ok(Exit::Success)
}

fn script(shell: clap_complete::Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut cli::visible(), "kiln", &mut script);
    String::from_utf8_lossy(&script).into_owned()
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
