//! Whether a folder is, file by file, the package that was exported: nothing changed, nothing missing, nothing added.
//!
//! Checksums tell damage and stray edits, not who made a package: whoever can write all of it can write them too.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read};
use std::path::Path;

use kiln_core::diagnostic::printable;
use kiln_core::manifest::Manifest;
use sha2::{Digest, Sha256};

use super::files::{SUMS, hexadecimal, inside};
use super::package::{self, Package};
use crate::exit::{Exit, Failure};

/// Far more than any package has.
const MOST_FILES: usize = 100_000;
/// Lists and tables, not images.
const MOST_TEXT_BYTES: u64 = 64 << 20;

/// What is in a folder, found without opening any of it.
#[derive(Default)]
pub struct Contents {
    /// Regular files, by their paths inside.
    pub files: BTreeSet<String>,
    /// What no package has: links, pipes, devices, names that are no text.
    pub odd: Vec<String>,
}

pub fn contents(folder: &Path) -> Result<Contents, Failure> {
    let mut found = Contents::default();
    let mut open = vec![String::new()];
    while let Some(inner) = open.pop() {
        let path = folder.join(&inner);
        let cannot = |e| Failure::bad_path(format!("cannot read `{}`", path.display()), &e);
        for entry in fs::read_dir(&path).map_err(cannot)? {
            let entry = entry.map_err(cannot)?;
            let kind = entry.file_type().map_err(cannot)?;
            let Ok(name) = entry.file_name().into_string() else {
                found.odd.push(format!(
                    "`{}` has a name that is no text",
                    printable(&entry.path().to_string_lossy())
                ));
                continue;
            };
            let name = match inner.is_empty() {
                true => name,
                false => format!("{inner}/{name}"),
            };
            match (kind.is_dir(), kind.is_file()) {
                (true, _) => open.push(name),
                (_, true) => {
                    found.files.insert(name);
                }
                _ => found.odd.push(format!(
                    "`{}` is {}: not part of the package",
                    printable(&name),
                    match kind.is_symlink() {
                        true => "a link",
                        false => "a pipe, a socket or a device",
                    }
                )),
            }
            if found.files.len() + found.odd.len() + open.len() > MOST_FILES {
                return Err(Failure::usage(format!(
                    "`{}` has more than {MOST_FILES} files: that is no package",
                    folder.display()
                ))
                .hint("give the folder that `kiln export` wrote"));
            }
        }
    }
    Ok(found)
}

/// A text that is a regular file of reasonable size; looked at before it is opened, for a pipe has no end.
pub fn text(path: &Path) -> Result<String, String> {
    let facts = fs::symlink_metadata(path).map_err(|e| e.to_string())?;
    match (facts.is_file(), facts.len() <= MOST_TEXT_BYTES) {
        (false, _) => Err("it is not a regular file".into()),
        (_, false) => Err("it is too large".into()),
        _ => fs::read_to_string(path).map_err(|e| e.to_string()),
    }
}

/// Checksums by name, and what is wrong with the list.
fn listed(folder: &Path) -> Result<(BTreeMap<String, String>, Vec<String>), Failure> {
    let path = folder.join(SUMS);
    let shown = path.display();
    let text = text(&path).map_err(|e| {
        Failure::usage(format!("cannot read `{shown}`: {e}"))
            .hint("a package of kiln's has its checksums there")
    })?;
    let mut sums = BTreeMap::new();
    let mut problems = Vec::new();
    for line in text.lines().filter(|l| !l.trim().is_empty()) {
        let Some((sum, name)) = line.split_once("  ") else {
            problems.push(format!("`{SUMS}` has a line that is no checksum"));
            continue;
        };
        if inside(folder, name).is_none() {
            problems.push(format!("`{}` lies outside the package", printable(name)));
        } else if sums.insert(name.to_string(), sum.to_string()).is_some() {
            problems.push(format!("`{}` is listed twice in `{SUMS}`", printable(name)));
        }
    }
    match sums.is_empty() {
        true => Err(Failure::new(
            Exit::Usage,
            format!("`{shown}` lists no file"),
        )),
        false => Ok((sums, problems)),
    }
}

