//! `kiln verify`: an exported package on this machine.

use crate::cli::VerifyArgs;
use crate::exit::{Exit, Failure};
use crate::export;
use crate::printer;

pub fn run(args: &VerifyArgs) -> Result<Exit, Failure> {
    let problems = export::check_sums(&args.package)?;
    for problem in &problems {
        printer::talk(problem);
    }
    Ok(Exit::Success)
}
