//! Puts the red-team suite and the kernels that ship into the binary, so that `kiln redteam` runs
//! on a machine that has nothing but it.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// Folders of the repository, and what belongs to a task or a kernel in them.
const FOLDERS: [&str; 2] = ["redteam", "kernels"];
const ENDINGS: [&str; 6] = ["c", "h", "cu", "cuh", "toml", "py"];

fn main() -> io::Result<()> {
    let variable = |name: &str| env::var(name).map_err(io::Error::other);
    let root = Path::new(&variable("CARGO_MANIFEST_DIR")?).join("../..");
    let mut list = String::from("pub const FILES: &[(&str, &str)] = &[\n");
    for folder in FOLDERS {
        let folder = root.join(folder);
        println!("cargo::rerun-if-changed={}", folder.display());
        for path in files_below(&folder)? {
            let name = path.strip_prefix(&root).map_err(io::Error::other)?;
            let full = path.canonicalize()?;
            list += &format!(
                "    ({:?}, include_str!({:?})),\n",
                name.display().to_string(),
                full.display().to_string()
            );
        }
    }
    list += "];\n";
    fs::write(
        Path::new(&variable("OUT_DIR")?).join("repository_files.rs"),
        list,
    )
}

/// In the order of their names, so that the same sources give the same binary.
fn files_below(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut entries: Vec<PathBuf> = fs::read_dir(folder)?
        .map(|entry| entry.map(|e| e.path()))
        .collect::<io::Result<_>>()?;
    entries.sort();
    for path in entries {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with('.') {
            continue;
        }
        if path.is_dir() {
            found.extend(files_below(&path)?);
        } else if path
            .extension()
            .is_some_and(|e| ENDINGS.iter().any(|x| e == *x))
        {
            found.push(path);
        }
    }
    Ok(found)
}
