//! Which files a source in C, CUDA or Python takes in, as far as they are the project's.

use std::path::{Path, PathBuf};

/// Those that lie beside the source or in the folders named; headers of the system are not found, and not meant.
pub fn included(from: &Path, text: &str, folders: &[PathBuf]) -> Vec<PathBuf> {
    let own = from.parent().into_iter().map(Path::to_path_buf);
    let folders: Vec<PathBuf> = own.chain(folders.iter().cloned()).collect();
    let lines = text.lines().filter_map(|line| {
        let directive = line.trim().strip_prefix('#')?;
        directive.trim().strip_prefix("include")
    });
    let names = lines.filter_map(|rest| {
        let name = rest.trim().strip_prefix(['"', '<'])?;
        name.split(['"', '>']).next()
    });
    names
        .filter_map(|name| folders.iter().map(|f| f.join(name)).find(|p| p.is_file()))
        .collect()
}

/// Modules that lie beside a Python file and that it imports.
pub fn imported(from: &Path, text: &str) -> Vec<PathBuf> {
    let folder = from.parent().unwrap_or(Path::new("/"));
    let names = text.lines().filter_map(|line| {
        let line = line.trim_start();
        line.strip_prefix("import ")
            .or_else(|| line.strip_prefix("from "))
    });
    names
        .flat_map(|rest| rest.split(" import ").next().unwrap_or_default().split(','))
        .filter_map(|name| name.split_whitespace().next())
        .filter_map(|name| name.trim_start_matches('.').split(['.', ';', '#']).next())
        .map(|name| folder.join(format!("{name}.py")))
        .filter(|path| path.is_file())
        .filter_map(|path| path.canonicalize().ok())
        .collect()
}

pub fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
}

pub fn has_word(text: &str, word: &str) -> bool {
    words(text).any(|found| found == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_beside_a_python_file_are_found_however_they_are_imported() {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["a.py", "b.py", "c.py", "d.py"] {
            std::fs::write(folder.path().join(name), "").expect("written");
        }
        let from = folder.path().join("reference.py");
        let text = "import torch, a\nfrom b import x\ndef f():\n    from .c import y\nimport d as e # here\n";
        let names: Vec<String> = imported(&from, text)
            .iter()
            .filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned()))
            .collect();
        assert_eq!(names, ["a.py", "b.py", "c.py", "d.py"]);
    }
}
