//! A Python process that times images by PyTorch's means; it lives as long as the section.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use kiln_core::manifest::Role;
use kiln_core::protocol::{ArgumentSpec, Problem};
use kiln_device::contents;
use serde_json::{Value, json};

use crate::engine::{children, interrupt, interrupted};
use crate::exit::{Exit, Failure};
use crate::settings;
use crate::task::Program;

const SCRIPT: &str = include_str!("graph_timing.py");
/// Importing PyTorch from a cold disk takes its time.
const START_DEADLINE: Duration = Duration::from_secs(180);
const TIMING_DEADLINE: Duration = Duration::from_secs(60);
const TICK: Duration = Duration::from_millis(50);

/// One launch, as a line for the script.
pub struct Job(Value);

impl Job {
    pub fn new(program: &Program, problem: &Problem) -> Result<Job, Failure> {
        let arguments = problem.arguments.iter().map(|argument| match argument {
            ArgumentSpec::Scalar { dtype, value, .. } => {
                let bytes = contents::of_scalar(*dtype, value);
                let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
                Ok(json!({ "scalar": hex }))
            }
            ArgumentSpec::Buffer { role, .. } => Ok(json!({
                "buffer": argument.bytes(),
                "drawn": matches!(role, Role::Input | Role::InOut),
            })),
            ArgumentSpec::Tma { .. } => Err(bug("tensor maps are not timed")),
        });
        let arguments = arguments.collect::<Result<Vec<_>, _>>()?;
        let launch = problem.launch.ok_or_else(|| bug("no launch geometry"))?;
        Ok(Job(json!({
            "image": program.image,
            "symbol": program.symbol,
            "grid": launch.grid,
            "block": launch.block,
            "shared": launch.shared_bytes,
            "arguments": arguments,
        })))
    }
}

fn bug(message: &str) -> Failure {
    Failure::new(Exit::Bug, message)
}

pub struct Torch {
    child: Child,
    stdin: ChildStdin,
    lines: Receiver<String>,
    pub version: String,
}

impl Torch {
    /// `Ok(Err(reason))`: there is no PyTorch that can use the GPU.
    pub fn start() -> Result<Result<Torch, String>, Failure> {
        let python = settings::python();
        let mut command = Command::new(&python);
        command
            .args(["-u", "-c", SCRIPT])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = match children::spawn(&mut command) {
            Ok(child) => child,
            Err(e) => return Ok(Err(format!("`{python}` cannot be run: {e}"))),
        };
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            children::kill_family(&mut child);
            return Err(bug("a child without pipes"));
        };
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let mut torch = Torch {
            child,
            stdin,
            lines,
            version: String::new(),
        };
        let greeting = match torch.answer(START_DEADLINE)? {
            Ok(greeting) => greeting,
            Err(reason) => return Ok(Err(format!("`{python}`: {reason}"))),
        };
        torch.version = greeting["torch"].as_str().unwrap_or("?").to_string();
        Ok(Ok(torch))
    }

    /// Nanoseconds per launch, the median over graph replays.
    pub fn time(&mut self, job: &Job) -> Result<f64, Failure> {
        let failed = |why: String| Failure::new(Exit::No, format!("timing with PyTorch: {why}"));
        writeln!(self.stdin, "{}", job.0)
            .and_then(|()| self.stdin.flush())
            .map_err(|e| failed(format!("it does not listen: {e}")))?;
        let answer = self.answer(TIMING_DEADLINE)?.map_err(failed)?;
        answer["median_ns"]
            .as_f64()
            .ok_or_else(|| bug("PyTorch's answer has no median"))
    }

    /// The next line as JSON; `Ok(Err(reason))` when it tells of an error or there is none.
    fn answer(&mut self, deadline: Duration) -> Result<Result<Value, String>, Failure> {
        let until = Instant::now() + deadline;
        let line = loop {
            if interrupt::asked() {
                return Err(interrupted());
            }
            match self.lines.recv_timeout(TICK) {
                Ok(line) => break line,
                Err(RecvTimeoutError::Disconnected) => return Ok(Err("it ended".into())),
                Err(RecvTimeoutError::Timeout) if Instant::now() >= until => {
                    return Ok(Err(format!("no answer for {} s", deadline.as_secs())));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        };
        let answer: Value = match serde_json::from_str(&line) {
            Ok(answer) => answer,
            Err(_) => return Ok(Err(format!("it says `{line}`"))),
        };
        Ok(match answer["error"].as_str() {
            Some(error) => Err(error.to_string()),
            None => Ok(answer),
        })
    }
}

impl Drop for Torch {
    fn drop(&mut self) {
        children::kill_family(&mut self.child);
    }
}
