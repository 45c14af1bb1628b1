//! Tells the supervisor *where* a deadly signal struck and *which buffer* a bad address belongs to, then lets
//! the process die.
//!
//! The handler runs in a process that is already broken, so it only reads a fixed table and
//! writes one prepared frame; it allocates nothing and takes no lock.

use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

use kiln_core::protocol::{MemoryFault, StoppedAt};

use super::code::Code;
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

/// Signals that end a process, and what is wrong with it.
const DEADLY: [i32; 6] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGILL,
    libc::SIGFPE,
    libc::SIGTRAP,
    libc::SIGABRT,
];
/// Those that are about an address.
const ABOUT_ADDRESSES: [i32; 2] = [libc::SIGSEGV, libc::SIGBUS];

static REGIONS: Regions = Regions::none();
static CODE: Code = Code::unknown();
static MAIN_THREAD: AtomicUsize = AtomicUsize::new(0);
static PROTOCOL_FD: AtomicI32 = AtomicI32::new(-1);

pub fn forget_regions() {
    REGIONS.count.store(0, Ordering::SeqCst);
}

/// Buffers beyond the table's size are still guarded; only the name is missing from the report.
pub fn watch_region(argument: usize, memory: &GuardedBuffer, read_only: bool) {
    REGIONS.watch(argument, memory.addresses(), read_only);
}

/// Whose instructions the handler can place: the image that has this function.
pub fn watch_code(entry: usize) {
    CODE.watch(entry);
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
    // SAFETY: names the calling thread, which cannot fail.
    MAIN_THREAD.store(unsafe { libc::pthread_self() } as usize, Ordering::SeqCst);
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
    for signal in DEADLY {
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

/// SA_RESETHAND has restored the default action, so returning repeats the bad instruction and the
/// process dies by the signal, as it would have without us.
extern "C" fn handle(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let descriptor = PROTOCOL_FD.load(Ordering::SeqCst);
    // SAFETY: the kernel passes a valid siginfo for these signals.
    let (address, code) = unsafe { ((*info).si_addr() as usize, (*info).si_code) };
    let is_about_address = ABOUT_ADDRESSES.contains(&signal);
    // SAFETY: names the calling thread, which cannot fail.
    let thread = unsafe { libc::pthread_self() } as usize;
    let (instruction, stack) = registers(context);
    let own = CODE.offset(instruction);
    let mut stopped = StoppedAt {
        signal,
        address: is_about_address.then_some(address as u64),
        offset: own,
        is_own: own.is_some(),
        is_main_thread: thread == MAIN_THREAD.load(Ordering::SeqCst),
    };
    if own.is_some() {
        stopped_message(stopped).send(descriptor);
    }
    if is_about_address && let Some(fault) = REGIONS.find(address) {
        message(fault).send(descriptor);
    }
    if own.is_none() {
        // Comes last: where the stack itself is broken, looking through it ends the process here.
        stopped.offset = CODE.caller(stack);
        stopped_message(stopped).send(descriptor);
    }
    // Sent by `raise`, `abort` or another process: there is no instruction to repeat.
    if code <= 0 {
        // SAFETY: async-signal-safe; the signal waits until this handler returns.
        unsafe { libc::raise(signal) };
    }
}

/// The instruction and the stack pointer at which a signal struck.
fn registers(context: *mut libc::c_void) -> (usize, usize) {
    let context: *const libc::ucontext_t = context.cast();
    if context.is_null() {
        return (0, 0);
    }
    // SAFETY: the kernel passes a valid context to a handler with SA_SIGINFO.
    let machine = unsafe { &(*context).uc_mcontext };
    #[cfg(target_arch = "x86_64")]
    let found = (
        machine.gregs[libc::REG_RIP as usize] as usize,
        machine.gregs[libc::REG_RSP as usize] as usize,
    );
    #[cfg(target_arch = "aarch64")]
    let found = (machine.pc as usize, machine.sp as usize);
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let found = {
        let _ = machine;
        (0, 0)
    };
    found
}

/// The frame that says where it stopped.
fn stopped_message(stopped: StoppedAt) -> Text {
    let mut text = Text::new();
    let optional = |text: &mut Text, value: Option<u64>| match value {
        // Addresses of programs have their highest bit clear.
        Some(value) => text.push_integer((value & (u64::MAX >> 1)) as i64),
        None => text.push(b"null"),
    };
    let truth = |value: bool| -> &[u8] { if value { b"true" } else { b"false" } };
    text.push(b"{\"Stopped\":{\"signal\":");
    text.push_integer(i64::from(stopped.signal));
    text.push(b",\"address\":");
    optional(&mut text, stopped.address);
    text.push(b",\"offset\":");
    optional(&mut text, stopped.offset);
    text.push(b",\"is_own\":");
    text.push(truth(stopped.is_own));
    text.push(b",\"is_main_thread\":");
    text.push(truth(stopped.is_main_thread));
    text.push(b"}}");
    text
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
