//! Folders and files that a manifest's flags name: they are found from the manifest's folder, wherever kiln runs.

use std::path::{Path, PathBuf};

use kiln_core::compiler_flags::{self, Dialect, Named};

/// The flags with whole paths.
pub fn placed(
    flags: &[String],
    dialect: Dialect,
    folder: &Path,
    include_dirs: &[String],
) -> Vec<String> {
    let searched = compiler_flags::header_folders(flags, dialect);
    let places: Vec<PathBuf> = searched
        .iter()
        .chain(include_dirs)
        .map(|dir| folder.join(dir))
        .collect();
    compiler_flags::replaced(flags, dialect, |named, name| {
        let path = match named {
            Named::HeaderFolder | Named::LibraryFolder => folder.join(name),
            Named::Header => header(name, folder, &places),
        };
        path.display().to_string()
    })
}

/// A compiler looks for such a header in the folder it runs in and then as for `"name"`. The first is here the manifest's.
fn header(name: &str, folder: &Path, places: &[PathBuf]) -> PathBuf {
    let beside = folder.join(name);
    let found = || places.iter().map(|p| p.join(name)).find(|p| p.is_file());
    match beside.is_file() {
        true => beside,
        // One that is nowhere is the compiler's to report.
        false => found().unwrap_or(beside),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_from_the_folder() {
        let dir = tempfile::tempdir().expect("a folder");
        let folder = dir.path().canonicalize().expect("it is there");
        std::fs::create_dir(folder.join("include")).expect("made");
        std::fs::write(folder.join("include/a.h"), "").expect("written");
        std::fs::write(folder.join("b.h"), "").expect("written");
        let flags =
            "-O2 -Iinclude -I /usr/include -include a.h -include b.h -include c.h -Llib -DX=-Iy";
        let flags: Vec<String> = flags.split(' ').map(str::to_string).collect();
        let shown = folder.display();
        assert_eq!(
            placed(&flags, Dialect::Cc, &folder, &[]).join(" "),
            format!(
                "-O2 -I{shown}/include -I /usr/include -include {shown}/include/a.h -include {shown}/b.h \
                 -include {shown}/c.h -L{shown}/lib -DX=-Iy"
            )
        );
    }
}
