//! The loop inside a worker process, and how that process ties its life to the supervisor's.

use std::fs::File;
use std::io::{self, BufReader, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use kiln_core::protocol::{DeviceInfo, PROTOCOL_VERSION, Refusal, Request, Response, Tool};
use kiln_core::sandbox::Sandbox;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::backend::{Backend, Toolchain};
use crate::cc::Cc;
use crate::cpu::{self, CpuBackend};
use crate::cuda::CudaBackend;
use crate::frame::{read_frame, write_frame};
use crate::lines;
use crate::nvcc::Nvcc;
use crate::nvrtc::Nvrtc;
use crate::sandbox::{self, Inmate, Jail};

/// A worker that runs candidates on the first GPU.
pub fn cuda_main(support: Option<&str>, jail: Option<&Jail>) -> io::Result<()> {
    let mut pipes = take_over()?;
    watch_supervisor(&pipes)?;
    let secret = unpredictable();
    let mut backend = match CudaBackend::new(support, secret) {
        Ok(backend) => backend,
        Err(refusal) => {
            return write_frame(&mut pipes.output, &Response::Refused(refusal), &[]);
        }
    };
    // The driver needs devices, files and helper programs until there is a context; later hardly any.
    let sandbox = enter(jail, Inmate::Driver);
    greet(&mut pipes, backend.device(), sandbox)?;
    let process = std::process::id();
    while let Some((request, _)) = read_frame::<Request>(&mut pipes.input)? {
        let answer = match request {
            Request::Occupancy {
                threads,
                shared_bytes,
            } => backend
                .occupancy(threads, shared_bytes)
                .map(|blocks| Answer::plain(Response::Occupancy { blocks })),
            Request::Finish => {
                write_frame(&mut pipes.output, &Response::Done, &[])?;
                std::process::exit(0);
            }
            Request::PlainTrial(trial) => backend
                .plain_trial(&trial)
                .map(|finding| Answer::plain(Response::PlainFinding(finding))),
            other => serve(&mut backend, other, process),
        };
        reply(&mut pipes.output, answer)?;
        if backend.is_broken() {
            break;
        }
    }
    // The driver's own clean-up may wait for a context that is lost; the end of the process frees
    // everything it holds.
    // SAFETY: ends the process at once; everything was written.
    unsafe { libc::_exit(0) }
}

/// Not to be guessed by code on the device.
fn unpredictable() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::hash::RandomState::new().build_hasher().finish()
}

/// A worker that runs candidates on the CPU. Returns when the supervisor closes the pipe.
pub fn cpu_main(jail: Option<&Jail>) -> io::Result<()> {
    let mut pipes = take_over()?;
    cpu::install_fault_handler(pipes.output.as_raw_fd())?;
    sandbox::install_handler(pipes.output.as_raw_fd())?;
    let mut backend = CpuBackend::new();
    let process = std::process::id();
    let device = backend.device();
    let sandbox = enter(jail, Inmate::Candidate);
    watch_supervisor(&pipes)?;
    greet(&mut pipes, device, sandbox)?;
    let ended = loop {
        match read_frame::<Request>(&mut pipes.input) {
            Ok(None) => break Ok(()),
            Err(e) => break Err(e),
            Ok(Some((request, _))) => {
                let answer = match request {
                    Request::PlainTrial(trial) => cpu::plain_trial(&trial)
                        .map(|finding| Answer::plain(Response::PlainFinding(finding))),
                    other => serve(&mut backend, other, process),
                };
                if let Err(e) = reply(&mut pipes.output, answer) {
                    break Err(e);
                }
            }
        }
    };
    // A candidate may have closed these descriptors behind our back; closing them again would be
    // reported as a fault of ours.
    std::mem::forget(pipes);
    ended
}

