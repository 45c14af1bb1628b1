//! Ctrl-C, termination and a closed terminal: the first one asks the loop to end, the second one ends at once.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};

use crate::exit::Exit;

static ASKED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

pub fn install() -> io::Result<()> {
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // Order matters: the second signal finds the flag set and exits; workers die with their pipe.
        signal_hook::flag::register_conditional_shutdown(
            signal,
            Exit::Interrupted as i32,
            Arc::clone(&ASKED),
        )?;
        signal_hook::flag::register(signal, Arc::clone(&ASKED))?;
    }
    Ok(())
}

/// A write past the limit on the size of files (`ulimit -f`) fails like any other instead of ending the process, so that
/// what was begun is cleaned up. Programs kiln starts get the signal as ever.
pub fn outlive_file_limit() -> io::Result<()> {
    signal_hook::flag::register(SIGXFSZ, Arc::default()).map(drop)
}

pub fn asked() -> bool {
    ASKED.load(Ordering::SeqCst)
}
