//! Functions that a manifest names, held against the source before anything is compiled: that code has them, that files
//! they may be in are there, and that the kernel's entry takes the manifest's arguments.

use std::ops::Range;
use std::path::{Path, PathBuf};

use kiln_core::compiler_flags::{self, Dialect};
use kiln_core::diagnostic::Diagnostic;
use kiln_core::manifest::{
    BaselineKind, Language, Reference, code_only, function_names, plain_name, wrong_parameters,
};

use super::includes::has_word;
use super::{ReferenceFile, Task};
use crate::exit::Failure;
use crate::settings;

impl Task {
    /// A function that the manifest names and its file does not is an error with a place, found before anything is
    /// compiled. In C and CUDA a comment, a string and the name of a header are no function; a definition is not looked
    /// for, because macros may make it.
    pub(super) fn check_functions(&self) -> Result<(), Failure> {
        for (path, function, span) in self.named_functions() {
            let function = plain_name(function);
            let is_python = path.extension().is_some_and(|e| e == "py");
            let has_it = |text: &str| match is_python {
                true => has_word(text, function),
                false => has_word(&code_only(text), function),
            };
            let texts = self.files_from(path);
            // Flags may bring it in.
            let in_others = || self.kernel_files().iter().any(|f| has_it(&f.text));
            if texts.iter().any(|(_, text)| has_it(text)) || (*path == self.source && in_others()) {
                continue;
            }
            let is_mentioned = texts.iter().any(|(_, text)| has_word(text, function));
            // A header that only the compiler finds may have it.
            let includes = texts.iter().any(|(_, text)| has_word(text, "include"));
            let may_be_elsewhere = includes && self.has_further_folders();
            if is_mentioned && may_be_elsewhere {
                continue;
            }
            let mut absent = texts
                .iter()
                .filter_map(|(from, text)| Some((from, self.missing_include(from, text)?)));
            let absent = absent.next().filter(|_| !is_python && !may_be_elsewhere);
            let file = name_of(path);
            let problem = match absent {
                Some((from, include)) => Diagnostic::new(
                    format!(
                        "`{file}` has no function `{function}`, and `{}` includes `{include}`, which is not there",
                        name_of(from)
                    ),
                    span.clone(),
                )
                .hint("put the header beside the source, or its folder into `include_dirs`"),
                None => Diagnostic::new(
                    format!("`{file}` has no function `{function}`"),
                    span.clone(),
                ),
            };
            let problem = match is_mentioned {
                true => problem
                    .hint("the name is there only in a comment, a string, or the name of a header"),
                false => problem,
            };
            let functions: Vec<String> = texts
                .iter()
                .flat_map(|(_, text)| match is_python {
                    true => python_functions(text),
                    false => function_names(text),
                })
                .collect();
            let near = functions.iter().map(String::as_str);
            let near = kiln_core::diagnostic::nearest(function, near);
            let hint = near.map(|near| format!("did you mean `{near}`?"));
            let problem = hint.into_iter().fold(problem, Diagnostic::hint);
            return Err(self.file.error(&problem));
        }
        Ok(())
    }

    /// Where the manifest names a function: its file, its name, and the place that names it.
    fn named_functions(&self) -> Vec<(&PathBuf, &str, &Range<usize>)> {
        let manifest = self.manifest();
        let kernel = &manifest.kernel;
        let mut named = vec![(
            &self.source,
            kernel.entry.value.as_str(),
            &kernel.entry.span,
        )];
        match (&self.reference, &manifest.reference) {
            (ReferenceFile::C { path }, Some(Reference::C { source, entry, .. }))
            | (ReferenceFile::Kernel { path }, Some(Reference::Kernel { source, entry, .. })) => {
                named.push((path, entry, &source.span));
            }
            (ReferenceFile::Python { path }, Some(Reference::Python(python))) => {
                named.push((path, &python.function, &python.source.span));
            }
            _ => {}
        }
        match (&self.baseline, manifest.baseline.as_ref().map(|b| &b.kind)) {
            (
                Some(path),
                Some(
                    BaselineKind::C { source, entry, .. }
                    | BaselineKind::Kernel { source, entry, .. },
                ),
            ) => named.push((path, entry, &source.span)),
            (Some(path), Some(BaselineKind::Python(python))) => {
                named.push((path, &python.function, &python.source.span));
            }
            _ => {}
        }
        named
    }

    /// The kernel's parameters against [arguments], as far as the source can be read. CUDA's compilers are told to.
    pub(super) fn check_parameters(&self) -> Result<(), Failure> {
        let kernel = &self.manifest().kernel;
        if kernel.language != Language::C {
            return Ok(());
        }
        let entry = kernel.entry.value.as_str();
        let texts = self.files_from(&self.source);
        let mut defining = texts
            .iter()
            .filter(|(_, text)| has_word(&code_only(text), entry));
        // More than one file that names it: which of them defines it is for the compiler to say.
        let (Some((path, text)), None) = (defining.next(), defining.next()) else {
            return Ok(());
        };
        let Some(wrong) = wrong_parameters(text, entry, &self.manifest().arguments) else {
            return Ok(());
        };
        let problem = Diagnostic::new(
            format!("`{entry}` in `{}` {}", name_of(path), wrong.problem),
            kernel.entry.span.clone(),
        )
        .hint(wrong.fix);
        Err(self.file.error(&problem))
    }

    /// Whether the compiler looks for headers elsewhere too: by its flags, or by the user's environment.
    fn has_further_folders(&self) -> bool {
        let manifest = self.manifest();
        let reference = match &manifest.reference {
            Some(Reference::C { flags, .. } | Reference::Kernel { flags, .. }) => &flags[..],
            _ => &[],
        };
        let dialect = match manifest.kernel.language {
            Language::C => Dialect::Cc,
            // What nvcc adds to it, several names in one word, makes no difference here.
            Language::Cuda => Dialect::Nvrtc,
        };
        let leads = |flags: &[String]| {
            !compiler_flags::header_folders(flags, dialect).is_empty()
                || !compiler_flags::headers(flags, dialect).is_empty()
        };
        leads(&manifest.kernel.flags) || leads(reference) || settings::names_header_dirs()
    }

    /// A header in quotes that is neither beside the file nor in a folder for headers.
    fn missing_include(&self, from: &Path, text: &str) -> Option<String> {
        let beside = from.parent().map(Path::to_path_buf);
        let folders = self.include_dirs.iter().map(PathBuf::from);
        let folders: Vec<PathBuf> = beside.into_iter().chain(folders).collect();
        let included = text.lines().filter_map(|line| {
            let directive = line.trim_start().strip_prefix('#')?.trim_start();
            let rest = directive.strip_prefix("include")?.trim_start();
            let (name, _) = rest.strip_prefix('"')?.split_once('"')?;
            Some(name.to_string())
        });
        included
            .into_iter()
            .find(|name| !folders.iter().any(|folder| folder.join(name).is_file()))
    }
}

fn python_functions(text: &str) -> Vec<String> {
    let definitions = text.lines().filter_map(|line| {
        let line = line.trim_start();
        let line = line.strip_prefix("async ").unwrap_or(line);
        let (name, _) = line.strip_prefix("def ")?.split_once('(')?;
        Some(name.trim().to_string())
    });
    definitions.collect()
}

fn name_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}