/// Whether Python, `build.sh` or cargo makes exactly such a file from what a package lists.
fn is_made(sums: &BTreeMap<String, String>, name: &str) -> bool {
    is_bytecode(sums, name) || is_by_script(sums, name) || is_by_cargo(sums, name)
}

/// `folder/__pycache__/module.cpython-311.pyc` of a `folder/module.py`.
fn is_bytecode(sums: &BTreeMap<String, String>, name: &str) -> bool {
    let Some((folder, file)) = name
        .rsplit_once("__pycache__/")
        .filter(|(folder, _)| folder.is_empty() || folder.ends_with('/'))
    else {
        return false;
    };
    let module = file.split('.').next().unwrap_or_default();
    file.ends_with(".pyc") && sums.contains_key(&format!("{folder}{module}.py"))
}

/// The example, the library, and an object for every unit.
fn is_by_script(sums: &BTreeMap<String, String>, name: &str) -> bool {
    if !sums.contains_key("build.sh") || name.contains('/') {
        return false;
    }
    let object = name.strip_suffix(".o").map(|unit| format!("{unit}.c"));
    let library = name
        .strip_prefix("lib")
        .and_then(|name| name.strip_suffix(".a"))
        .map(|name| format!("{name}.hpp"));
    let from = object.or(library).unwrap_or_else(|| match name {
        "example" => "example.cpp".into(),
        _ => String::new(),
    });
    sums.contains_key(&from)
}

/// What lies where cargo puts what it builds.
fn is_by_cargo(sums: &BTreeMap<String, String>, name: &str) -> bool {
    const OWN: [&str; 3] = [
        "CACHEDIR.TAG",
        ".rustc_info.json",
        ".rustdoc_fingerprint.json",
    ];
    if !sums.contains_key("Cargo.toml") {
        return false;
    }
    let Some(inner) = name.strip_prefix("target/") else {
        return name == "Cargo.lock";
    };
    let mut folders = inner.split('/');
    let is_profile = |folder: &str| ["debug", "release", "doc", "tmp"].contains(&folder);
    let first = folders.next().unwrap_or_default();
    match folders.next() {
        None => OWN.contains(&first),
        // A folder for every platform that was named.
        Some(second) => {
            is_profile(first)
                || (first.contains('-') && (is_profile(second) || OWN.contains(&second)))
        }
    }
}

/// What a new package must not replace: files of a folder that its list does not name and that no build or interpreter made
/// from what it names, and files that are not as they were exported.
pub fn strangers(folder: &Path) -> Result<Vec<String>, Failure> {
    let found = contents(folder)?;
    let (sums, _) = listed(folder)?;
    let mut strange = found.odd;
    for name in found.files.iter().filter(|name| *name != SUMS) {
        let shown = printable(name);
        match sums.get(name) {
            None if is_made(&sums, name) => {}
            None => strange.push(format!("`{shown}`")),
            Some(sum) => {
                let own = digest(&folder.join(name)).map_err(|e| {
                    Failure::bad_path(format!("cannot read `{}`", folder.join(name).display()), &e)
                })?;
                if own != *sum {
                    strange.push(format!("`{shown}` (changed since it was exported)"));
                }
            }
        }
    }
    Ok(strange)
}

/// What a folder is, held against its list.
pub struct Seal {
    /// What is wrong with it; nothing where it is what was exported, and all of it.
    pub problems: Vec<String>,
    /// Files that using the package makes; nobody vouches for them.
    pub made: usize,
}

