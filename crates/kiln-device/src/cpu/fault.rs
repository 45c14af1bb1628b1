//! Tells the supervisor *which buffer* a bad address belongs to, then lets the process die.
//!
//! The handler runs in a process that is already broken, so it only reads a fixed table and
//! writes one prepared frame; it allocates nothing and takes no lock.

use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

use kiln_core::protocol::MemoryFault;

use super::guarded::{Addresses, GuardedBuffer};
use crate::frame::Text;

const MAX_REGIONS: usize = 64;
const ALTERNATE_STACK_BYTES: usize = 64 << 10;

struct Region {
    mapping_start: AtomicUsize,
    mapping_end: AtomicUsize,
    data_start: AtomicUsize,
    /// End of the data for a read-only input, start of it otherwise (nothing inside is a fault).
    read_only_end: AtomicUsize,
    argument: AtomicUsize,
}

/// Where buffers lie. Read by a signal handler, so it is made of atomics and has no lock.
struct Regions {
    table: [Region; MAX_REGIONS],
    count: AtomicUsize,
}

static REGIONS: Regions = Regions::none();
static PROTOCOL_FD: AtomicI32 = AtomicI32::new(-1);

pub fn forget_regions() {
    REGIONS.count.store(0, Ordering::SeqCst);
}

/// Buffers beyond the table's size are still guarded; only the name is missing from the report.
pub fn watch_region(argument: usize, memory: &GuardedBuffer, read_only: bool) {
    REGIONS.watch(argument, memory.addresses(), read_only);
}

/// What the handler would say of an address.
#[cfg(test)]
pub fn told(address: usize) -> Option<MemoryFault> {
    REGIONS.find(address)
}

impl Regions {
    const fn none() -> Regions {
        Regions {
            table: [const {
                Region {
                    mapping_start: AtomicUsize::new(0),
                    mapping_end: AtomicUsize::new(0),
                    data_start: AtomicUsize::new(0),
                    read_only_end: AtomicUsize::new(0),
                    argument: AtomicUsize::new(0),
                }
            }; MAX_REGIONS],
            count: AtomicUsize::new(0),
        }
    }

    fn watch(&self, argument: usize, addresses: Addresses, read_only: bool) {
        let at = self.count.load(Ordering::SeqCst);
        let Some(region) = self.table.get(at) else {
            return;
        };
        let read_only_end = if read_only {
            addresses.data_end
        } else {
            addresses.data_start
        };
        let set = |place: &AtomicUsize, value| place.store(value, Ordering::SeqCst);
        set(&region.mapping_start, addresses.mapping_start);
        set(&region.mapping_end, addresses.mapping_end);
        set(&region.data_start, addresses.data_start);
        set(&region.read_only_end, read_only_end);
        set(&region.argument, argument);
        set(&self.count, at + 1);
    }

    /// What a bad address says, where it belongs to a buffer.
    fn find(&self, address: usize) -> Option<MemoryFault> {
        let get = |place: &AtomicUsize| place.load(Ordering::SeqCst);
        let count = get(&self.count).min(MAX_REGIONS);
        let region = self.table[..count].iter().find(|region| {
            (get(&region.mapping_start)..get(&region.mapping_end)).contains(&address)
        })?;
        let data_start = get(&region.data_start);
        Some(MemoryFault {
            argument: get(&region.argument),
            offset: address as i64 - data_start as i64,
            inside: (data_start..get(&region.read_only_end)).contains(&address),
        })
    }
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
    if let Some(fault) = REGIONS.find(address) {
        message(fault).send(PROTOCOL_FD.load(Ordering::SeqCst));
    }
}

/// The frame the supervisor reads.
fn message(fault: MemoryFault) -> Text {
    let mut text = Text::new();
    text.push(b"{\"Fault\":{\"argument\":");
    text.push_integer(fault.argument as i64);
    text.push(b",\"offset\":");
    text.push_integer(fault.offset);
    text.push(if fault.inside {
        b",\"inside\":true}}"
    } else {
        b",\"inside\":false}}"
    });
    text
}

#[cfg(test)]
mod tests;
