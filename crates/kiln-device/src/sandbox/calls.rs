//! seccomp: system calls that nobody behind the walls needs.
//!
//! A list of what is refused, not of what is allowed: what the C library, OpenMP or the CUDA driver
//! call differs from version to version, and a kernel must not fail for a new way to sleep. What a
//! refusal does depends on the inmate: a candidate that asks for a socket is ended and named, a
//! compiler or driver gets an error to handle.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, Ordering};

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, sock_filter,
};

use super::Inmate;

type Call = (i64, &'static str);

macro_rules! calls {
    ($($name:ident)*) => { &[$((numbers::$name, stringify!($name))),*] };
}

/// Numbers by the calls' own names.
#[allow(non_upper_case_globals)]
mod numbers {
    macro_rules! numbers {
        ($($name:ident = $constant:ident;)*) => {
            $(pub const $name: i64 = libc::$constant as i64;)*
        };
    }
    numbers! {
        execve = SYS_execve; execveat = SYS_execveat;
        ptrace = SYS_ptrace; process_vm_readv = SYS_process_vm_readv;
        process_vm_writev = SYS_process_vm_writev; kcmp = SYS_kcmp; pidfd_getfd = SYS_pidfd_getfd;
        process_madvise = SYS_process_madvise;
        socket = SYS_socket;
        io_uring_setup = SYS_io_uring_setup; io_uring_enter = SYS_io_uring_enter;
        io_uring_register = SYS_io_uring_register;
        mount = SYS_mount; umount2 = SYS_umount2; move_mount = SYS_move_mount; fsopen = SYS_fsopen;
        fsconfig = SYS_fsconfig; fsmount = SYS_fsmount; fspick = SYS_fspick; open_tree = SYS_open_tree;
        mount_setattr = SYS_mount_setattr; pivot_root = SYS_pivot_root; chroot = SYS_chroot;
        unshare = SYS_unshare; setns = SYS_setns;
        bpf = SYS_bpf; perf_event_open = SYS_perf_event_open; userfaultfd = SYS_userfaultfd;
        keyctl = SYS_keyctl; add_key = SYS_add_key; request_key = SYS_request_key;
        init_module = SYS_init_module; finit_module = SYS_finit_module;
        delete_module = SYS_delete_module; kexec_load = SYS_kexec_load; reboot = SYS_reboot;
        swapon = SYS_swapon; swapoff = SYS_swapoff; acct = SYS_acct; quotactl = SYS_quotactl;
        syslog = SYS_syslog; sethostname = SYS_sethostname; setdomainname = SYS_setdomainname;
        settimeofday = SYS_settimeofday; clock_settime = SYS_clock_settime;
        clock_adjtime = SYS_clock_adjtime; adjtimex = SYS_adjtimex;
        open_by_handle_at = SYS_open_by_handle_at;
        truncate = SYS_truncate; fchmod = SYS_fchmod; fchmodat = SYS_fchmodat;
        fchown = SYS_fchown; fchownat = SYS_fchownat; utimensat = SYS_utimensat;
        setxattr = SYS_setxattr; lsetxattr = SYS_lsetxattr; fsetxattr = SYS_fsetxattr;
        removexattr = SYS_removexattr; lremovexattr = SYS_lremovexattr;
        fremovexattr = SYS_fremovexattr;
        clone = SYS_clone; clone3 = SYS_clone3; prlimit64 = SYS_prlimit64; setpriority = SYS_setpriority;
    }
    // Newer than the list of names; since 2019 a number is the same everywhere.
    pub const fchmodat2: i64 = 452;
    pub const setxattrat: i64 = 463;
    pub const removexattrat: i64 = 466;
    pub const open_tree_attr: i64 = 467;
    pub const file_setattr: i64 = 469;
    #[cfg(target_arch = "x86_64")]
    numbers! {
        fork = SYS_fork; vfork = SYS_vfork; chmod = SYS_chmod; chown = SYS_chown;
        lchown = SYS_lchown; utime = SYS_utime; utimes = SYS_utimes; futimesat = SYS_futimesat;
        iopl = SYS_iopl; ioperm = SYS_ioperm; kexec_file_load = SYS_kexec_file_load;
    }
}

/// Refused to all: reaching other processes and the system. `io_uring` is among them because it
/// carries out what seccomp never gets to see.
const ALWAYS: &[Call] = calls! {
    ptrace process_vm_readv process_vm_writev kcmp pidfd_getfd process_madvise
    io_uring_setup io_uring_enter io_uring_register
    mount umount2 move_mount fsopen fsconfig fsmount fspick open_tree mount_setattr
    pivot_root chroot unshare setns
    bpf perf_event_open userfaultfd keyctl add_key request_key
    init_module finit_module delete_module kexec_load reboot swapon swapoff acct quotactl syslog
    sethostname setdomainname settimeofday clock_settime clock_adjtime adjtimex open_by_handle_at open_tree_attr
};

const EXEC: &[Call] = calls! { execve execveat };

/// What Landlock does not cover: a file's rights, owner, times and attributes.
const FILE_FACTS: &[Call] = calls! {
    truncate fchmod fchmodat fchown fchownat utimensat
    setxattr lsetxattr fsetxattr removexattr lremovexattr fremovexattr
    fchmodat2 setxattrat removexattrat file_setattr
};

/// Calls that newer architectures do not have.
#[cfg(target_arch = "x86_64")]
mod old {
    use super::{Call, numbers};
    pub const ALWAYS: &[Call] = calls! { iopl ioperm kexec_file_load };
    pub const PROCESSES: &[Call] = calls! { fork vfork };
    pub const FILE_FACTS: &[Call] = calls! { chmod chown lchown utime utimes futimesat };
}
#[cfg(not(target_arch = "x86_64"))]
mod old {
    use super::Call;
    pub const ALWAYS: &[Call] = &[];
    pub const PROCESSES: &[Call] = &[];
    pub const FILE_FACTS: &[Call] = &[];
}

const OTHERS: &[Call] = calls! { socket clone clone3 prlimit64 setpriority };

/// The name of a call that can be refused.
pub fn name(number: i64) -> String {
    let lists = [
        ALWAYS,
        EXEC,
        FILE_FACTS,
        old::ALWAYS,
        old::PROCESSES,
        old::FILE_FACTS,
        OTHERS,
    ];
    let known = lists.concat().into_iter().find(|(n, _)| *n == number);
    known.map_or_else(
        || format!("system call {number}"),
        |(_, name)| name.to_string(),
    )
}

pub fn filter(inmate: Inmate) -> Result<(), String> {
    let cannot = |e: String| format!("seccomp: {e}");
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(|e| cannot(e.to_string()))?;
    // Each is checked by itself, and the strictest answer counts.
    let mut programs = vec![refusals(inmate, arch).map_err(cannot)?];
    if inmate == Inmate::Candidate {
        programs.push(hidden_flags(arch).map_err(cannot)?);
    }
    #[cfg(target_arch = "x86_64")]
    programs.push(no_x32());
    for program in &programs {
        install(program, inmate).map_err(|e| cannot(e.to_string()))?;
    }
    Ok(())
}

fn refusals(inmate: Inmate, arch: TargetArch) -> Result<BpfProgram, String> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    let mut refuse = |list: &[Call]| {
        for (number, _) in list {
            rules.insert(*number, Vec::new());
        }
    };
    refuse(ALWAYS);
    refuse(old::ALWAYS);
    if inmate != Inmate::CompilerCommand {
        refuse(EXEC);
    }
    if inmate == Inmate::Candidate {
        refuse(FILE_FACTS);
        refuse(old::FILE_FACTS);
        refuse(old::PROCESSES);
    }
    let words = |e: seccompiler::BackendError| e.to_string();
    let when = |argument: u8, op: SeccompCmpOp, value: u64| {
        SeccompCondition::new(argument, SeccompCmpArgLen::Dword, op, value)
            .and_then(|condition| SeccompRule::new(vec![condition]))
            .map_err(words)
    };
    // The driver talks to daemons of its own on this machine; the network is for nobody.
    let sockets = match inmate {
        Inmate::Driver => vec![when(0, SeccompCmpOp::Ne, libc::AF_UNIX as u64)?],
        _ => Vec::new(),
    };
    rules.insert(libc::SYS_socket, sockets);
    let mut clones = Vec::new();
    for flag in NAMESPACES {
        clones.push(when(0, SeccompCmpOp::MaskedEq(*flag), *flag)?);
    }
    if inmate == Inmate::Candidate {
        let thread = libc::CLONE_THREAD as u64;
        clones.push(when(0, SeccompCmpOp::MaskedEq(thread), 0)?);
    }
    rules.insert(libc::SYS_clone, clones);
    if inmate == Inmate::Candidate {
        // Limits and priorities of its own, but not of the user's other processes.
        rules.insert(libc::SYS_prlimit64, vec![others_limits().map_err(words)?]);
        let groups = when(0, SeccompCmpOp::Ne, libc::PRIO_PROCESS as u64)?;
        rules.insert(libc::SYS_setpriority, vec![groups]);
    }
    let action = match inmate {
        Inmate::Candidate => SeccompAction::Trap,
        _ => SeccompAction::Errno(libc::EPERM as u32),
    };
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, action, arch).map_err(words)?;
    filter.try_into().map_err(words)
}