pub fn examine(folder: &Path, package: &Package) -> Result<Seal, Failure> {
    let found = contents(folder)?;
    let (sums, mut problems) = listed(folder)?;
    let mut made = 0;
    problems.extend(found.odd.iter().cloned());
    let mut actual: BTreeMap<&str, String> = BTreeMap::new();
    for name in found.files.iter().filter(|name| *name != SUMS) {
        let shown = printable(name);
        let Some(sum) = sums.get(name) else {
            match is_made(&sums, name) {
                true => made += 1,
                false => problems.push(format!("`{shown}` is not part of the package")),
            }
            continue;
        };
        match digest(&folder.join(name)) {
            Ok(own) => {
                if own != *sum {
                    problems.push(format!("`{shown}` is not as it was exported"));
                }
                actual.insert(name, own);
            }
            Err(e) => problems.push(format!("`{shown}`: {e}")),
        }
    }
    for name in sums.keys().filter(|name| !found.files.contains(*name)) {
        problems.push(format!("`{}` is missing", printable(name)));
    }
    for name in [package::FILE, &package.manifest] {
        if !sums.contains_key(name) {
            problems.push(format!("`{SUMS}` does not list `{}`", printable(name)));
        }
    }
    for image in package.configs.iter().flat_map(|c| &c.images) {
        if actual.get(image.file.as_str()) != Some(&image.sha256) {
            problems.push(format!(
                "`{}` is not the image that `{}` describes",
                printable(&image.file),
                package::FILE
            ));
        }
    }
    if problems.is_empty() {
        problems.extend(disagreements(folder, package));
    }
    Ok(Seal { problems, made })
}

/// Where the table and the packaged manifest name a shape alike and mean different sizes.
fn disagreements(folder: &Path, package: &Package) -> Vec<String> {
    let name = printable(&package.manifest);
    let parsed = text(&folder.join(&package.manifest))
        .map_err(|e| vec![format!("`{name}`: {e}")])
        .and_then(|text| {
            Manifest::parse(&text).map_err(|problems| {
                problems
                    .iter()
                    .map(|p| format!("`{name}`: {}", printable(&p.message)))
                    .collect()
            })
        });
    let manifest = match parsed {
        Ok(manifest) => manifest,
        Err(problems) => return problems,
    };
    let sizes = |dimensions: &BTreeMap<String, i64>| {
        let each: Vec<String> = dimensions.iter().map(|(n, v)| format!("{n}={v}")).collect();
        printable(&each.join(" "))
    };
    let mut found = Vec::new();
    for entry in &package.dispatch {
        let shape = printable(&entry.shape);
        let mut shapes = manifest.shapes.iter();
        match shapes.find(|s| s.name == entry.shape) {
            None => found.push(format!(
                "`{name}` has no shape `{shape}`, `{}` has",
                package::FILE
            )),
            Some(written) => {
                let written: BTreeMap<String, i64> = written.dimensions.iter().cloned().collect();
                if written != entry.dimensions {
                    found.push(format!(
                        "shape `{shape}` is {} in `{}` and {} in `{name}`",
                        sizes(&entry.dimensions),
                        package::FILE,
                        sizes(&written)
                    ));
                }
            }
        }
    }
    found
}

fn digest(path: &Path) -> io::Result<String> {
    let mut file = fs::File::open(path)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hexadecimal(&hasher.finalize())),
            count => hasher.update(&buffer[..count]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_built_from_a_package_is_taken_for_built() {
        let listed = [
            "build.sh",
            "example.cpp",
            "k.hpp",
            "k_c0.c",
            "Cargo.toml",
            "__init__.py",
            "source/ref.py",
        ];
        let sums: BTreeMap<String, String> = listed
            .iter()
            .map(|name| (name.to_string(), String::new()))
            .collect();
        for made in [
            "example",
            "libk.a",
            "k_c0.o",
            "Cargo.lock",
            "target/CACHEDIR.TAG",
            "target/release/deps/k.d",
            "target/x86_64-unknown-linux-gnu/release/k",
            "__pycache__/__init__.cpython-311.pyc",
            "source/__pycache__/ref.cpython-313.opt-1.pyc",
        ] {
            assert!(is_made(&sums, made), "{made}");
        }
        for own in [
            "notes.txt",
            "mine.o",
            "libmine.a",
            "main",
            "target/notes.txt",
            "target/mine/notes.txt",
            "src/target/release/x",
            "__pycache__/mine.txt",
            "__pycache__/mine.cpython-311.pyc",
            "source/__pycache__/__init__.cpython-311.pyc",
            "my__pycache__/__init__.cpython-311.pyc",
        ] {
            assert!(!is_made(&sums, own), "{own}");
        }
    }
}
