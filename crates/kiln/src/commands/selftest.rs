//! `kiln selftest`: kiln's promises, tried on this very machine.

use crate::cli::SelftestArgs;
use crate::commands::tune::wait_for_machine;
use crate::engine::interrupt;
use crate::exit::{Exit, Failure};
use crate::printer;
use crate::rows::Rows;
use crate::selftest::{self, Ground, Report, Size};

pub fn run(args: &SelftestArgs) -> Result<Exit, Failure> {
    let sections = selftest::sections(args.backend, &args.only)?;
    interrupt::install().map_err(|e| Failure::machine(format!("cannot watch for Ctrl-C: {e}")))?;
    let size = if args.quick { Size::Quick } else { Size::Full };
    let mut ground = Ground::open(args.backend, size)?;
    ground.pairs = args.pairs;
    ground.rows = Rows::new(args.rows.as_deref())?;
    let _machine = wait_for_machine(&ground.device, false)?;
    let header = ground.header();
    printer::talk(&header.lines());
    let mut reports: Vec<Report> = Vec::new();
    for section in &sections {
        reports.push(section.run(&ground)?);
    }
    let table = selftest::table(&header, &reports);
    if args.json {
        printer::talk(&table);
        printer::document(&selftest::document(&header, &reports));
    } else {
        printer::data(&table);
    }
    let failed = reports.iter().any(Report::has_failed);
    Ok(if failed { Exit::No } else { Exit::Success })
}
