//! Resource limits. Failing to set one is no reason to stop: each bounds harm that the supervisor's
//! deadlines bound as well.

use nix::sys::prctl;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use super::Inmate;
use crate::compiler_process::IMAGE_LIMIT_BYTES;

/// Not among them: `RLIMIT_NPROC` counts all processes of the user, so any number is wrong on
/// somebody's machine; `RLIMIT_AS` breaks the CUDA driver, which reserves far more than it uses, and
/// is set for compilers with each job.
pub fn set(inmate: Inmate) {
    lower(Resource::RLIMIT_CORE, 0);
    let (file_bytes, files) = match inmate {
        // A kernel has no business with files: not one can grow.
        Inmate::Candidate => (Some(0), Some(1024)),
        // The driver opens as many as it needs.
        Inmate::Driver => (None, None),
        Inmate::CompilerCommand | Inmate::CompilerLibrary => (Some(IMAGE_LIMIT_BYTES), Some(4096)),
    };
    if let Some(bytes) = file_bytes {
        lower(Resource::RLIMIT_FSIZE, bytes);
    }
    if let Some(count) = files {
        lower(Resource::RLIMIT_NOFILE, count);
    }
    // Nobody else of this user may look into the process. The driver names its threads through
    // /proc, whose files would belong to root then.
    if inmate != Inmate::Driver {
        let _ = prctl::set_dumpable(false);
    }
}

fn lower(resource: Resource, limit: u64) {
    if let Ok((_, hard)) = getrlimit(resource) {
        let limit = limit.min(hard);
        let _ = setrlimit(resource, limit, limit);
    }
}
