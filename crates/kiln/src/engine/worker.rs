//! One worker process as the supervisor sees it: requests with deadlines, and every way to die.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, Read};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdin, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use kiln_core::protocol::{
    DeviceInfo, MemoryFault, PROTOCOL_VERSION, Problem, Refusal, Request, Response, StoppedAt,
};
use kiln_core::sandbox::Sandbox;
use kiln_device::frame::{read_frame, write_frame};
use kiln_device::python;
use kiln_device::sandbox::{self, Jail};

use super::{children, interrupt, jail};
use crate::exit::Failure;

mod kind;
#[cfg(test)]
mod tests;

pub use kind::{ADDRESS_SANITIZER_EXIT, WorkerKind};

/// What a candidate may print before it counts as a flood.
const OUTPUT_LIMIT_BYTES: u64 = 8 << 20;
/// What is kept of it, for the report.
const OUTPUT_KEPT_BYTES: usize = 4 << 10;
/// SIGHUP, SIGINT and SIGTERM.
const INTERRUPTS: [i32; 3] = [1, 2, 15];
const SIGSYS: i32 = 31;
/// How often a waiting supervisor looks at floods and interrupts.
const TICK: Duration = Duration::from_millis(20);
/// A worker killed from outside says nothing about its candidate; killed more often than this in
/// a row, it is the candidate after all (memory, most likely).
pub const OUTSIDE_KILLS_FORGIVEN: usize = 3;

const KILLED_SAYS_A_SHELL: i32 = 128 + 9;

/// Why a request was not answered with a plain response.
#[derive(Debug)]
pub enum WorkerEnd {
    Signal(i32),
    Exited(i32),
    /// Died by a bad address near a buffer.
    Fault(MemoryFault),
    /// Ended by the sandbox for a system call.
    Forbidden(String),
    TimedOut(Duration),
    OutputFlood(u64),
    /// The candidate's fault; the worker said so and lives.
    Refused(Refusal),
    Interrupted,
    /// What came back is not an answer to what was asked.
    Garbled(String),
    /// kiln's own trouble: a worker cannot be started.
    Broken(Failure),
}

impl WorkerEnd {
    /// What happened, for people.
    pub fn in_words(&self, argument_name: &dyn Fn(usize) -> String) -> String {
        match self {
            WorkerEnd::Signal(signal) => format!("killed by signal {signal}"),
            WorkerEnd::Exited(code) => format!("it ended the process with code {code}"),
            WorkerEnd::Fault(fault) => format!(
                "bad address {} bytes from the start of argument `{}`",
                fault.offset,
                argument_name(fault.argument)
            ),
            WorkerEnd::Forbidden(call) if call.is_empty() => {
                "it made a system call that the sandbox forbids".into()
            }
            WorkerEnd::Forbidden(call) => {
                format!("it called `{call}`, which the sandbox forbids")
            }
            WorkerEnd::TimedOut(after) => format!("still running after {} s", after.as_secs()),
            WorkerEnd::OutputFlood(bytes) => format!("it printed more than {bytes} bytes"),
            WorkerEnd::Refused(refusal) => match refusal {
                Refusal::NotLoadable { message } => format!("it cannot be loaded: {message}"),
                Refusal::OutOfMemory { bytes: 0 } => "out of memory".into(),
                Refusal::OutOfMemory { bytes } => {
                    format!("out of memory: {bytes} bytes were not to be had")
                }
                Refusal::LeftProcesses { count } => {
                    format!("it left {count} child process(es) behind")
                }
                Refusal::GuardZone { argument, offset } => format!(
                    "it wrote outside argument `{}`, {offset} bytes from its start",
                    argument_name(*argument)
                ),
                Refusal::Device(error) => format!("it {error}"),
                Refusal::InputModified { argument } => {
                    format!("it changed its input `{}`", argument_name(*argument))
                }
                Refusal::NoDevice { message } | Refusal::BadTask { message } => message.clone(),
            },
            WorkerEnd::Interrupted => "interrupted".into(),
            WorkerEnd::Garbled(message) => message.clone(),
            WorkerEnd::Broken(failure) => failure.message.clone(),
        }
    }

