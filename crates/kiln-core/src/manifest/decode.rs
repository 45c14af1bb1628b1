//! TOML text to [`Manifest`], with every mistake found and placed.
//!
//! Text -> TOML tree with spans -> `check` (names, types, ranges, against `keys`) -> one decoder
//! per table (what single values cannot show: names in expressions, cycles, what excludes what) ->
//! `sizes` (what the expressions come to on each shape).

use toml::de::DeTable;

use super::Manifest;
use super::keys::ROOT;
use crate::diagnostic::{Diagnostic, printable};
use comparison::Known;
use section::Section;

#[cfg(test)]
pub(super) use check::split_function;
pub(super) use check::{is_identifier, wrong_name};

mod arguments;
mod baseline;
mod check;
mod comparison;
mod export;
mod expressions;
mod flags;
mod kernel;
mod launch;
mod reference;
mod section;
mod settings;
mod shapes;
mod sizes;
mod stages;
mod tma;
mod tunables;

/// The version of the format this kiln reads.
const FORMAT: i64 = 1;

/// More than this many are not read by anyone.
const MOST_PROBLEMS: usize = 100;

/// The mistakes found so far.
#[derive(Debug, Default)]
struct Problems {
    found: Vec<Diagnostic>,
}

impl Problems {
    /// Names from the file appear in messages; what they contain must not reach a terminal as is.
    fn push(&mut self, problem: Diagnostic) {
        if self.found.len() >= MOST_PROBLEMS {
            return;
        }
        let problem = Diagnostic {
            message: printable(&problem.message),
            label: printable(&problem.label),
            hints: problem.hints.iter().map(|h| printable(h)).collect(),
            ..problem
        };
        if !self.found.contains(&problem) {
            self.found.push(problem);
        }
    }

    /// In order of position, those about the whole file last; at least one.
    fn into_sorted(mut self) -> Vec<Diagnostic> {
        if self.found.is_empty() {
            self.found
                .push(Diagnostic::whole_file("the manifest cannot be read"));
        }
        self.found
            .sort_by_key(|p| p.span.as_ref().map_or(usize::MAX, |s| s.start));
        self.found
    }
}

impl Manifest {
    /// Reads a manifest. On failure returns all mistakes found, in order of position.
    pub fn parse(text: &str) -> Result<Manifest, Vec<Diagnostic>> {
        let (root, syntax_errors) = DeTable::parse_recoverable(text);
        if !syntax_errors.is_empty() {
            return Err(syntax_problems(&syntax_errors));
        }
        let mut problems = Problems::default();
        let root = root.get_ref();
        check_format(root, &mut problems);
        check::check_root(&ROOT, root, &mut problems);
        let manifest = decode(text, root, &mut problems);
        if problems.found.is_empty() {
            sizes::check(&manifest, root, &mut problems);
        }
        match problems.found[..] {
            [] => Ok(manifest),
            _ => Err(problems.into_sorted()),
        }
    }
}

fn syntax_problems(errors: &[toml::de::Error]) -> Vec<Diagnostic> {
    let mut problems = Problems::default();
    for error in errors {
        let message = format!("not valid TOML: {}", error.message());
        problems.push(match error.span() {
            Some(span) => Diagnostic::new(message, span),
            None => Diagnostic::whole_file(message),
        });
    }
    problems.into_sorted()
}

fn check_format(root: &DeTable, problems: &mut Problems) {
    let Some(item) = root.get("kiln") else {
        return;
    };
    if let Some(version) = section::whole(item)
        && version != FORMAT
    {
        problems.push(
            Diagnostic::new(
                format!("manifest format {version} is not known to this kiln"),
                item.span(),
            )
            .label(format!("this kiln reads format {FORMAT}"))
            .hint(format!(
                "write `kiln = {FORMAT}`, or use the kiln the manifest was written for"
            )),
        );
    }
}

/// The table `[name]` of the file.
fn table<'a>(root: &'a DeTable<'a>, name: &str) -> Section<'a> {
    let key = ROOT.key(name).expect("every table asked for is described");
    let spec = section::table_among(key.kinds).expect("only tables are asked for");
    Section::of(spec, section::find(&ROOT, root, name).map(|e| e.value))
}

/// A key that says nothing about a C kernel.
fn only_for_cuda(section: &Section, title: &str, key: &str) -> Diagnostic {
    Diagnostic::new(
        format!("`{key}` in `[{title}]` is for CUDA kernels"),
        section.place(key),
    )
    .label("this kernel is written in C")
}

/// Decodes what it can; whatever is missing or wrong has been reported.
fn decode<'a>(text: &str, root: &'a DeTable<'a>, problems: &mut Problems) -> Manifest {
    let tunables = tunables::decode(&table(root, "tunables"), problems);
    let names = shapes::names(text, &table(root, "tunables"), &table(root, "shapes"));
    let shapes = shapes::decode(&table(root, "shapes"), &names, problems);
    let language = kernel::language(&table(root, "kernel"), problems);
    let kernel = kernel::decode(&table(root, "kernel"), language, &tunables, problems);
    let constraints = launch::constraints(&table(root, "constraints"), &names, problems);
    let arguments = arguments::decode(&table(root, "arguments"), language, &names, problems);
    let launch = launch::decode(&table(root, "launch"), language, &names, problems);
    let work = launch::work(&table(root, "work"), &names, problems);
    let known = Known {
        names: &names,
        language,
        kernel: &kernel,
    };
    let reference = table(root, "reference");
    let reference = reference::decode(&reference, &known, &arguments, &shapes, problems);
    let baseline = baseline::decode(&table(root, "baseline"), &known, &tunables, problems);
    let (tolerance, nonfinite) = settings::tolerances(&table(root, "tolerance"), &names, problems);
    let gates = settings::gates(&table(root, "gates"));
    let search = settings::search(&table(root, "search"));
    let budget = settings::budget(&table(root, "budget"), problems);
    let measure = settings::measure(&table(root, "measure"), language, problems);
    let confirm = settings::confirm(&table(root, "confirm"), &shapes, problems);
    let admits = settings::admits(&table(root, "tolerance"));
    let stages = stages::decode(&table(root, "stages"), &kernel, &tunables, problems);
    let export = export::decode(&table(root, "export"), &names, &arguments, problems);
    Manifest {
        kernel,
        tunables,
        constraints,
        shapes,
        arguments,
        launch,
        work,
        reference,
        baseline,
        tolerance,
        admits,
        nonfinite,
        gates,
        search,
        budget,
        measure,
        confirm,
        stages,
        export,
    }
}

/// Whether a manifest, be it right or wrong otherwise, has a table of this name, were it empty.
pub fn has_table(text: &str, name: &str) -> bool {
    let (root, _) = DeTable::parse_recoverable(text);
    root.get_ref().contains_key(name)
}
