//! A file that the manifest's source includes is no kernel by itself: the source is what reads the tunables, as the
//! pair that `kiln init` writes shows. Such a file, or one given in its place, is compared inside that source.

use std::fs;
use std::path::{Component, Path, PathBuf};

use kiln_core::practice::source_text::code_only;

use super::baseline::{sources_of, within_project};
use super::tree::Tree;
use crate::exit::Failure;
use crate::task::Task;
use crate::task::includes::has_word;

/// What a file that a user named stands for.
#[derive(Debug, PartialEq, Eq)]
pub enum Place {
    /// A kernel by itself.
    Whole,
    /// What the source includes: the kernel as it is.
    Included,
    /// In place of this file, which the source includes.
    Instead(PathBuf),
}

/// The manifest's source and what it includes itself, with their code.
pub struct Surroundings {
    pub source: PathBuf,
    pub code: String,
    pub included: Vec<(PathBuf, String)>,
    pub entry: String,
    pub tunables: Vec<String>,
}

/// A file that was given, all that it includes, and its code.
pub struct Given {
    pub path: PathBuf,
    pub code: String,
    pub reaches: Vec<PathBuf>,
}

impl Surroundings {
    pub fn of(task: &Task) -> Surroundings {
        let source = task.source_path().to_path_buf();
        let included = task.included_by_source();
        Surroundings {
            code: code(&source),
            included: included
                .into_iter()
                .map(|p| (p.clone(), code(&p)))
                .collect(),
            entry: task.manifest().kernel.entry.value.clone(),
            tunables: task
                .manifest()
                .tunables
                .iter()
                .map(|t| t.name.clone())
                .collect(),
            source,
        }
    }

    /// Where a file belongs; `other` is the file on the other side of the comparison.
    pub fn place(&self, given: &Given, other: Option<&Path>) -> Place {
        if given.path == self.source || given.path.file_name() == self.source.file_name() {
            return Place::Whole;
        }
        if self.included.iter().any(|(path, _)| *path == given.path) {
            return Place::Included;
        }
        match self.replaced_by(given, other) {
            // What includes that file wraps it already.
            Some(path) if given.reaches.contains(path) => Place::Whole,
            Some(path) => Place::Instead(path.clone()),
            None => Place::Whole,
        }
    }

    fn replaced_by(&self, given: &Given, other: Option<&Path>) -> Option<&PathBuf> {
        let included = || self.included.iter();
        let name = given.path.file_name();
        if let Some((path, _)) = included().find(|(path, _)| path.file_name() == name) {
            return Some(path);
        }
        let across = included().find(|(path, _)| other == Some(path.as_path()));
        let (path, code) = across.or_else(|| self.with_entry_like(given))?;
        // One that reads what only the source around that file reads needs no source around it.
        let is_around = |name: &&String| has_word(&self.code, name) && !has_word(code, name);
        let mut around = self.tunables.iter().filter(is_around);
        (!around.any(|name| has_word(&given.code, name))).then_some(path)
    }

    /// The only file that has the kernel's function, where the source has not, and the given file has.
    fn with_entry_like(&self, given: &Given) -> Option<&(PathBuf, String)> {
        if has_word(&self.code, &self.entry) || !has_word(&given.code, &self.entry) {
            return None;
        }
        let kind = given.path.extension();
        let mut found = self
            .included
            .iter()
            .filter(|(path, code)| path.extension() == kind && has_word(code, &self.entry));
        match (found.next(), found.next()) {
            (Some(only), None) => Some(only),
            _ => None,
        }
    }
}

impl Given {
    pub fn read(task: &Task, path: &Path) -> Given {
        let files = task.files_from(path).into_iter();
        Given {
            path: path.to_path_buf(),
            code: code(path),
            reaches: files.map(|(path, _)| whole(&path)).collect(),
        }
    }
}

fn code(path: &Path) -> String {
    let bytes = fs::read(path).unwrap_or_default();
    code_only(&String::from_utf8_lossy(&bytes))
}

fn whole(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_path_buf())
}

