//! Functions that a manifest names, held against the source before anything is compiled: that code has them, that files
//! they may be in are there, and that the kernel's entry takes the manifest's arguments.

use std::path::{Path, PathBuf};

use kiln_core::diagnostic::Diagnostic;
use kiln_core::manifest::{Language, Reference, code_only, plain_name, wrong_parameters};

use super::includes::{has_word, words};
use super::{ReferenceFile, Task};
use crate::exit::Failure;
use crate::settings;

impl Task {
    /// Stricter than looking for the name: a comment, a string and the name of a header are no function.
    pub(super) fn check_definitions(&self) -> Result<(), Failure> {
        let manifest = self.manifest();
        let kernel = &manifest.kernel;
        let mut named = vec![(
            &self.source,
            kernel.entry.value.as_str(),
            &kernel.entry.span,
        )];
        if let (ReferenceFile::C { path }, Some(Reference::C { source, entry, .. }))
        | (ReferenceFile::Kernel { path }, Some(Reference::Kernel { source, entry, .. })) =
            (&self.reference, &manifest.reference)
        {
            named.push((path, entry, &source.span));
        }
        for (path, function, span) in named {
            let function = plain_name(function);
            let texts = self.files_from(path);
            let code = texts.iter().map(|(_, text)| code_only(text));
            if code.into_iter().any(|code| has_word(&code, function)) {
                continue;
            }
            // A header that only the compiler finds may have it.
            let includes = texts.iter().any(|(_, text)| has_word(text, "include"));
            if includes && self.has_further_folders() {
                continue;
            }
            let file = name_of(path);
            let missing = texts
                .iter()
                .find_map(|(from, text)| Some((from, self.missing_include(from, text)?)));
            let problem = match missing {
                Some((from, include)) => Diagnostic::new(
                    format!(
                        "`{file}` has no function `{function}`, and `{}` includes `{include}`, which is not there",
                        name_of(from)
                    ),
                    span.clone(),
                )
                .hint("put the header beside the source, or its folder into `include_dirs`"),
                // Where the word is nowhere at all, others say which one may be meant.
                None if !texts.iter().any(|(_, text)| has_word(text, function)) => continue,
                None => Diagnostic::new(
                    format!("`{file}` has no function `{function}`"),
                    span.clone(),
                )
                .hint("the name is there only in a comment, a string, or the name of a header"),
            };
            let near = texts.iter().flat_map(|(_, text)| words(text));
            let near = kiln_core::diagnostic::nearest(function, near);
            let near = near.filter(|near| *near != function);
            let hint = near.map(|near| format!("did you mean `{near}`?"));
            let problem = hint.into_iter().fold(problem, Diagnostic::hint);
            return Err(self.file.error(&problem));
        }
        Ok(())
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
        let mut flags = manifest.kernel.flags.iter().chain(reference);
        let leads = |flag: &String| {
            let starts = ["-I", "-i", "--include", "--pre-include", "--system-include"];
            starts.iter().any(|start| flag.starts_with(start))
        };
        flags.any(leads) || settings::names_header_dirs()
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

fn name_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}