    /// An answer to something else than was asked.
    pub fn misplaced(answer: &Response, asked: &str) -> WorkerEnd {
        let name = answer.name();
        WorkerEnd::Garbled(format!("it answered `{name}` when asked {asked}"))
    }
}

/// For those who do not know the arguments' names.
impl fmt::Display for WorkerEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.in_words(&|argument| format!("#{argument}")))
    }
}

/// A response and its payload.
type Frame = (Response, Vec<u8>);

pub struct Worker {
    child: Child,
    stdin: Option<ChildStdin>,
    responses: Receiver<io::Result<Option<Frame>>>,
    printed: Arc<Printed>,
    pub device: DeviceInfo,
    /// What it is kept from; `None` for the user's own code.
    pub sandbox: Option<Sandbox>,
    jail: Option<Jail>,
    greeting_deadline: Duration,
    /// In words, where it is not kiln itself.
    foreign_program: Option<String>,
    /// It cannot draw inputs itself: they travel with each problem.
    takes_inputs: bool,
    /// Problems whose inputs it still has, the least recently used first.
    sent: VecDeque<(String, u64)>,
    /// Image and symbol.
    loaded: Option<(String, String)>,
    /// Where it was when a signal ended it, as far as it could say.
    pub stopped_at: Option<StoppedAt>,
}

/// A worker that may not have greeted yet.
pub struct Starting(Stage);

enum Stage {
    Awaited(Worker),
    Greeted(Worker),
    Failed(WorkerEnd),
}

impl Starting {
    /// One that has served already and may serve again.
    pub fn ready(worker: Worker) -> Starting {
        Starting(Stage::Greeted(worker))
    }

    /// Waits for it, so that its start disturbs nothing that comes.
    pub fn settled(self) -> Starting {
        Starting(match self.greet() {
            Ok(worker) => Stage::Greeted(worker),
            Err(end) => Stage::Failed(end),
        })
    }

    pub fn greet(self) -> Result<Worker, WorkerEnd> {
        let mut worker = match self.0 {
            Stage::Awaited(worker) => worker,
            Stage::Greeted(worker) => return Ok(worker),
            Stage::Failed(end) => return Err(end),
        };
        let end = match worker.receive(worker.greeting_deadline) {
            Ok((hello @ Response::Hello { protocol, .. }, _)) if protocol == PROTOCOL_VERSION => {
                return worker.introduced(hello).map_err(WorkerEnd::Broken);
            }
            Ok((Response::Hello { protocol, .. }, _)) => WorkerEnd::Garbled(format!(
                "it speaks protocol {protocol}, not {PROTOCOL_VERSION}"
            )),
            Ok((other, _)) => WorkerEnd::misplaced(&other, "who it is"),
            Err(end) => end,
        };
        Err(match (&worker.foreign_program, end) {
            // An interrupt is nobody's fault, and a kill from outside is tried again.
            (_, end @ (WorkerEnd::Interrupted | WorkerEnd::Signal(9))) => end,
            (Some(program), end) => {
                WorkerEnd::Broken(no_child(program, &end, &worker.output_tail()))
            }
            (None, WorkerEnd::Garbled(message)) => WorkerEnd::Broken(
                Failure::machine(format!("a worker cannot be used: {message}")).hint(
                    "`kiln doctor` says what is missing; `--no-sandbox` is for what you trust",
                ),
            ),
            (None, end) => end,
        })
    }
}

impl Worker {
    /// Takes note of what a worker says about itself.
    fn introduced(mut self, hello: Response) -> Result<Worker, Failure> {
        if let Response::Hello {
            device, sandbox, ..
        } = hello
        {
            (self.device, self.sandbox) = (device, sandbox);
        }
        if let Some(given) = &self.jail {
            let sandbox = self.sandbox.clone().unwrap_or_default();
            jail::accept(given.inmate, &sandbox)?;
        }
        Ok(self)
    }
}