/// A worker that compiles.
pub fn compile_main(jail: Option<&Jail>) -> io::Result<()> {
    let mut pipes = take_over()?;
    let device = CpuBackend::new().device();
    let sandbox = enter(jail, Inmate::CompilerCommand);
    watch_supervisor(&pipes)?;
    // Whoever checks and times candidates comes first; compilers take what is left.
    // SAFETY: changes this process's priority, nothing else.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 10) };
    greet(&mut pipes, device, sandbox)?;
    let mut nvrtc = Nvrtc::default();
    while let Some((request, _)) = read_frame::<Request>(&mut pipes.input)? {
        let response = match request {
            Request::Compile(job) => {
                let result = match &job.tool {
                    Tool::Cc { .. } => Cc.compile(&job),
                    Tool::Nvrtc { .. } => nvrtc.compile(&job),
                    Tool::Nvcc { .. } => Nvcc.compile(&job),
                };
                match result {
                    Ok(compiled) => Response::Compiled(compiled),
                    Err(failure) => Response::NotCompiled(failure),
                }
            }
            Request::Reads(job) => {
                let result = match &job.tool {
                    Tool::Cc { .. } => Cc.reads(&job),
                    Tool::Nvrtc { .. } => nvrtc.reads(&job),
                    Tool::Nvcc { .. } => Nvcc.reads(&job),
                };
                match result {
                    Ok(files) => Response::Reads(files),
                    Err(failure) => Response::NotCompiled(failure),
                }
            }
            Request::DescribeNvrtc { library, builtins } => {
                match nvrtc.info(&library, builtins.as_deref()) {
                    Ok(info) => Response::Nvrtc(info),
                    Err(message) => Response::Refused(Refusal::NotLoadable { message }),
                }
            }
            Request::Locate { image, offset } => {
                Response::Located(lines::source_place(&image, offset))
            }
            other => unexpected(&other),
        };
        write_frame(&mut pipes.output, &response, &[])?;
    }
    Ok(())
}

struct Pipes {
    input: BufReader<File>,
    output: File,
}

/// Without a jail there are no walls, and the supervisor is told so.
fn enter(jail: Option<&Jail>, inmate: Inmate) -> Sandbox {
    match jail {
        Some(jail) => sandbox::enter(jail),
        None => Sandbox::none(inmate.guards(), "switched off (--no-sandbox)"),
    }
}

fn greet(pipes: &mut Pipes, device: DeviceInfo, sandbox: Sandbox) -> io::Result<()> {
    let hello = Response::Hello {
        protocol: PROTOCOL_VERSION,
        device,
        sandbox: Some(sandbox),
    };
    write_frame(&mut pipes.output, &hello, &[])
}

enum Answer<'b> {
    Plain(Box<Response>),
    Outputs(&'b [u8]),
}

impl Answer<'_> {
    fn plain(response: Response) -> Answer<'static> {
        Answer::Plain(Box::new(response))
    }
}

fn reply(output: &mut impl Write, answer: Result<Answer<'_>, Refusal>) -> io::Result<()> {
    match answer {
        Ok(Answer::Plain(response)) => write_frame(output, &*response, &[]),
        Ok(Answer::Outputs(bytes)) => write_frame(output, &Response::Outputs, bytes),
        Err(refusal) => write_frame(output, &Response::Refused(refusal), &[]),
    }
}

fn serve(
    backend: &mut impl Backend,
    request: Request,
    process: u32,
) -> Result<Answer<'_>, Refusal> {
    let done = Ok(Answer::plain(Response::Done));
    match request {
        Request::Load { image, symbol } => {
            backend.load(&image, &symbol)?;
            still_alone(process)?;
            done
        }
        Request::Unload => {
            let device_nanos = backend.unload()?;
            Ok(Answer::plain(Response::Unloaded { device_nanos }))
        }
        Request::Prepare(problem) => {
            backend.prepare(&problem)?;
            done
        }
        Request::Check { cores, poison } => {
            backend.poison(poison)?;
            backend.launch(cores)?;
            still_alone(process)?;
            backend.inspect().map(Answer::Outputs)
        }
        Request::Sample { plan, poison } => {
            backend.poison(poison)?;
            let samples = backend.sample(&plan)?;
            still_alone(process)?;
            Ok(Answer::plain(Response::Sampled {
                nanos: samples.nanos,
                conditions: samples.conditions,
                interruptions: samples.interruptions,
            }))
        }
        Request::Inspect { same_will_do } => {
            if same_will_do && backend.same_as_sent()? {
                return Ok(Answer::plain(Response::Same));
            }
            backend.inspect().map(Answer::Outputs)
        }
        other @ (Request::Compile(_)
        | Request::Reads(_)
        | Request::DescribeNvrtc { .. }
        | Request::Locate { .. }
        | Request::PlainTrial(_)
        | Request::Occupancy { .. }
        | Request::Finish) => Ok(Answer::plain(unexpected(&other))),
    }
}

