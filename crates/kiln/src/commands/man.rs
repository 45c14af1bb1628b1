//! `kiln man`: the manual pages, printed or written to a folder.

use std::fs;
use std::path::Path;

use kiln_core::diagnostic;

use crate::cli::{self, ManArgs};
use crate::exit::{Exit, Failure};
use crate::manual::{self, Page};
use crate::packed::{self, Existing};
use crate::printer;

pub fn run(args: &ManArgs) -> Result<Exit, Failure> {
    let pages = manual::pages(cli::visible());
    match &args.out {
        Some(folder) => write_all(&pages, folder)?,
        None => print_one(&pages, &args.verb)?,
    }
    Ok(Exit::Success)
}

fn write_all(pages: &[Page], folder: &Path) -> Result<(), Failure> {
    let shown = folder.display();
    fs::create_dir_all(folder).map_err(|e| {
        Failure::io(format!("cannot create the folder `{shown}`"), &e)
            .hint("give `--out` a folder that you may write to")
    })?;
    for page in pages {
        let bytes = page.text.clone().into_bytes();
        packed::write(bytes, &folder.join(page.file_name()), Existing::Replace)?;
    }
    printer::data(&shown.to_string());
    printer::talk(&format!(
        "{} pages; read one with `man {}`",
        pages.len(),
        folder.join("kiln-tune.1").display()
    ));
    Ok(())
}

fn print_one(pages: &[Page], verb: &[String]) -> Result<(), Failure> {
    let wanted = verb
        .iter()
        .fold(String::from("kiln"), |name, word| name + " " + word);
    let Some(page) = pages.iter().find(|page| page.command == wanted) else {
        let failure = Failure::usage(format!(
            "there is no page for `{}`",
            diagnostic::printable(&wanted)
        ));
        let known = pages.iter().map(|page| page.command.as_str());
        return Err(match diagnostic::nearest(&wanted, known) {
            Some(near) => failure.hint(format!("did you mean `{near}`?")),
            None => failure.hint("`kiln --help` lists the verbs"),
        });
    };
    printer::data(&page.text);
    if printer::shows_data_on_terminal() {
        let command = wanted.replacen("kiln", "kiln man", 1);
        printer::talk(&format!("hint: `{command} | man -l -` shows it as a page"));
    }
    Ok(())
}