/// The failure for a program that was to run kiln's Python text and did something else.
fn no_child(program: &str, end: &WorkerEnd, printed: &str) -> Failure {
    let why = match end {
        // Whatever the bytes were, they were no frame.
        WorkerEnd::Garbled(_) => "what it writes is something else".to_string(),
        WorkerEnd::TimedOut(after) => format!("no word in {} s", after.as_secs()),
        other => other.to_string(),
    };
    // The last line of a Python traceback says what happened.
    let last = printed.lines().last().map(str::trim).unwrap_or_default();
    let last = match last.is_empty() {
        true => String::new(),
        false => format!("\n  it says: {last}"),
    };
    Failure::machine(format!(
        "{program} does not answer like kiln's child: {why}{last}"
    ))
    .hint("set KILN_PYTHON to a Python 3.8 or newer; `kiln doctor` shows what it finds")
}

#[derive(Default)]
struct Printed {
    total: AtomicU64,
    tail: Mutex<Vec<u8>>,
}

impl Worker {
    /// Starts a worker. One killed from outside before it has done anything is simply replaced.
    pub fn spawn(kind: &WorkerKind) -> Result<Worker, WorkerEnd> {
        for _ in 0..OUTSIDE_KILLS_FORGIVEN {
            match Worker::try_spawn(kind) {
                Err(WorkerEnd::Signal(9)) => {}
                result => return result,
            }
        }
        Worker::try_spawn(kind)
    }

    fn try_spawn(kind: &WorkerKind) -> Result<Worker, WorkerEnd> {
        Worker::start(kind)?.greet()
    }

    /// Starts a worker without waiting for it. To be called on a thread that lives as long as the
    /// worker should: the system ends a child with the thread that started it.
    pub fn start(kind: &WorkerKind) -> Result<Starting, WorkerEnd> {
        let mut command = kind.command();
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = children::spawn(&mut command).map_err(|e| {
            WorkerEnd::Broken(match kind.foreign_program() {
                Some(program) => {
                    Failure::machine(format!("cannot start {program}: {}", without_number(&e)))
                        .hint("install Python 3, or set KILN_PYTHON to one")
                }
                None => Failure::machine(format!("cannot start a worker: {e}")).hint(
                    "see that there is memory and that processes may be started (`ulimit -u`)",
                ),
            })
        })?;
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().expect("stdout is piped");
        let stderr = child.stderr.take().expect("stderr is piped");
        let (sender, responses) = channel();
        let printed = Arc::new(Printed::default());
        let sink = Arc::clone(&printed);
        thread::spawn(move || drain(stderr, &sink));
        thread::spawn(move || {
            let mut stdout = io::BufReader::new(stdout);
            loop {
                let frame = read_frame::<Response>(&mut stdout);
                let last = !matches!(frame, Ok(Some(_)));
                if sender.send(frame).is_err() || last {
                    break;
                }
            }
        });
        Ok(Starting(Stage::Awaited(Worker {
            child,
            stdin,
            responses,
            printed,
            device: DeviceInfo {
                kind: String::new(),
                name: String::new(),
                cores: 0,
                memory_bytes: 0,
                environment: Vec::new(),
                cuda: None,
            },
            sandbox: None,
            jail: kind.jail(),
            greeting_deadline: kind.greeting_deadline(),
            foreign_program: kind.foreign_program(),
            takes_inputs: kind.is_python(),
            sent: VecDeque::new(),
            loaded: None,
            stopped_at: None,
        })))
    }

    /// Makes a problem the worker's current one.
    pub fn prepare(&mut self, problem: &Problem, deadline: Duration) -> Result<(), WorkerEnd> {
        let key = (problem.shape.clone(), problem.seed);
        let known = self.sent.iter().position(|sent| *sent == key);
        let inputs = match self.takes_inputs && known.is_none() {
            true => kiln_device::contents::inputs(problem).map_err(WorkerEnd::Refused)?,
            false => Vec::new(),
        };
        let request = Request::Prepare(problem.clone());
        self.request_with(&request, &inputs, deadline)?;
        if self.takes_inputs {
            known.map(|place| self.sent.remove(place));
            self.sent.push_back(key);
            if self.sent.len() > python::REMEMBERED_PROBLEMS {
                self.sent.pop_front();
            }
        }
        Ok(())
    }

