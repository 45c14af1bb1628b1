//! What lies around an NVRTC library: its headers and nvcc, in every layout NVIDIA ships.
//!
//! - a toolkit: `ROOT/lib64` (or `targets/*/lib`), `ROOT/include`, `ROOT/bin/nvcc`
//! - Python wheels since CUDA 13: `nvidia/cu13/lib`, `nvidia/cu13/include`
//! - Python wheels before: `nvidia/cuda_nvrtc/lib`, headers in `nvidia/cuda_runtime/include` and
//!   other siblings
//! - a distribution's packages: `/usr/lib/TARGET`, headers in `/usr/include`

use std::fs;
use std::path::{Path, PathBuf};

/// Kernels usually include one of these; the last two are pulled in by the others.
const HEADERS: [&str; 4] = [
    "cuda_fp16.h",
    "cuda_runtime_api.h",
    "nv/target",
    "crt/host_defines.h",
];

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Layout {
    pub library: PathBuf,
    pub include_dirs: Vec<PathBuf>,
    pub nvcc: Option<PathBuf>,
}

impl Layout {
    /// Of a library, a folder with libraries, a toolkit or a wheel's folder.
    pub fn of(root: &Path) -> Option<Layout> {
        let library = if root.is_file() {
            library_version(root)?;
            root.to_path_buf()
        } else {
            library_dirs(root)
                .iter()
                .find_map(|dir| newest_library(dir))?
        };
        let base = library.parent()?.parent()?.to_path_buf();
        let include_dirs = include_dirs(&base);
        let nvcc = [
            base.join("bin/nvcc"),
            // `targets/x86_64-linux/lib` and `/usr/lib/TARGET`.
            base.join("../../bin/nvcc"),
            base.join("../bin/nvcc"),
        ];
        Some(Layout {
            library,
            include_dirs,
            nvcc: nvcc.into_iter().find(|path| path.is_file()),
        })
    }

    /// Beside the library, with the very version in its name.
    pub fn builtins(&self, version: &str) -> Option<PathBuf> {
        let name = format!("libnvrtc-builtins.so.{version}");
        let path = self.library.parent()?.join(name);
        path.is_file().then_some(path)
    }

    pub fn missing_headers(&self) -> Vec<&'static str> {
        let has = |header: &str| {
            self.include_dirs
                .iter()
                .any(|dir| dir.join(header).is_file())
        };
        HEADERS.into_iter().filter(|header| !has(header)).collect()
    }
}

/// Folders of a Python environment's packages that may hold NVRTC, newest first.
pub(super) fn wheel_roots(packages: &Path) -> Vec<PathBuf> {
    let nvidia = packages.join("nvidia");
    let mut merged: Vec<(u32, PathBuf)> = entries(&nvidia)
        .filter_map(|path| {
            let name = path.file_name()?.to_str()?.strip_prefix("cu")?;
            Some((name.parse().ok()?, path))
        })
        .collect();
    merged.sort_by_key(|(version, _)| std::cmp::Reverse(*version));
    let merged = merged.into_iter().map(|(_, path)| path);
    merged.chain([nvidia.join("cuda_nvrtc")]).collect()
}

fn library_dirs(root: &Path) -> Vec<PathBuf> {
    let targets = entries(&root.join("targets")).map(|target| target.join("lib"));
    let mut dirs = vec![root.join("lib64"), root.join("lib")];
    dirs.extend(targets);
    dirs.push(root.to_path_buf());
    dirs
}

fn newest_library(dir: &Path) -> Option<PathBuf> {
    entries(dir)
        .filter_map(|path| Some((library_version(&path)?, path)))
        .filter(|(_, path)| path.is_file())
        .max()
        .map(|(_, path)| path)
}

/// The numbers behind `libnvrtc.so`; nothing for other files.
fn library_version(path: &Path) -> Option<Vec<u32>> {
    let rest = path.file_name()?.to_str()?.strip_prefix("libnvrtc.so")?;
    if rest.is_empty() {
        return Some(Vec::new());
    }
    rest.strip_prefix('.')?
        .split('.')
        .map(|number| number.parse().ok())
        .collect()
}

fn include_dirs(base: &Path) -> Vec<PathBuf> {
    let mut candidates = vec![
        base.join("include"),
        base.join("include/cccl"),
        base.join("../../include"),
        base.join("../include"),
    ];
    for sibling in ["cuda_runtime", "cuda_cccl", "cuda_nvcc", "cuda_crt"] {
        candidates.push(base.join("..").join(sibling).join("include"));
    }
    let mut found: Vec<PathBuf> = Vec::new();
    for candidate in candidates {
        let useful = HEADERS
            .iter()
            .any(|header| candidate.join(header).is_file());
        // The clean path: it stands in messages and keys.
        let Some(clean) = useful.then(|| candidate.canonicalize().ok()).flatten() else {
            continue;
        };
        if !found.contains(&clean) {
            found.push(clean);
        }
    }
    found
}

