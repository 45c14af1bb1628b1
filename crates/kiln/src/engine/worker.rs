//! One worker process as the supervisor sees it: requests with deadlines, and every way to die.

use std::io::{self, Read};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use kiln_core::protocol::{DeviceInfo, MemoryFault, PROTOCOL_VERSION, Refusal, Request, Response};
use kiln_device::frame::{read_frame, write_frame};

use super::{children, interrupt};

/// What a candidate may print before it counts as a flood.
const OUTPUT_LIMIT_BYTES: u64 = 8 << 20;
/// What is kept of it, for the report.
const OUTPUT_KEPT_BYTES: usize = 4 << 10;
/// How often a waiting supervisor looks at floods and interrupts.
const TICK: Duration = Duration::from_millis(20);
/// A worker killed from outside says nothing about its candidate; killed more often than this in
/// a row, it is the candidate after all (memory, most likely).
pub const OUTSIDE_KILLS_FORGIVEN: usize = 3;
const GREETING_DEADLINE: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerKind {
    Compile,
    Run,
}

/// Why a request was not answered with a plain response.
#[derive(Debug)]
pub enum WorkerEnd {
    Signal(i32),
    Exited(i32),
    /// Died by a bad address near a buffer.
    Fault(MemoryFault),
    TimedOut(Duration),
    OutputFlood(u64),
    /// The candidate's fault; the worker said so and lives.
    Refused(Refusal),
    Interrupted,
    /// What came back is not an answer to what was asked.
    Garbled(String),
    /// kiln's own trouble: a worker cannot be started.
    Broken(String),
}

/// A response and its payload.
type Frame = (Response, Vec<u8>);

pub struct Worker {
    child: Child,
    stdin: Option<ChildStdin>,
    responses: Receiver<io::Result<Option<Frame>>>,
    printed: Arc<Printed>,
    pub device: DeviceInfo,
}

#[derive(Default)]
struct Printed {
    total: AtomicU64,
    tail: Mutex<Vec<u8>>,
}

impl Worker {
    /// Starts a worker. One killed from outside before it has done anything is simply replaced.
    pub fn spawn(kind: WorkerKind) -> Result<Worker, WorkerEnd> {
        for _ in 0..OUTSIDE_KILLS_FORGIVEN {
            match Worker::try_spawn(kind) {
                Err(WorkerEnd::Signal(9)) => {}
                result => return result,
            }
        }
        Worker::try_spawn(kind)
    }

    fn try_spawn(kind: WorkerKind) -> Result<Worker, WorkerEnd> {
        let broken = |what: &str, e: io::Error| WorkerEnd::Broken(format!("{what}: {e}"));
        // The running binary itself, also when a newer one has taken its place on disk.
        let mut command = Command::new("/proc/self/exe");
        command
            .arg("worker")
            .arg(match kind {
                WorkerKind::Compile => "compile",
                WorkerKind::Run => "run",
            })
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child =
            children::spawn(&mut command).map_err(|e| broken("cannot start a worker", e))?;
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
        let mut worker = Worker {
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
            },
        };
        match worker.receive(GREETING_DEADLINE)? {
            (Response::Hello { protocol, device }, _) if protocol == PROTOCOL_VERSION => {
                worker.device = device;
                Ok(worker)
            }
            (other, _) => Err(WorkerEnd::Broken(format!(
                "a worker greeted with {other:?} instead of protocol {PROTOCOL_VERSION}"
            ))),
        }
    }

    /// Sends a request and waits for its answer. After any `Err` but `Refused` the worker is dead.
    pub fn request(&mut self, request: &Request, deadline: Duration) -> Result<Frame, WorkerEnd> {
        let sent = match &mut self.stdin {
            Some(stdin) => write_frame(stdin, request, &[]),
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
                Ok(Ok(Some((Response::Fault(fault), _)))) => {
                    self.kill();
                    return Err(WorkerEnd::Fault(fault));
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
        status
            .or(killed)
            .map_or_else(|| WorkerEnd::Garbled("it vanished".into()), describe)
    }

    fn kill(&mut self) -> Option<ExitStatus> {
        self.stdin = None;
        children::kill_family(&mut self.child)
    }
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
