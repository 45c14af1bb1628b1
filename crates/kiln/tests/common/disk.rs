//! kiln on a disk that is written down or fails: `tests/disk/recorder.c`, loaded into the real
//! binary. No rights are needed, and what a real disk would do later is decided here.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::repository;

/// The recorder, compiled.
pub struct Recorder {
    folder: tempfile::TempDir,
}

/// When the disk begins to fail; counted from 1.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// No operation gets space any more.
    Full(u64),
    /// What has its place can still be overwritten, as on most file systems.
    FullForGrowth(u64),
    /// Nothing can be synced any more.
    Sync(u64),
}

impl Recorder {
    pub fn build() -> Recorder {
        let folder = tempfile::tempdir().unwrap();
        let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
        let output = Command::new(compiler)
            .args([
                "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-o",
            ])
            .arg(folder.path().join("recorder.so"))
            .arg(repository().join("crates/kiln/tests/disk/recorder.c"))
            .args(["-ldl", "-lpthread"])
            .output()
            .expect("a C compiler");
        assert!(output.status.success(), "{}", super::text(&output.stderr));
        Recorder { folder }
    }

    /// Puts the recorder between a command and the disk below `root`, with nothing to write down. It
    /// only saves the time that syncing takes.
    pub fn load(&self, command: &mut Command, root: &Path) {
        command
            .env("LD_PRELOAD", self.folder.path().join("recorder.so"))
            .env("KILN_DISK_ROOT", root);
    }

    /// Makes the disk below `root` fail for this command.
    pub fn fail(&self, command: &mut Command, root: &Path, fault: Fault) {
        self.load(command, root);
        let fault = match fault {
            Fault::Full(after) => format!("full {after}"),
            Fault::FullForGrowth(after) => format!("full-growth {after}"),
            Fault::Sync(after) => format!("sync {after}"),
        };
        command.env("KILN_DISK_FAULT", fault);
    }

    /// Runs a command and returns what it did to the files below `root`, with its exit code.
    pub fn record(&self, command: &mut Command, root: &Path) -> (Vec<Operation>, Option<i32>) {
        let journal = tempfile::NamedTempFile::new_in(self.folder.path()).unwrap();
        self.load(command, root);
        let output = command
            .env("KILN_DISK_LOG", journal.path())
            .output()
            .unwrap();
        let code = output.status.code();
        assert!(code.is_some(), "{}", super::text(&output.stderr));
        (parse(&fs::read(journal.path()).unwrap()), code)
    }
}

/// Something kiln did; paths are from the root.
#[derive(Clone, Debug)]
pub enum Operation {
    Created {
        inode: u64,
        path: PathBuf,
    },
    Written {
        inode: u64,
        at: u64,
        bytes: Vec<u8>,
    },
    Resized {
        inode: u64,
        to: u64,
    },
    Synced {
        inode: u64,
    },
    FolderSynced {
        inode: u64,
    },
    Renamed {
        inode: u64,
        from: PathBuf,
        to: PathBuf,
    },
    Linked {
        inode: u64,
        to: PathBuf,
    },
    Removed {
        path: PathBuf,
    },
    FolderMade {
        inode: u64,
        path: PathBuf,
    },
    /// Printed to standard output.
    Shown {
        bytes: Vec<u8>,
    },
}

fn parse(mut journal: &[u8]) -> Vec<Operation> {
    let mut operations = Vec::new();
    while !journal.is_empty() {
        let number = |n: usize| {
            let bytes = journal[8 * n..8 * (n + 1)].try_into();
            u64::from_ne_bytes(bytes.unwrap())
        };
        let (kind, inode, at, count) = (number(0), number(1), number(2), number(4) as usize);
        let bytes = &journal[40..40 + count];
        let path = || PathBuf::from(OsStr::from_bytes(bytes));
        let names = || {
            let zero = bytes.iter().position(|b| *b == 0).unwrap();
            let path = |bytes| PathBuf::from(OsStr::from_bytes(bytes));
            (path(&bytes[..zero]), path(&bytes[zero + 1..]))
        };
        operations.push(match kind {
            1 => Operation::Created {
                inode,
                path: path(),
            },
            2 => Operation::Written {
                inode,
                at,
                bytes: bytes.to_vec(),
            },
            3 => Operation::Resized { inode, to: at },
            4 => Operation::Synced { inode },
            5 => Operation::FolderSynced { inode },
            6 => {
                let (from, to) = names();
                Operation::Renamed { inode, from, to }
            }
            7 => Operation::Linked {
                inode,
                to: names().1,
            },
            8 => Operation::Removed { path: path() },
            9 => Operation::FolderMade {
                inode,
                path: path(),
            },
            10 => Operation::Shown {
                bytes: bytes.to_vec(),
            },
            other => panic!("no operation has the number {other}"),
        });
        journal = &journal[40 + count..];
    }
    operations
}