fn unexpected(request: &Request) -> Response {
    Response::Refused(Refusal::BadTask {
        message: format!("this worker does not serve {request:?}"),
    })
}

/// A kernel that forked leaves two processes here: the copy ends silently, and the original
/// reports the children, for a kernel must not leave work running beside the clock.
fn still_alone(process: u32) -> Result<(), Refusal> {
    if std::process::id() != process {
        // SAFETY: _exit ends the copy at once, without running the candidate's exit handlers.
        unsafe { libc::_exit(0) };
    }
    let mut count = 0;
    loop {
        match waitpid(Pid::from_raw(-1), Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::StillAlive) => {
                count += living_children().max(1);
                break;
            }
            Ok(_) => count += 1,
            Err(_) => break,
        }
    }
    if count == 0 {
        return Ok(());
    }
    Err(Refusal::LeftProcesses { count })
}

fn living_children() -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten();
    tasks
        .flatten()
        .filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok())
        .map(|list| list.split_whitespace().count() as u64)
        .sum()
}

/// Moves the protocol away from the standard streams, so that nothing a candidate or compiler
/// prints can reach it, and makes sure this process does not outlive the supervisor.
fn take_over() -> io::Result<Pipes> {
    // A session of its own: the supervisor can kill the family as one group, Ctrl-C at the terminal
    // does not reach it, and a candidate cannot join the supervisor's group.
    let _ = nix::unistd::setsid();
    let input = duplicate(0)?;
    let output = duplicate(1)?;
    // Outputs are megabytes; a larger pipe needs fewer turns. Not every system allows it.
    // SAFETY: changes a buffer's size, nothing else.
    let _ = unsafe { libc::fcntl(output.as_raw_fd(), libc::F_SETPIPE_SZ, 1 << 20) };
    let null = File::open("/dev/null")?;
    redirect(null.as_raw_fd(), 0)?;
    // What candidates print goes where their errors go: a pipe the supervisor drains and bounds.
    redirect(2, 1)?;
    // For the moments a worker is stopped and its watchdog with it.
    nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL)?;
    nix::sys::resource::setrlimit(nix::sys::resource::Resource::RLIMIT_CORE, 0, 0)?;
    Ok(Pipes {
        input: BufReader::new(File::from(input)),
        output: File::from(output),
    })
}

/// Starts the watchdog. Behind the walls where possible: a thread outside them, in the candidate's
/// own process, would be a door.
fn watch_supervisor(pipes: &Pipes) -> io::Result<()> {
    let watched = pipes.input.get_ref().as_raw_fd();
    let family = std::process::id() as i32;
    std::thread::Builder::new()
        .name("watchdog".into())
        .stack_size(64 << 10)
        .spawn(move || die_with_supervisor(watched, family))?;
    Ok(())
}

/// Waits for the supervisor's end of the request pipe to close, which the kernel does however the
/// supervisor dies, then kills the whole process group: this process, compilers it started, and
/// whatever a candidate forked. A hung candidate cannot hold this thread up.
fn die_with_supervisor(request_pipe: i32, family: i32) {
    let mut polled = libc::pollfd {
        fd: request_pipe,
        events: 0,
        revents: 0,
    };
    loop {
        // SAFETY: one valid pollfd, count 1.
        let ready = unsafe { libc::poll(&mut polled, 1, -1) };
        if ready > 0 && polled.revents != 0 {
            // By number, not "my group": a candidate may have moved this process elsewhere.
            // SAFETY: signals have no memory effects.
            unsafe {
                libc::kill(-family, libc::SIGKILL);
                libc::kill(family, libc::SIGKILL);
            }
        }
    }
}

fn duplicate(descriptor: i32) -> io::Result<OwnedFd> {
    // SAFETY: fcntl on an open descriptor; the result is checked and owned by nobody else.
    let copy = unsafe { libc::fcntl(descriptor, libc::F_DUPFD_CLOEXEC, 64) };
    if copy < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `copy` is a fresh descriptor.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}

fn redirect(from: i32, to: i32) -> io::Result<()> {
    // SAFETY: dup2 on two descriptor numbers; errors are checked.
    if unsafe { libc::dup2(from, to) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