    /// Loads a program, which then begins with nothing; the user's own Python is left as it is, for
    /// sending it the same inputs again would take longer than all the rest.
    pub fn load(&mut self, image: &str, symbol: &str, deadline: Duration) -> Result<(), WorkerEnd> {
        let program = (image.to_string(), symbol.to_string());
        if self.takes_inputs && self.loaded.as_ref() == Some(&program) {
            return Ok(());
        }
        self.sent.clear();
        self.loaded = None;
        let (image, symbol) = program.clone();
        self.request(&Request::Load { image, symbol }, deadline)?;
        self.loaded = Some(program);
        Ok(())
    }

    /// Has it forget its program; the answer says whether it may serve again.
    pub fn unload(&mut self, deadline: Duration) -> Result<Frame, WorkerEnd> {
        self.sent.clear();
        self.loaded = None;
        self.request(&Request::Unload, deadline)
    }

    /// Sends a request and waits for its answer. After any `Err` but `Refused` the worker is dead.
    pub fn request(&mut self, request: &Request, deadline: Duration) -> Result<Frame, WorkerEnd> {
        self.request_with(request, &[], deadline)
    }

    fn request_with(
        &mut self,
        request: &Request,
        payload: &[u8],
        deadline: Duration,
    ) -> Result<Frame, WorkerEnd> {
        let sent = match &mut self.stdin {
            Some(stdin) => write_frame(stdin, request, payload),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        };
        if let Err(error) = sent {
            // A dead worker cannot read; how it died says more than the broken pipe.
            return match self.receive(TICK) {
                Err(end) => Err(end),
                Ok(_) => Err(WorkerEnd::Garbled(format!("it does not listen: {error}"))),
            };
        }
        self.receive(deadline)
    }

    /// Lets the worker end by itself, so that whoever watches over it can write its report.
    pub fn finish(mut self, deadline: Duration) -> Result<(), WorkerEnd> {
        self.request(&Request::Finish, deadline)?;
        let until = Instant::now() + deadline;
        while Instant::now() < until {
            if matches!(self.child.try_wait(), Ok(Some(_)) | Err(_)) {
                return Ok(());
            }
            thread::sleep(Duration::from_millis(10));
        }
        Err(WorkerEnd::TimedOut(deadline))
    }

    /// Stops every thread of the worker, so that nothing it left running can disturb another.
    /// Returns when all have stopped; a worker that died instead will say so when next asked.
    pub fn freeze(&self) {
        children::stop_family(&self.child);
    }

    pub fn thaw(&self) {
        children::continue_family(&self.child);
    }

    /// What the candidate printed last, for people.
    pub fn output_tail(&self) -> String {
        let tail = self.printed.tail.lock().expect("no holder panics");
        String::from_utf8_lossy(&tail).trim().to_string()
    }

