//! Manual pages from the command line's own definition: one for kiln, one for each verb below it.
//!
//! Names, synopses and options are `clap_mangen`'s. What stands under the options in `--help` is text whose
//! lines belong together in columns, which a manual page would run into one paragraph; it becomes sections
//! here: exit codes, environment, notes, examples.

use std::io;

use clap::Command;
use clap::builder::Resettable;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use crate::exit;

/// One manual page.
#[derive(Debug)]
pub struct Page {
    /// The command as it is typed: `kiln studies show`.
    pub command: String,
    /// In roff.
    pub text: String,
}

impl Page {
    /// `kiln-studies-show.1`, what `man kiln-studies-show` looks for.
    pub fn file_name(&self) -> String {
        format!("{}.1", self.command.replace(' ', "-"))
    }
}

/// The pages of a command and of all verbs below it, itself first.
pub fn pages(command: Command) -> Vec<Page> {
    // `kiln help` has no page: each page is the help.
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let mut pages = Vec::new();
    add_pages(&command, None, &mut pages);
    pages
}

fn add_pages(command: &Command, parent: Option<&str>, pages: &mut Vec<Page>) {
    let name = command
        .get_bin_name()
        .unwrap_or(command.get_name())
        .to_string();
    let text = page(command, parent).expect("writing to memory does not fail");
    pages.push(Page {
        command: name.clone(),
        text,
    });
    for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
        add_pages(verb, Some(&name), pages);
    }
}

fn page(command: &Command, parent: Option<&str>) -> io::Result<String> {
    let below = command
        .get_after_help()
        .map(ToString::to_string)
        .unwrap_or_default();
    let sections = Sections::of(&below);
    let man = Man::new(command.clone().after_help(Resettable::Reset));
    let name = man.get_filename();
    let name = name.trim_end_matches(".1");
    // Not `render_title`: it leaves out the quotes of the empty date, and the version would stand in its place. With a
    // date the same version would give another page every day.
    let title = format!(
        ".TH \"{name}\" 1 \"\" \"kiln {}\" \"kiln\"\n",
        env!("CARGO_PKG_VERSION")
    );
    let mut bytes = title.into_bytes();
    man.render_name_section(&mut bytes)?;
    man.render_synopsis_section(&mut bytes)?;
    man.render_description_section(&mut bytes)?;
    man.render_options_section(&mut bytes)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut bytes)?;
    }
    let mut roff = Roff::new();
    sections.render(&mut roff);
    render_see_also(command, parent, &mut roff);
    roff.to_writer(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    // Every piece brings the same preamble along; a page needs one.
    let preamble = Roff::new().render();
    Ok(format!("{preamble}{}", text.replace(&preamble, "")))
}

/// The text under the options, by the section of the page it belongs to.
#[derive(Debug, Default, PartialEq)]
struct Sections<'t> {
    exit_status: Vec<Block<'t>>,
    environment: Vec<Block<'t>>,
    notes: Vec<Block<'t>>,
    examples: Vec<&'t str>,
}

#[derive(Debug, PartialEq)]
enum Block<'t> {
    Paragraph(Vec<&'t str>),
    /// A term and what it means: `0    done`.
    Entry(&'t str, Vec<&'t str>),
}

impl<'t> Sections<'t> {
    fn of(text: &'t str) -> Sections<'t> {
        let mut sections = Sections::default();
        for paragraph in text.split("\n\n") {
            let (first, rest) = paragraph.split_once('\n').unwrap_or((paragraph, ""));
            match first.split([':', ',']).next() {
                Some("Example") => sections.examples.extend(rest.lines().map(str::trim)),
                // The heading says it already, unless it says more.
                Some("Exit codes") if first == "Exit codes:" => {
                    sections.exit_status.extend(blocks(rest));
                }
                Some("Exit codes") => sections.exit_status.extend(blocks(paragraph)),
                Some("Environment") => sections.environment.extend(blocks(rest)),
                _ => sections.notes.extend(blocks(paragraph)),
            }
        }
        if sections.exit_status.is_empty() {
            sections.exit_status = Sections::of(exit::HELP).exit_status;
        }
        sections
    }

    fn render(&self, roff: &mut Roff) {
        for (heading, blocks) in [
            ("EXIT STATUS", &self.exit_status),
            ("ENVIRONMENT", &self.environment),
            ("NOTES", &self.notes),
        ] {
            if blocks.is_empty() {
                continue;
            }
            roff.control("SH", [heading]);
            blocks.iter().for_each(|block| block.render(roff));
        }
        if !self.examples.is_empty() {
            roff.control("SH", ["EXAMPLES"]);
            roff.control("nf", []);
            for example in &self.examples {
                roff.text([bold(*example)]);
            }
            roff.control("fi", []);
        }
    }
}

impl Block<'_> {
    fn render(&self, roff: &mut Roff) {
        let lines = match self {
            Block::Paragraph(lines) => {
                roff.control("PP", []);
                lines
            }
            Block::Entry(term, lines) => {
                roff.control("TP", []);
                roff.text([bold(*term)]);
                lines
            }
        };
        for line in lines {
            roff.text([roman(*line)]);
        }
    }
}