/// The project with one of its files replaced by another.
pub fn tree_with(task: &Task, replaced: &Path, given: &Path) -> Result<Tree, Failure> {
    let mut sources = sources_of(task)?;
    let place = within_project(task, replaced)?;
    let name = within_project(task, given)?;
    for (path, text) in task.files_from(given) {
        sources
            .files
            .entry(within_project(task, &whole(&path))?)
            .or_insert(text);
    }
    // Beside the other, its own includes are found as before; from elsewhere it has to be included itself.
    let text = match replaced.parent() == given.parent() {
        true => {
            let text = sources.files.get(&name).cloned().unwrap_or_default();
            under_its_name(&name, &text)
        }
        false => {
            let folders = Path::new(&place).components();
            let depth = folders
                .filter(|c| matches!(c, Component::Normal(_)))
                .count();
            format!(
                "#include \"{}{name}\"\n",
                "../".repeat(depth.saturating_sub(1))
            )
        }
    };
    sources.files.insert(place, text);
    super::baseline::unpack(&sources)
}

/// A text that compilers speak of by another name than that of the file it lies in.
fn under_its_name(name: &str, text: &str) -> String {
    match name.contains(['"', '\\', '\n']) {
        true => text.to_string(),
        false => format!("#line 1 \"{name}\"\n{text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `kiln init` writes: `heat_tunable.c` reads FAST, and `heat.c` has the function.
    fn surroundings() -> Surroundings {
        let included = [
            ("/p/heat.c", "void heat(void) { STRIP; }"),
            ("/p/tile.h", "int tile = FAST;"),
        ];
        Surroundings {
            source: "/p/heat_tunable.c".into(),
            code: "#if FAST\n#pragma x\n#endif\n#include \"\"\n".into(),
            included: included.map(|(p, code)| (p.into(), code.into())).to_vec(),
            entry: "heat".into(),
            tunables: vec!["FAST".into(), "STRIP".into()],
        }
    }

    fn place(path: &str, code: &str, other: Option<&str>) -> Place {
        let given = Given {
            path: path.into(),
            code: code.into(),
            reaches: Vec::new(),
        };
        surroundings().place(&given, other.map(Path::new))
    }

    #[test]
    fn files_go_where_the_source_includes_them() {
        let instead = |path: &str| Place::Instead(path.into());
        let bare = "void heat(void) {}";
        assert_eq!(place("/p/heat.c", bare, None), Place::Included);
        assert_eq!(place("/p/old/heat.c", bare, None), instead("/p/heat.c"));
        assert_eq!(place("/p/heat.orig.c", bare, None), instead("/p/heat.c"));
        assert_eq!(
            place("/p/heat.orig.c", "HEAT(void)", Some("/p/heat.c")),
            instead("/p/heat.c"),
            "a macro makes the function"
        );
        assert_eq!(
            place("/p/wide.h", "int tile = 2 * FAST;", Some("/p/tile.h")),
            instead("/p/tile.h"),
            "the included file reads it too"
        );
    }

    #[test]
    fn whole_kernels_stay_whole() {
        let whole =
            |path, code, other| assert_eq!(place(path, code, other), Place::Whole, "{path}");
        whole("/p/heat_tunable.c", "", None);
        whole("/p/old/heat_tunable.c", "", Some("/p/heat.c"));
        // Each reads what only the source around `heat.c` reads.
        whole("/p/other.c", "void heat(void) { FAST; }", None);
        whole(
            "/p/heat_orig_tunable.c",
            "#if FAST\n#endif\n",
            Some("/p/heat.c"),
        );
        whole("/p/heat_orig_tunable.c", "#if FAST\n#endif\n", None);
        whole("/p/nothing.c", "int x;", None);
        let around = Given {
            path: "/p/strips.c".into(),
            code: "void heat(void);".into(),
            reaches: vec!["/p/strips.c".into(), "/p/heat.c".into()],
        };
        assert_eq!(
            surroundings().place(&around, None),
            Place::Whole,
            "it includes heat.c"
        );
    }
}
