//! Where an NVRTC library could be on this machine, the likeliest to be meant first.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::layout::{Layout, wheel_roots};
use super::{child, install};
use crate::exit::Failure;
use crate::settings;

const ASK_DEADLINE: Duration = Duration::from_secs(20);

pub(super) struct Place {
    /// In words, for one that was found here.
    pub origin: String,
    /// In words, for a search that found nothing.
    pub searched: String,
    /// Folders or files, newest first.
    pub roots: Vec<PathBuf>,
}

impl Place {
    fn new(origin: impl Into<String>, roots: Vec<PathBuf>) -> Place {
        let origin = origin.into();
        Place {
            searched: origin.clone(),
            origin,
            roots,
        }
    }
}

/// What the user named explicitly is the only place: falling back from it would surprise. The
/// others are looked at one after another: asking Python takes longer than all before it.
pub(super) fn all() -> Result<Box<dyn Iterator<Item = Place>>, Failure> {
    if let Some(named) = settings::cuda() {
        let place = explicit(&named)?;
        return Ok(Box::new(std::iter::once(place)));
    }
    let homes = settings::cuda_homes()
        .into_iter()
        .map(|(variable, root)| Place::new(format!("{variable} ({})", root.display()), vec![root]));
    let others: [fn() -> Place; 4] = [own, usual, loader, python];
    Ok(Box::new(homes.chain(others.into_iter().map(|look| look()))))
}

fn own() -> Place {
    let installed = install::installed().into_iter();
    let roots = installed.flat_map(|toolchain| wheel_roots(&toolchain.folder));
    Place::new("kiln's own toolchains", roots.collect())
}

fn explicit(named: &Path) -> Result<Place, Failure> {
    let inside = named.parent().filter(|_| named.ends_with("nvidia"));
    let roots: Vec<PathBuf> = std::iter::once(named.to_path_buf())
        .chain(wheel_roots(named))
        .chain(inside.into_iter().flat_map(wheel_roots))
        .filter(|root| Layout::of(root).is_some())
        .take(1)
        .collect();
    if roots.is_empty() {
        return Err(Failure::machine(format!(
            "KILN_CUDA is `{}`, where there is no NVRTC library",
            named.display()
        ))
        .hint("name a CUDA toolkit, a wheel's `nvidia/cu13` folder or the libnvrtc file itself"));
    }
    Ok(Place::new("KILN_CUDA", roots))
}

fn usual() -> Place {
    let mut roots = vec![PathBuf::from("/usr/local/cuda")];
    roots.extend(versioned(Path::new("/usr/local"), "cuda-"));
    roots.push("/opt/cuda".into());
    roots.extend(versioned(Path::new("/opt"), "cuda-"));
    for target in ["x86_64-linux-gnu", "aarch64-linux-gnu"] {
        roots.push(Path::new("/usr/lib").join(target));
    }
    roots.push("/usr/lib64".into());
    let mut place = Place::new("the system's usual places", roots);
    place.searched = "/usr/local/cuda*, /opt/cuda*, /usr/lib".into();
    place
}

/// Folders whose name is a prefix and a version, newest first.
pub(super) fn versioned(parent: &Path, prefix: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    let mut found: Vec<(Vec<u32>, PathBuf)> = entries
        .filter_map(|entry| {
            let name = entry.file_name();
            let numbers = name.to_str()?.strip_prefix(prefix)?.split('.');
            let version: Option<Vec<u32>> = numbers.map(|n| n.parse().ok()).collect();
            Some((version?, entry.path()))
        })
        .collect();
    found.sort();
    found.into_iter().rev().map(|(_, path)| path).collect()
}

/// What the dynamic loader would find by name.
fn loader() -> Place {
    let mut roots = settings::library_path();
    let mut asked = Command::new("ldconfig");
    // Not on everybody's path.
    asked
        .arg("-p")
        .env("PATH", settings::path_with("/usr/sbin:/sbin"));
    if let Ok(answer) = child::output(&mut asked, Some(ASK_DEADLINE)) {
        roots.extend(loader_cache(&answer.stdout));
    }
    let mut place = Place::new("the loader's path", roots);
    place.searched = "the loader's path (LD_LIBRARY_PATH, ldconfig)".into();
    place
}

/// Lines like `libnvrtc.so.12 (libc6,x86-64) => /usr/lib/libnvrtc.so.12`.
fn loader_cache(listing: &str) -> Vec<PathBuf> {
    listing
        .lines()
        .filter(|line| line.trim_start().starts_with("libnvrtc.so"))
        .filter_map(|line| line.split_once("=> "))
        .map(|(_, path)| PathBuf::from(path.trim()))
        .collect()
}

/// NVIDIA's wheels in the Python environment, which PyTorch brings along.
fn python() -> Place {
    let python = settings::python();
    let mut asked = Command::new(&python);
    asked.args([
        "-c",
        "import sys; print('\\n'.join(p for p in sys.path if p))",
    ]);
    let origin = format!("the Python environment (`{python}`)");
    let roots = match child::output(&mut asked, Some(ASK_DEADLINE)) {
        Ok(answer) if answer.succeeded() => answer
            .stdout
            .lines()
            .flat_map(|path| wheel_roots(Path::new(path)))
            .collect(),
        // No Python, no wheels.
        _ => Vec::new(),
    };
    Place::new(origin, roots)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loaders_listing() {
        let listing = "1432 libs found in cache `/etc/ld.so.cache'\n\
            \tlibnvrtc.so.12 (libc6,x86-64) => /usr/local/cuda/lib64/libnvrtc.so.12\n\
            \tlibnvrtc-builtins.so.12.4 (libc6,x86-64) => /usr/local/cuda/lib64/x\n\
            \tlibnvidia.so (libc6) => /x\n";
        assert_eq!(
            loader_cache(listing),
            [Path::new("/usr/local/cuda/lib64/libnvrtc.so.12")]
        );
    }

    #[test]
    fn newer_versions_come_first() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["cuda-9.2", "cuda-12.10", "cuda-12.9", "cuda", "cuda-x"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        let names: Vec<PathBuf> = versioned(dir.path(), "cuda-");
        let expected = ["cuda-12.10", "cuda-12.9", "cuda-9.2"].map(|n| dir.path().join(n));
        assert_eq!(names, expected);
    }
}
