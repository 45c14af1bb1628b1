//! Headers that NVRTC lacks, because they belong to the host, and that kernels include nevertheless.
//!
//! NVRTC prefers them to every file, so one is left out where the user has a file of that name.
//! Their text decides about images: whoever changes it raises the format of the cache.

use std::path::{Path, PathBuf};

pub(crate) struct Header {
    pub name: &'static str,
    pub text: &'static str,
}

/// The one that declares `CUtensorMap`.
pub(super) const DRIVER: &str = "cuda.h";

const ALL: [Header; 6] = [
    Header {
        name: DRIVER,
        text: include_str!("cuda.h"),
    },
    Header {
        name: "cudaTypedefs.h",
        text: include_str!("cudaTypedefs.h"),
    },
    Header {
        name: "cstdint",
        text: include_str!("cstdint.h"),
    },
    Header {
        name: "stdint.h",
        text: include_str!("stdint.h"),
    },
    Header {
        name: "cstddef",
        text: include_str!("cstddef.h"),
    },
    Header {
        name: "stddef.h",
        text: include_str!("stddef.h"),
    },
];

/// The headers for one unit, and the files whose absence decided so.
pub(super) struct Choice {
    pub headers: Vec<&'static Header>,
    pub absent: Vec<PathBuf>,
}

impl Choice {
    /// `source` is the user's file, if the unit includes one; quotes look beside it.
    pub fn of(source: Option<&Path>, include_dirs: &[String]) -> Choice {
        let include_dirs = include_dirs.iter().map(Path::new);
        let own: Vec<&Path> = include_dirs
            .filter(|dir| !is_toolkit(dir))
            .chain(source.and_then(Path::parent))
            .collect();
        let mut choice = Choice {
            headers: Vec::new(),
            absent: Vec::new(),
        };
        for header in &ALL {
            let places: Vec<PathBuf> = own.iter().map(|dir| dir.join(header.name)).collect();
            if !places.iter().any(|place| place.is_file()) {
                choice.headers.push(header);
                choice.absent.extend(places);
            }
        }
        choice
    }

    pub fn has_driver(&self) -> bool {
        self.headers.iter().any(|header| header.name == DRIVER)
    }
}

/// NVIDIA's own folders have a `cuda.h` that NVRTC cannot read.
fn is_toolkit(dir: &Path) -> bool {
    ["cuda_runtime_api.h", "nv/target"]
        .iter()
        .any(|file| dir.join(file).is_file())
}