fn entries(dir: &Path) -> std::vec::IntoIter<PathBuf> {
    let mut paths: Vec<PathBuf> = fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .collect();
    paths.sort();
    paths.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes empty files; returns the folder.
    fn tree(files: &[&str]) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        for file in files {
            let path = root.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        (dir, root)
    }

    #[test]
    fn a_toolkit() {
        let (_dir, root) = tree(&[
            "lib64/libnvrtc.so",
            "lib64/libnvrtc.so.12",
            "lib64/libnvrtc.so.12.4.127",
            "lib64/libnvrtc.alt.so.12",
            "lib64/libnvrtc_static.a",
            "lib64/libnvrtc-builtins.so.12.4",
            "include/cuda_fp16.h",
            "include/cuda_runtime_api.h",
            "include/nv/target",
            "include/crt/host_defines.h",
            "bin/nvcc",
        ]);
        let layout = Layout::of(&root).unwrap();
        assert_eq!(layout.library, root.join("lib64/libnvrtc.so.12.4.127"));
        assert_eq!(
            layout.builtins("12.4").unwrap(),
            root.join("lib64/libnvrtc-builtins.so.12.4")
        );
        assert_eq!(layout.builtins("12.5"), None);
        assert_eq!(layout.include_dirs, [root.join("include")]);
        assert_eq!(layout.nvcc, Some(root.join("bin/nvcc")));
        assert!(layout.missing_headers().is_empty());
        // The file itself and its folder lead to the same.
        let library = root.join("lib64/libnvrtc.so.12.4.127");
        assert_eq!(Layout::of(&library).unwrap(), layout);
        assert_eq!(Layout::of(&root.join("lib64")).unwrap(), layout);
        assert_eq!(Layout::of(&root.join("bin/nvcc")), None);
        assert_eq!(Layout::of(&root.join("absent")), None);
    }

    #[test]
    fn wheels_of_both_generations() {
        let (_dir, root) = tree(&[
            "nvidia/cu13/lib/libnvrtc.so.13",
            "nvidia/cu13/include/cuda_fp16.h",
            "nvidia/cu13/include/cccl/nv/target",
            "nvidia/cuda_nvrtc/lib/libnvrtc.so.12",
            "nvidia/cuda_runtime/include/cuda_fp16.h",
            "nvidia/cuda_cccl/include/nv/target",
            "nvidia/curand/lib/x",
        ]);
        let roots = wheel_roots(&root);
        assert_eq!(
            roots,
            [root.join("nvidia/cu13"), root.join("nvidia/cuda_nvrtc")]
        );
        let new = Layout::of(&roots[0]).unwrap();
        let include = root.join("nvidia/cu13/include");
        assert_eq!(
            new.include_dirs[..2],
            [include.clone(), include.join("cccl")]
        );
        let old = Layout::of(&roots[1]).unwrap();
        assert_eq!(
            old.library,
            root.join("nvidia/cuda_nvrtc/lib/libnvrtc.so.12")
        );
        let nvidia = root.join("nvidia");
        let expected = [
            nvidia.join("cuda_runtime/include"),
            nvidia.join("cuda_cccl/include"),
        ];
        assert_eq!(old.include_dirs, expected);
        assert_eq!(
            old.missing_headers(),
            ["cuda_runtime_api.h", "crt/host_defines.h"]
        );
    }

    #[test]
    fn a_distribution_and_targets() {
        let (_dir, root) = tree(&[
            "usr/lib/x86_64-linux-gnu/libnvrtc.so.11.8.89",
            "usr/include/cuda_fp16.h",
            "usr/bin/nvcc",
            "kit/targets/sbsa-linux/lib/libnvrtc.so.13",
            "kit/targets/sbsa-linux/include/cuda_fp16.h",
            "kit/bin/nvcc",
        ]);
        let usr = Layout::of(&root.join("usr/lib/x86_64-linux-gnu")).unwrap();
        assert_eq!(usr.include_dirs, [root.join("usr/include")]);
        assert!(
            usr.nvcc
                .unwrap()
                .canonicalize()
                .unwrap()
                .ends_with("usr/bin/nvcc")
        );
        let kit = Layout::of(&root.join("kit")).unwrap();
        assert_eq!(
            kit.include_dirs,
            [root.join("kit/targets/sbsa-linux/include")]
        );
        assert!(kit.nvcc.is_some());
    }
}
