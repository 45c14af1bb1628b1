//! Where recorded spaces are.

use std::path::{Path, PathBuf};

/// The full collection where there is one, otherwise what the repository carries.
pub fn spaces() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let given = std::env::var_os("KILN_SPACES").map(PathBuf::from);
    let beside = here.join("../../../shared/spaces");
    let own = here.join("tests/spaces");
    given
        .or_else(|| beside.is_dir().then_some(beside))
        .unwrap_or(own)
}

pub fn tables(spaces: &Path) -> Vec<PathBuf> {
    let list = |folder: &Path| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|e| e.path()).collect()
    };
    let is_table = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.ends_with(".json.gz") && !name.ends_with("_T4.json.gz")
    };
    let mut tables: Vec<PathBuf> = list(spaces)
        .into_iter()
        .filter(|folder| folder.join("T1.json").is_file())
        .flat_map(|folder| list(&folder))
        .filter(is_table)
        .collect();
    tables.sort();
    assert!(
        !tables.is_empty(),
        "no recorded spaces in {}; set KILN_SPACES",
        spaces.display()
    );
    tables
}