    fn receive(&mut self, deadline: Duration) -> Result<Frame, WorkerEnd> {
        let started = Instant::now();
        loop {
            let left = deadline.saturating_sub(started.elapsed());
            let printed = self.printed.total.load(Ordering::Relaxed);
            if printed > OUTPUT_LIMIT_BYTES {
                self.kill();
                return Err(WorkerEnd::OutputFlood(OUTPUT_LIMIT_BYTES));
            }
            if interrupt::asked() {
                self.kill();
                return Err(WorkerEnd::Interrupted);
            }
            match self.responses.recv_timeout(left.min(TICK)) {
                Ok(Ok(Some((Response::Stopped(place), _)))) => self.stopped_at = Some(place),
                Ok(Ok(Some((Response::Fault(fault), _)))) => {
                    self.kill();
                    return Err(WorkerEnd::Fault(fault));
                }
                Ok(Ok(Some((Response::Forbidden { call }, _)))) => {
                    self.kill();
                    return Err(WorkerEnd::Forbidden(sandbox::call_name(call)));
                }
                Ok(Ok(Some((Response::Refused(refusal), _)))) => {
                    return Err(WorkerEnd::Refused(refusal));
                }
                Ok(Ok(Some(frame))) => return Ok(frame),
                // The pipe is closed or torn: the process is dying or already dead.
                Ok(Ok(None)) | Err(RecvTimeoutError::Disconnected) => {
                    return Err(self.post_mortem());
                }
                // Killed in the middle of an answer.
                Ok(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    return Err(self.post_mortem());
                }
                Ok(Err(error)) => {
                    self.kill();
                    return Err(WorkerEnd::Garbled(error.to_string()));
                }
                Err(RecvTimeoutError::Timeout) if left.is_zero() => {
                    self.kill();
                    return Err(WorkerEnd::TimedOut(deadline));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// How the process ended. One that closed its pipe but lives on is given a moment, then killed.
    fn post_mortem(&mut self) -> WorkerEnd {
        let patience = Instant::now() + Duration::from_millis(500);
        let mut status = None;
        while Instant::now() < patience {
            match self.child.try_wait() {
                Ok(Some(found)) => {
                    status = Some(found);
                    break;
                }
                Ok(None) => thread::sleep(Duration::from_millis(1)),
                Err(_) => break,
            }
        }
        let killed = self.kill();
        let end = status
            .or(killed)
            .map_or_else(|| WorkerEnd::Garbled("it vanished".into()), describe);
        match (was_interrupted(&end), &end) {
            (true, _) => WorkerEnd::Interrupted,
            // `python3` may be a script that starts the real one, and a shell reports a death so.
            (false, WorkerEnd::Exited(KILLED_SAYS_A_SHELL)) if self.foreign_program.is_some() => {
                WorkerEnd::Signal(9)
            }
            // With signals blocked, as `posix_spawn` does, a refused call ends the process unheard.
            (false, WorkerEnd::Signal(SIGSYS)) if self.jail.is_some() => {
                WorkerEnd::Forbidden(String::new())
            }
            (false, _) => end,
        }
    }

    fn kill(&mut self) -> Option<ExitStatus> {
        self.stdin = None;
        children::kill_family(&mut self.child)
    }
}

/// Whether a worker died of the user's Ctrl-C. One that has no session of its own yet gets the
/// signal too, and may be dead before this process has noticed its own.
fn was_interrupted(end: &WorkerEnd) -> bool {
    let is_likely = match end {
        WorkerEnd::Signal(signal) => INTERRUPTS.contains(signal),
        // As a shell reports it.
        WorkerEnd::Exited(code) => INTERRUPTS.contains(&(code - 128)),
        _ => false,
    };
    let patience = match is_likely {
        true => Duration::from_millis(200),
        false => Duration::ZERO,
    };
    let until = Instant::now() + patience;
    while !interrupt::asked() && Instant::now() < until {
        thread::sleep(Duration::from_millis(1));
    }
    interrupt::asked()
}

/// The system's words for an error, without `(os error 2)`.
fn without_number(error: &io::Error) -> String {
    let text = error.to_string();
    let words = text.split_once(" (os error").map(|(words, _)| words);
    words.unwrap_or(&text).to_string()
}

fn describe(status: ExitStatus) -> WorkerEnd {
    match (status.signal(), status.code()) {
        (Some(signal), _) => WorkerEnd::Signal(signal),
        (None, Some(code)) => WorkerEnd::Exited(code),
        (None, None) => WorkerEnd::Garbled(format!("it ended with {status}")),
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Reads everything, keeps the tail, counts the rest.
fn drain(mut pipe: impl Read, printed: &Printed) {
    let mut chunk = [0u8; 16 << 10];
    loop {
        match pipe.read(&mut chunk) {
            Ok(0) | Err(_) => return,
            Ok(n) => {
                printed.total.fetch_add(n as u64, Ordering::Relaxed);
                let mut tail = printed.tail.lock().expect("no holder panics");
                tail.extend_from_slice(&chunk[..n]);
                let excess = tail.len().saturating_sub(OUTPUT_KEPT_BYTES);
                tail.drain(..excess);
            }
        }
    }
}
