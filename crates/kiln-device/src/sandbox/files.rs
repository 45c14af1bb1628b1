//! Landlock: which files a process may touch, and whom it may signal.

use std::os::fd::AsFd;

use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};

use super::{Inmate, Jail, places};

/// The newest interface whose every right was thought about here.
const NEWEST: i64 = 7;
/// The first with signals.
const WITH_SIGNALS: i64 = 6;

pub struct Walls {
    pub files: Result<(), String>,
    pub signals: Result<(), String>,
}

pub fn restrict(jail: &Jail) -> Walls {
    let version = match version() {
        Ok(version) => version,
        Err(why) => {
            return Walls {
                files: Err(why.clone()),
                signals: Err(why),
            };
        }
    };
    let files = build(jail, version).map_err(|e| format!("Landlock: {e}"));
    let signals = match (&files, version >= WITH_SIGNALS) {
        (Err(why), _) => Err(why.clone()),
        (Ok(()), true) => Ok(()),
        (Ok(()), false) => Err("Linux before 6.12".into()),
    };
    Walls { files, signals }
}

/// The kernel's version of the interface.
fn version() -> Result<i64, String> {
    const ASK_VERSION: libc::c_uint = 1;
    let nothing: *const libc::c_void = std::ptr::null();
    // SAFETY: with this flag the call takes no structure and only returns a number.
    let found = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            nothing,
            0usize,
            ASK_VERSION,
        )
    };
    if found > 0 {
        return Ok(found);
    }
    let error = std::io::Error::last_os_error();
    Err(match error.raw_os_error() {
        Some(libc::ENOSYS) => "Linux without Landlock (5.13 and newer can have it)".into(),
        Some(libc::EOPNOTSUPP) => "Landlock is switched off on this system".into(),
        _ => format!("Landlock cannot be used here: {error}"),
    })
}

fn abi(version: i64) -> ABI {
    match version.min(NEWEST) {
        1 => ABI::V1,
        2 => ABI::V2,
        3 => ABI::V3,
        4 => ABI::V4,
        5 => ABI::V5,
        6 => ABI::V6,
        _ => ABI::V7,
    }
}

/// All or nothing: what the kernel cannot do is not asked for, and what is asked for must hold.
fn build(jail: &Jail, version: i64) -> Result<(), String> {
    let abi = abi(version);
    // The driver reads what it wants and talks to devices through files it opens when it wants.
    let drivers = AccessFs::ReadFile | AccessFs::ReadDir | AccessFs::IoctlDev;
    let handled = match jail.inmate {
        Inmate::Driver => AccessFs::from_all(abi) & !drivers,
        _ => AccessFs::from_all(abi),
    };
    let words = |e: RulesetError| e.to_string();
    let ruleset = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    let ruleset = ruleset.handle_access(handled).map_err(words)?;
    let is_scoped = version >= WITH_SIGNALS && jail.inmate != Inmate::Driver;
    let ruleset = match is_scoped {
        true => ruleset.scope(Scope::from_all(abi)).map_err(words)?,
        false => ruleset,
    };
    let mut ruleset = ruleset.create().map_err(words)?;
    for (path, rights) in rules(jail, abi) {
        let rights = rights & handled;
        // Not every system has every place; one that is not there cannot be reached either.
        let (Ok(place), false) = (PathFd::new(&path), rights.is_empty()) else {
            continue;
        };
        let rights = match std::fs::metadata(&path) {
            Ok(facts) if !facts.is_dir() => rights & AccessFs::from_file(abi),
            _ => rights,
        };
        if path.starts_with("/proc") {
            // A rule holds on to an inode. Those of /proc come and go with their directory
            // entries, which an open descriptor keeps; it is let go with the process.
            std::mem::forget(place.as_fd().try_clone_to_owned());
        }
        if !rights.is_empty() {
            let rule = PathBeneath::new(place, rights);
            ruleset = ruleset.add_rule(rule).map_err(words)?;
        }
    }
    let status = ruleset.restrict_self().map_err(words)?;
    match status.ruleset {
        RulesetStatus::FullyEnforced => Ok(()),
        other => Err(format!("the kernel enforces it only as {other:?}")),
    }
}

fn rules(jail: &Jail, abi: ABI) -> Vec<(String, BitFlags<AccessFs>)> {
    let read: BitFlags<AccessFs> = AccessFs::ReadFile | AccessFs::ReadDir;
    let run = read | AccessFs::Execute;
    let write = (AccessFs::from_all(abi) & !AccessFs::Execute) | AccessFs::WriteFile;
    // Not making device files, sockets and the like.
    let special = AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::MakeSock;
    let write = write & !special;
    let system = match jail.inmate {
        Inmate::CompilerCommand => run,
        _ => read,
    };
    let fixed = |list: &[&str], rights: BitFlags<AccessFs>| {
        let rules = list.iter().map(|path| (path.to_string(), rights));
        rules.collect::<Vec<_>>()
    };
    let named = |list: &[String], rights: BitFlags<AccessFs>| {
        let rules = list.iter().map(|path| (path.clone(), rights));
        rules.collect::<Vec<_>>()
    };
    let mut rules = fixed(places::SYSTEM, system);
    rules.extend(fixed(places::READABLE, read));
    rules.extend(fixed(
        places::WRITABLE,
        read | AccessFs::WriteFile | AccessFs::Truncate,
    ));
    rules.extend(named(&jail.reads, read));
    rules.extend(named(&jail.programs, system));
    rules.extend(named(&jail.writes, write));
    if jail.inmate == Inmate::Driver {
        rules.extend(named(&places::driver_writes(), write));
    }
    rules
}
