//! Tries to do what was just forbidden. A kernel that says yes to a rule and then does not keep it
//! has happened in other programs; only trying tells.

use std::ffi::{CString, OsString};
use std::fs;
use std::io;
use std::path::PathBuf;

use kiln_core::sandbox::Guard;

use super::calls::is_refused;

/// Every system has it, everybody may read it, and no task needs it.
const READABLE_BY_ALL: &str = "/etc/passwd";

/// Whether a guard holds, by an attempt that does no harm if it does not.
pub fn holds(guard: Guard) -> bool {
    match guard {
        Guard::Writes => outside().into_iter().all(refuses_new_file),
        Guard::Reads => match fs::File::open(READABLE_BY_ALL) {
            Ok(_) => false,
            Err(error) => {
                // Not there is not refused, but nothing could be read either.
                matches!(
                    error.kind(),
                    io::ErrorKind::PermissionDenied | io::ErrorKind::NotFound
                )
            }
        },
        Guard::Exec => exec_is_refused(),
        Guard::Processes => fork_is_refused(),
        Guard::Network => [libc::AF_INET, libc::AF_INET6]
            .into_iter()
            .all(socket_is_refused),
        Guard::Trace => trace_is_refused(),
        Guard::Signals => signal_is_refused(),
    }
}

/// Folders that everybody, or this user, may write to.
fn outside() -> Vec<PathBuf> {
    let named = |name: &str| std::env::var_os(name).filter(|value: &OsString| !value.is_empty());
    let mut folders = vec![PathBuf::from("/tmp"), PathBuf::from("/var/tmp")];
    folders.extend(named("HOME").map(PathBuf::from));
    folders.retain(|folder| folder.is_absolute());
    folders
}

fn refuses_new_file(folder: PathBuf) -> bool {
    let path = folder.join(format!(".kiln-sandbox-probe-{}", std::process::id()));
    let made = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&path);
    match made {
        Ok(_) => {
            let _ = fs::remove_file(&path);
            false
        }
        Err(_) => true,
    }
}

/// Of a program that is not there: were the call let through, this process would still be itself.
fn exec_is_refused() -> bool {
    let Ok(path) = CString::new("/nonexistent/kiln-sandbox-probe") else {
        return false;
    };
    let nothing = [std::ptr::null::<libc::c_char>()];
    is_refused(|| {
        // SAFETY: a valid path and two empty lists; the call cannot succeed.
        i64::from(unsafe { libc::execve(path.as_ptr(), nothing.as_ptr(), nothing.as_ptr()) })
    })
}

fn fork_is_refused() -> bool {
    is_refused(|| {
        // SAFETY: no shared memory and no stack, which is what fork() does; a child ends at once.
        let child = unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) };
        if child == 0 {
            // SAFETY: as above.
            unsafe { libc::_exit(0) };
        }
        child
    })
}

fn socket_is_refused(family: i32) -> bool {
    let mut made = -1;
    let refused = is_refused(|| {
        // SAFETY: makes a descriptor or fails.
        made = unsafe { libc::socket(family, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) };
        i64::from(made)
    });
    if !refused && made >= 0 {
        // SAFETY: made just now.
        unsafe { libc::close(made) };
    }
    // A machine without this family refuses it by itself.
    refused || made < 0
}

/// Asks for a word of the parent's memory without being its tracer: refused as a call, or by the
/// kernel because nothing is traced.
fn trace_is_refused() -> bool {
    let nothing: *mut libc::c_void = std::ptr::null_mut();
    is_refused(|| {
        // SAFETY: an error in every case; no process is attached to.
        unsafe { libc::ptrace(libc::PTRACE_PEEKDATA, libc::getppid(), nothing, nothing) }
    })
}

/// Signal 0 only asks whether a signal could be sent.
fn signal_is_refused() -> bool {
    is_refused(|| {
        // SAFETY: sends nothing.
        i64::from(unsafe { libc::kill(libc::getppid(), 0) })
    })
}
