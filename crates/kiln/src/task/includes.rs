//! Which files a C or CUDA source takes in, as far as they are the project's.

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

pub fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
}

pub fn has_word(text: &str, word: &str) -> bool {
    words(text).any(|found| found == word)
}