fn others_limits() -> Result<SeccompRule, seccompiler::BackendError> {
    let is_not =
        |process: u64| SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, process);
    SeccompRule::new(vec![is_not(0)?, is_not(u64::from(std::process::id()))?])
}

const NAMESPACES: &[u64] = &[
    libc::CLONE_NEWNS as u64,
    libc::CLONE_NEWCGROUP as u64,
    libc::CLONE_NEWUTS as u64,
    libc::CLONE_NEWIPC as u64,
    libc::CLONE_NEWUSER as u64,
    libc::CLONE_NEWPID as u64,
    libc::CLONE_NEWNET as u64,
];

/// `clone3` keeps its flags in memory, where a filter cannot look. Told that there is no such call,
/// C libraries take `clone`.
fn hidden_flags(arch: TargetArch) -> Result<BpfProgram, String> {
    let rules = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    let action = SeccompAction::Errno(libc::ENOSYS as u32);
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, action, arch);
    let filter = filter.map_err(|e| e.to_string())?;
    filter
        .try_into()
        .map_err(|e: seccompiler::BackendError| e.to_string())
}

/// Some kernels serve every call a second time, under a number with bit 30 set, for programs with
/// short pointers. A list of numbers would be walked around.
#[cfg(target_arch = "x86_64")]
fn no_x32() -> BpfProgram {
    const X32_BIT: u32 = 0x4000_0000;
    const REFUSE: u32 = libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32;
    let load_number = sock_filter {
        code: (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16,
        jt: 0,
        jf: 0,
        k: 0,
    };
    let if_x32 = sock_filter {
        code: (libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K) as u16,
        jt: 0,
        jf: 1,
        k: X32_BIT,
    };
    let give = |answer: u32| sock_filter {
        code: (libc::BPF_RET | libc::BPF_K) as u16,
        jt: 0,
        jf: 0,
        k: answer,
    };
    let allow = give(libc::SECCOMP_RET_ALLOW);
    vec![load_number, if_x32, give(REFUSE), allow]
}

/// `SPEC_ALLOW`: before Linux 5.16 a filter switched speculative loads off for the process that
/// has it, and every kernel timed in it would have been slower than in its user's program.
fn install(program: &[sock_filter], inmate: Inmate) -> io::Result<()> {
    let flags = match inmate {
        // Threads of the driver are there already.
        Inmate::Driver => libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW | libc::SECCOMP_FILTER_FLAG_TSYNC,
        _ => libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW,
    };
    let fprog = libc::sock_fprog {
        len: program.len() as u16,
        // The two types are the kernel's `struct sock_filter`.
        filter: program.as_ptr().cast_mut().cast(),
    };
    // SAFETY: the kernel copies the program, which outlives the call; nothing else is touched.
    let result = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER as libc::c_uint,
            flags as libc::c_uint,
            &raw const fprog,
        )
    };
    match result {
        0 => Ok(()),
        thread if thread > 0 => Err(io::Error::other(format!(
            "thread {thread} has a filter of its own"
        ))),
        _ => Err(io::Error::last_os_error()),
    }
}

