//! Tunables that nothing uses: all their values make the same kernel, and every trial of another one is wasted.

use std::fs;
use std::path::PathBuf;

use kiln_core::compiler_flags::{self, Dialect};
use kiln_core::manifest::{ArgumentKind, CudaCompiler, Language, Manifest, depends_on_macro};
use kiln_device::includes::reachable;

use super::Task;
use super::flags::placed;
use super::includes::has_word;
use crate::project::ManifestFile;

/// What to say about them.
pub fn caution(names: &[&str]) -> Option<String> {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    let (tunables, are, their) = match names {
        [] => return None,
        [_] => ("tunable", "is", "its"),
        _ => ("tunables", "are", "their"),
    };
    Some(format!(
        "{tunables} {} {are} used by no source, flag, launch, constraint or argument: all {their} values make the same kernel",
        quoted.join(", ")
    ))
}

impl Task {
    /// Whether no config makes a difference to the kernel, though there are tunables.
    pub fn reads_no_tunable(&self) -> bool {
        let count = self.space.tunables().len();
        count > 0 && self.unread_tunables().len() == count
    }

    /// Most likely mistyped, or no longer in the source.
    pub fn unused_tunables(&self) -> Vec<&str> {
        without_constraints(self.unread_tunables(), self.manifest())
    }

    /// Tunables that make no difference to the kernel or its launch, whatever else they are for.
    fn unread_tunables(&self) -> Vec<&str> {
        if self.replayed.is_some() {
            return Vec::new();
        }
        let unused = unnamed(self.manifest());
        let texts = self.closure(vec![self.source.clone()]);
        let texts: Vec<String> = texts.into_iter().map(|(_, text)| text).collect();
        let unused = in_no_text(unused, &texts);
        if unused.is_empty() {
            return unused;
        }
        // The compiler knows of more, but takes its time.
        let texts: Vec<String> = self.kernel_files().into_iter().map(|f| f.text).collect();
        in_no_text(unused, &texts)
    }
}

/// Those that can be told without a compiler: none where only it knows which files are read.
pub fn without_compiler(file: &ManifestFile) -> Vec<&str> {
    let manifest = &file.manifest;
    let unused = without_constraints(unnamed(manifest), manifest);
    let Ok(source) = file.resolve(&manifest.kernel.source) else {
        return Vec::new();
    };
    let dialect = match (manifest.kernel.language, manifest.kernel.compiler) {
        (Language::C, _) => Dialect::Cc,
        (Language::Cuda, CudaCompiler::Nvcc) => Dialect::Nvcc,
        (Language::Cuda, _) => Dialect::Nvrtc,
    };
    let own = manifest.kernel.include_dirs.iter();
    let own = own.filter_map(|dir| file.resolve(dir).ok());
    let folders: Vec<String> = std::iter::once(file.dir().to_path_buf())
        .chain(own)
        .map(|folder: PathBuf| folder.display().to_string())
        .collect();
    let flags = placed(&manifest.kernel.flags, dialect, file.dir(), &folders);
    let searched = compiler_flags::header_folders(&flags, dialect);
    let folders: Vec<String> = folders.into_iter().chain(searched).collect();
    let mut roots = compiler_flags::headers(&flags, dialect);
    roots.push(source.display().to_string());
    let unit: String = roots
        .iter()
        .map(|f| format!("#include \"{f}\"\n"))
        .collect();
    let reached = reachable(&unit, &folders);
    if reached.has_computed || reached.files.is_empty() {
        return Vec::new();
    }
    let texts = reached.files.iter().map(|path| {
        let bytes = fs::read(path).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    });
    in_no_text(unused, &texts.collect::<Vec<_>>())
}

fn in_no_text<'m>(names: Vec<&'m str>, texts: &[String]) -> Vec<&'m str> {
    let is_used = |name: &str| texts.iter().any(|text| depends_on_macro(text, name));
    names.into_iter().filter(|name| !is_used(name)).collect()
}

/// A constraint may need one to choose between others.
fn without_constraints<'m>(names: Vec<&'m str>, manifest: &Manifest) -> Vec<&'m str> {
    let constraints = manifest.constraints.iter().flat_map(|c| c.expr.names());
    let used: Vec<String> = constraints.map(|n| n.name.clone()).collect();
    let is_used = |name: &&str| used.iter().any(|u| u == name);
    names.into_iter().filter(|name| !is_used(name)).collect()
}

/// Tunables that neither launch, arguments, flags nor the name of the entry mention.
fn unnamed(manifest: &Manifest) -> Vec<&str> {
    let launch = &manifest.launch;
    let arguments = manifest.arguments.iter().flat_map(|a| match &a.kind {
        ArgumentKind::Scalar { value } => std::slice::from_ref(value),
        ArgumentKind::Buffer { shape, .. } => shape,
        ArgumentKind::Tma { tile, .. } => tile,
    });
    let expressions = launch
        .grid
        .iter()
        .chain(&launch.block)
        .chain(&launch.cluster)
        .chain(&launch.shared)
        .chain(&launch.threads)
        .chain(arguments);
    let used: Vec<String> = expressions
        .flat_map(|expr| expr.names().into_iter().map(|n| n.name.clone()))
        .collect();
    // `entry = "sum<float, BLOCK>"` has words too.
    let texts = manifest.kernel.flags.iter();
    let texts: Vec<&String> = texts.chain([&manifest.kernel.entry.value]).collect();
    let in_texts = |name: &str| texts.iter().any(|text| has_word(text, name));
    let names = manifest.tunables.iter().map(|t| t.name.as_str());
    names
        .filter(|name| !used.iter().any(|u| u == name) && !in_texts(name))
        .collect()
}
