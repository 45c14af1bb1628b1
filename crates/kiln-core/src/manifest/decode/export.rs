//! `[export]`: how an exported kernel is called.

use super::Problems;
use super::comparison::python;
use super::expressions::{self, Names, Scope};
use super::section::{Section, scalar};
use crate::diagnostic::{Diagnostic, nearest};
use crate::manifest::{Argument, Export};

pub(super) fn decode(
    section: &Section,
    names: &Names,
    arguments: &[Argument],
    problems: &mut Problems,
) -> Export {
    let parameters = section.key_section("parameters");
    let mut export = Export {
        fallback: section.written_text("fallback").and_then(python),
        ..Export::default()
    };
    for entry in parameters.iter().flat_map(Section::entries) {
        let name = entry.name();
        let taken = match name {
            _ if names.tunables.iter().any(|t| t == name) => Some("a tunable"),
            _ if names.dimensions.iter().any(|d| d == name) => Some("a dimension"),
            _ if arguments.iter().any(|a| a.name == name) => Some("an argument"),
            _ => None,
        };
        if let Some(what) = taken {
            problems.push(
                Diagnostic::new(
                    format!("parameter `{name}` has the name of {what}"),
                    entry.key.span(),
                )
                .label("a caller could not tell them apart")
                .hint("rename it"),
            );
        }
        if let Some(default) = scalar(entry.value) {
            export.parameters.push((name.to_string(), default));
        }
    }
    let own = Names {
        text: names.text,
        tunables: names.tunables.clone(),
        dimensions: export.parameters.iter().map(|(n, _)| n.clone()).collect(),
        dimensions_known: true,
    };
    let scope = Scope::Dimensions("a caller does not choose tunables; parameters are in [export]");
    let computed = section.key_section("dimensions");
    for entry in computed.iter().flat_map(Section::entries) {
        let name = entry.name();
        if names.dimensions_known && !names.dimensions.iter().any(|d| d == name) {
            let problem = Diagnostic::new(
                format!("the shapes have no dimension `{name}`"),
                entry.key.span(),
            );
            let near = nearest(name, names.dimensions.iter().map(String::as_str));
            problems.push(match near {
                Some(near) => problem.hint(format!("did you mean `{near}`?")),
                None => problem.hint("it computes dimensions of the shapes from parameters"),
            });
            continue;
        }
        let expr = expressions::read(entry.value, scope, &own, problems);
        export.dimensions.push((name.to_string(), expr));
    }
    export
}