/// Lines as `--help` has them: entries are indented by two spaces, what continues one by more.
fn blocks(text: &str) -> Vec<Block<'_>> {
    let mut blocks: Vec<Block<'_>> = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let is_indented = line.starts_with("  ");
        match blocks.last_mut() {
            Some(Block::Entry(_, lines)) if line.starts_with("   ") => lines.push(line.trim()),
            Some(Block::Paragraph(lines)) if !is_indented => lines.push(line),
            _ if is_indented => {
                let (term, meaning) = term_and_meaning(line.trim());
                blocks.push(Block::Entry(term, vec![meaning]));
            }
            _ => blocks.push(Block::Paragraph(vec![line])),
        }
    }
    blocks
}

/// Columns are two spaces apart or more, except after the longest term, where it may be one.
fn term_and_meaning(line: &str) -> (&str, &str) {
    let (term, meaning) = line
        .split_once("  ")
        .or_else(|| line.split_once(' '))
        .unwrap_or((line, ""));
    (term, meaning.trim_start())
}

fn render_see_also(command: &Command, parent: Option<&str>, roff: &mut Roff) {
    let verbs = command.get_subcommands().filter(|verb| !verb.is_hide_set());
    let below = verbs.filter_map(Command::get_bin_name);
    let mut names: Vec<&str> = parent.into_iter().chain(below).collect();
    // Variables of the environment are on the first page only.
    if parent.is_some_and(|parent| parent != "kiln") {
        names.insert(0, "kiln");
    }
    let mut line = Vec::new();
    for (number, name) in names.iter().enumerate() {
        if number > 0 {
            line.push(roman(", "));
        }
        line.push(bold(name.replace(' ', "-")));
        line.push(roman("(1)"));
    }
    roff.control("SH", ["SEE ALSO"]);
    roff.text(line);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{cli, settings};

    #[test]
    fn columns_become_terms_and_what_they_mean() {
        assert_eq!(
            blocks("Exit codes:\n  0    done\n  130  interrupted"),
            [
                Block::Paragraph(vec!["Exit codes:"]),
                Block::Entry("0", vec!["done"]),
                Block::Entry("130", vec!["interrupted"]),
            ]
        );
        assert_eq!(
            blocks(
                "Sides:\n  study:3, 3   a study\n               on its source\n  LONGEST a term\nAnd so on.\nTo the end."
            ),
            [
                Block::Paragraph(vec!["Sides:"]),
                Block::Entry("study:3, 3", vec!["a study", "on its source"]),
                Block::Entry("LONGEST", vec!["a term"]),
                Block::Paragraph(vec!["And so on.", "To the end."]),
            ]
        );
    }

    #[test]
    fn every_variable_and_exit_code_has_an_entry_on_the_first_page() {
        let text = format!("{}\n\n{}", exit::HELP, settings::HELP);
        let sections = Sections::of(&text);
        let terms = |blocks: &[Block<'_>]| -> Vec<String> {
            blocks
                .iter()
                .filter_map(|block| match block {
                    Block::Entry(term, meaning) => {
                        assert!(!meaning.concat().is_empty(), "{term}");
                        Some(term.to_string())
                    }
                    Block::Paragraph(_) => None,
                })
                .collect()
        };
        assert_eq!(
            terms(&sections.exit_status),
            ["0", "1", "2", "3", "4", "5", "6", "70", "130"]
        );
        let variables = settings::HELP
            .split_whitespace()
            .filter(|word| word.starts_with("KILN_"))
            .chain(["NO_COLOR, TERM"]);
        assert_eq!(terms(&sections.environment), variables.collect::<Vec<_>>());
        assert_eq!(sections.notes, []);
    }

    #[test]
    fn every_verb_has_a_page_with_an_example_and_exit_codes() {
        let pages = pages(cli::visible());
        assert!(pages.len() > 30, "{}", pages.len());
        assert_eq!(pages[0].file_name(), "kiln.1");
        let names: Vec<String> = pages.iter().map(Page::file_name).collect();
        assert!(names.contains(&"kiln-studies-show.1".into()), "{names:?}");
        for page in &pages {
            for heading in [
                "NAME",
                "SYNOPSIS",
                "OPTIONS",
                "EXIT STATUS",
                "EXAMPLES",
                "SEE ALSO",
            ] {
                let quoted = format!(".SH \"{heading}\"\n");
                let plain = format!(".SH {heading}\n");
                assert!(
                    page.text.contains(&quoted) || page.text.contains(&plain),
                    "{} has no {heading}",
                    page.command
                );
            }
            assert!(page.text.contains("\n.TH \"kiln"), "{}", page.text);
            assert!(
                !page.text.contains("worker("),
                "{} names kiln worker",
                page.command
            );
        }
    }
}
