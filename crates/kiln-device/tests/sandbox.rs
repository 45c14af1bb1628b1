//! The walls of the process that talks to the CUDA driver, tried without a driver: threads that were
//! there before are held too, and what a driver does goes on working.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::Write;
use std::process::Command;
use std::sync::mpsc::channel;

use kiln_core::sandbox::Guard;
use kiln_device::sandbox::{Inmate, Jail, call_name, enter};

/// Set in the process that goes behind the walls: there is no way back for a test program.
const CHILD: &str = "KILN_TEST_SANDBOX_CHILD";

#[test]
fn the_drivers_process_is_held_and_works() {
    let program = std::env::current_exe().unwrap();
    let output = Command::new(program)
        .args(["--exact", "behind_the_walls", "--nocapture"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}");
}

#[test]
fn behind_the_walls() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let scratch = std::env::temp_dir().join(format!("kiln-driver-{}", std::process::id()));
    // Like those a driver starts with its context.
    let (ask, asked) = channel::<()>();
    let (answer, answered) = channel::<i32>();
    let early = std::thread::spawn(move || {
        asked.recv().unwrap();
        // SAFETY: makes a descriptor or fails.
        answer
            .send(unsafe { libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0) })
            .unwrap();
    });
    let sandbox = enter(&Jail::new(Inmate::Driver));
    if let Some(caution) = sandbox.caution() {
        println!("skipped: {caution}");
        return;
    }
    assert!(sandbox.is_whole(), "{sandbox:?}");
    let all = [Guard::Writes, Guard::Exec, Guard::Network, Guard::Trace];
    assert_eq!(sandbox.enforced, all);
    ask.send(()).unwrap();
    assert_eq!(answered.recv().unwrap(), -1);
    early.join().unwrap();

    assert!(fs::write(&scratch, "x").is_err());
    assert!(Command::new("/bin/true").status().is_err());
    // What a driver does: reads, threads and their names, shared memory, local sockets.
    assert!(fs::read("/etc/passwd").is_ok());
    let named = std::thread::Builder::new().name("cuda-worker".into());
    let thread = named.spawn(|| {
        // SAFETY: asks for a number.
        let id = unsafe { libc::syscall(libc::SYS_gettid) };
        fs::write(format!("/proc/self/task/{id}/comm"), "renamed").unwrap();
    });
    thread.unwrap().join().unwrap();
    let mut null = fs::OpenOptions::new()
        .write(true)
        .open("/dev/null")
        .unwrap();
    null.write_all(b"x").unwrap();
    let shared = format!("/dev/shm/kiln-test-{}", std::process::id());
    if std::path::Path::new("/dev/shm").is_dir() {
        fs::write(&shared, "x").unwrap();
        fs::remove_file(&shared).unwrap();
    }
    // SAFETY: makes a descriptor or fails.
    assert!(unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_STREAM, 0) } >= 0);
}

#[test]
fn refused_calls_have_names() {
    assert_eq!(call_name(libc::SYS_socket), "socket");
    assert_eq!(call_name(libc::SYS_execve), "execve");
    assert_eq!(call_name(123_456), "system call 123456");
}