static PROTOCOL_FD: AtomicI32 = AtomicI32::new(-1);
/// While the walls are tried, a refused call is only noted.
static TRYING: AtomicBool = AtomicBool::new(false);
static REFUSED: AtomicI64 = AtomicI64::new(-1);

/// What a refused call of a candidate does: one frame to the supervisor, then the end. The handler
/// allocates nothing and takes no lock.
pub fn install_handler(protocol_fd: i32) -> io::Result<()> {
    PROTOCOL_FD.store(protocol_fd, Ordering::SeqCst);
    // SAFETY: an all-zero sigaction is a valid value; the fields that matter are set below.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handle as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: `handle` has the signature SA_SIGINFO asks for and is async-signal-safe.
    match unsafe { libc::sigaction(libc::SIGSYS, &action, std::ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

extern "C" fn handle(signal: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    /// The number lies behind signal, error, code and the address of the call.
    const NUMBER_OFFSET: usize = 24;
    // SAFETY: for SIGSYS the kernel fills in the number there; siginfo is 128 bytes.
    let number = unsafe { info.cast::<u8>().add(NUMBER_OFFSET).cast::<i32>().read() };
    if TRYING.load(Ordering::SeqCst) {
        REFUSED.store(i64::from(number), Ordering::SeqCst);
        return;
    }
    let mut text = crate::frame::Text::new();
    text.push(b"{\"Forbidden\":{\"call\":");
    text.push_integer(i64::from(number));
    text.push(b"}}");
    text.send(PROTOCOL_FD.load(Ordering::SeqCst));
    // SAFETY: ends the process at once, without the candidate's exit handlers.
    unsafe { libc::_exit(128 + signal) };
}

/// Whether a system call is refused. `attempt` makes it and returns what the call returned.
pub(super) fn is_refused(attempt: impl FnOnce() -> i64) -> bool {
    REFUSED.store(-1, Ordering::SeqCst);
    TRYING.store(true, Ordering::SeqCst);
    let returned = attempt();
    let error = io::Error::last_os_error().raw_os_error();
    TRYING.store(false, Ordering::SeqCst);
    let is_trapped = REFUSED.load(Ordering::SeqCst) >= 0;
    is_trapped || (returned == -1 && matches!(error, Some(libc::EPERM | libc::EACCES)))
}
