//! Tells the supervisor *which buffer* a bad address belongs to, then lets the process die.
//!
//! The handler runs in a process that is already broken, so it only reads a fixed table and
//! writes one prepared frame; it allocates nothing and takes no lock.

use std::sync::atomic::{AtomicI32, AtomicI64, AtomicUsize, Ordering};

use super::guarded::GuardedBuffer;
use crate::frame::Text;

const MAX_REGIONS: usize = 64;
const ALTERNATE_STACK_BYTES: usize = 64 << 10;

struct Region {
    mapping_start: AtomicUsize,
    mapping_end: AtomicUsize,
    data_start: AtomicUsize,
    /// End of the data for a read-only input, start of it otherwise (nothing inside is a fault).
    read_only_end: AtomicUsize,
    argument: AtomicI64,
}

static REGIONS: [Region; MAX_REGIONS] = [const {
    Region {
        mapping_start: AtomicUsize::new(0),
        mapping_end: AtomicUsize::new(0),
        data_start: AtomicUsize::new(0),
        read_only_end: AtomicUsize::new(0),
        argument: AtomicI64::new(0),
    }
}; MAX_REGIONS];
static REGION_COUNT: AtomicUsize = AtomicUsize::new(0);
static PROTOCOL_FD: AtomicI32 = AtomicI32::new(-1);

pub fn forget_regions() {
    REGION_COUNT.store(0, Ordering::SeqCst);
}

/// Buffers beyond the table's size are still guarded; only the name is missing from the report.
pub fn watch_region(argument: usize, memory: &GuardedBuffer, read_only: bool) {
    let at = REGION_COUNT.load(Ordering::SeqCst);
    let Some(region) = REGIONS.get(at) else {
        return;
    };
    let addresses = memory.addresses();
    let read_only_end = if read_only {
        addresses.data_end
    } else {
        addresses.data_start
    };
    region
        .mapping_start
        .store(addresses.mapping_start, Ordering::SeqCst);
    region
        .mapping_end
        .store(addresses.mapping_end, Ordering::SeqCst);
    region
        .data_start
        .store(addresses.data_start, Ordering::SeqCst);
    region.read_only_end.store(read_only_end, Ordering::SeqCst);
    region.argument.store(argument as i64, Ordering::SeqCst);
    REGION_COUNT.store(at + 1, Ordering::SeqCst);
}

pub fn install(protocol_fd: i32) -> std::io::Result<()> {
    PROTOCOL_FD.store(protocol_fd, Ordering::SeqCst);
    let stack = Box::leak(vec![0u8; ALTERNATE_STACK_BYTES].into_boxed_slice());
    let alternate = libc::stack_t {
        ss_sp: stack.as_mut_ptr().cast(),
        ss_flags: 0,
        ss_size: stack.len(),
    };
    // SAFETY: the stack is leaked on purpose and so outlives every signal.
    if unsafe { libc::sigaltstack(&alternate, std::ptr::null_mut()) } != 0 {
        return Err(std::io::Error::last_os_error());
    }
    for signal in [libc::SIGSEGV, libc::SIGBUS] {
        // SAFETY: an all-zero sigaction is a valid value; the fields that matter are set below.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = handle as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESETHAND;
        // SAFETY: `handle` has the signature SA_SIGINFO asks for and is async-signal-safe.
        if unsafe { libc::sigaction(signal, &action, std::ptr::null_mut()) } != 0 {
            return Err(std::io::Error::last_os_error());
        }
    }
    Ok(())
}

/// SA_RESETHAND has restored the default action, so returning repeats the bad access and the
/// process dies by the signal, as it would have without us.
extern "C" fn handle(_: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid siginfo for these signals.
    let address = unsafe { (*info).si_addr() } as usize;
    let count = REGION_COUNT.load(Ordering::SeqCst).min(MAX_REGIONS);
    for region in &REGIONS[..count] {
        let start = region.mapping_start.load(Ordering::SeqCst);
        if address < start || address >= region.mapping_end.load(Ordering::SeqCst) {
            continue;
        }
        let data_start = region.data_start.load(Ordering::SeqCst);
        let inside = address >= data_start && address < region.read_only_end.load(Ordering::SeqCst);
        let mut text = Text::new();
        text.push(b"{\"Fault\":{\"argument\":");
        text.push_integer(region.argument.load(Ordering::SeqCst));
        text.push(b",\"offset\":");
        text.push_integer(address as i64 - data_start as i64);
        text.push(if inside {
            b",\"inside\":true}}"
        } else {
            b",\"inside\":false}}"
        });
        text.send(PROTOCOL_FD.load(Ordering::SeqCst));
        return;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kiln_core::protocol::{MemoryFault, Response};

    #[test]
    fn the_handlers_frame_is_one_the_supervisor_reads() {
        let mut text = Text::new();
        text.push(b"{\"Fault\":{\"argument\":");
        text.push_integer(3);
        text.push(b",\"offset\":");
        text.push_integer(i64::MIN);
        text.push(b",\"inside\":false}}");
        let (response, _) = crate::frame::read_frame::<Response>(&mut text.frame())
            .unwrap()
            .unwrap();
        let fault = MemoryFault {
            argument: 3,
            offset: i64::MIN,
            inside: false,
        };
        assert_eq!(response, Response::Fault(fault));
    }
}
