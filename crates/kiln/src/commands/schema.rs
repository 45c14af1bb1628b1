//! `kiln schema`: the JSON Schema of a manifest.

use kiln_core::manifest;

use crate::exit::{Exit, Failure};
use crate::printer;

pub fn run() -> Result<Exit, Failure> {
    let schema = manifest::json_schema();
    printer::document(&schema);
    Ok(Exit::Success)
}
