//! A real Chromium without a window, driven through its own debugging pipe: JSON messages with a zero byte
//! after each, so no further crate is needed.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// For any one answer; a machine that does other things may be slow.
const PATIENCE: Duration = Duration::from_secs(120);

pub struct Browser {
    child: Child,
    input: ChildStdin,
    messages: Receiver<Value>,
    next: u64,
    session: Option<String>,
    events: Vec<Value>,
    _profile: tempfile::TempDir,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    Light,
    Dark,
}

impl Scheme {
    pub fn name(self) -> &'static str {
        match self {
            Scheme::Light => "light",
            Scheme::Dark => "dark",
        }
    }
}

/// The Chromium that KILN_CHROMIUM names, else one that is installed.
fn chromium() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("KILN_CHROMIUM") {
        return Some(named.into());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    ["chromium", "chromium-browser", "google-chrome"]
        .into_iter()
        .flat_map(|name| std::env::split_paths(&path).map(move |folder| folder.join(name)))
        .find(|program| program.is_file())
}

/// Where screenshots are kept, for people and as artefacts of a CI run.
pub fn screenshots() -> PathBuf {
    let folder = match std::env::var_os("KILN_SCREENSHOTS") {
        Some(named) => named.into(),
        None => Path::new(env!("CARGO_TARGET_TMPDIR")).join("screenshots"),
    };
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

impl Browser {
    /// `None`, said out loud, where there is no Chromium.
    pub fn start() -> Option<Browser> {
        let Some(program) = chromium() else {
            eprintln!(
                "skipped: no Chromium (install the package `chromium`, or set KILN_CHROMIUM)"
            );
            return None;
        };
        let profile = tempfile::tempdir().unwrap();
        // Chromium reads its pipe from descriptor 3 and writes to 4.
        let mut command = Command::new("sh");
        command
            .args([
                "-c",
                "exec \"$@\" 3<&0 4>&1 0</dev/null 1>/dev/null 2>/dev/null",
                "sh",
            ])
            .arg(program)
            .args([
                "--headless=new",
                "--remote-debugging-pipe",
                "--disable-gpu",
                "--no-first-run",
            ])
            .args([
                "--hide-scrollbars",
                "--disable-background-networking",
                "--disable-dev-shm-usage",
            ])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        // Its own sandbox wants rights that containers do not give; the pages are our own.
        command.arg("--no-sandbox");
        let mut child = command.spawn().expect("Chromium starts");
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            for message in output.split(0) {
                let Ok(message) = message else { return };
                let value = serde_json::from_slice(&message).expect("Chromium speaks JSON");
                if sender.send(value).is_err() {
                    return;
                }
            }
        });
        // One that only pretends to be there, as a stub of a package does, ends at once.
        std::thread::sleep(Duration::from_millis(300));
        if let Ok(Some(status)) = child.try_wait() {
            eprintln!("skipped: no Chromium that starts (it ended with {status})");
            return None;
        }
        let mut browser = Browser {
            child,
            input,
            messages,
            next: 0,
            session: None,
            events: Vec::new(),
            _profile: profile,
        };
        let target = browser.call("Target.createTarget", json!({"url": "about:blank"}));
        let target = &target["targetId"];
        let attached = browser.call(
            "Target.attachToTarget",
            json!({"targetId": target, "flatten": true}),
        );
        browser.session = Some(attached["sessionId"].as_str().unwrap().into());
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        Some(browser)
    }

    fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.next += 1;
        let mut message = json!({"id": self.next, "method": method, "params": parameters});
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.input.write_all(&bytes).expect("Chromium listens");
        loop {
            let message = self.message();
            if message["id"] == json!(self.next) {
                assert!(message.get("error").is_none(), "{method}: {message}");
                return message["result"].clone();
            }
        }
    }

    /// The next message; events are also kept.
    fn message(&mut self) -> Value {
        let message = self
            .messages
            .recv_timeout(PATIENCE)
            .expect("Chromium answers");
        if message.get("method").is_some() {
            self.events.push(message.clone());
        }
        message
    }

    /// Opens a page in a window of that width, and waits until it is loaded. Says how long that took.
    pub fn open(&mut self, url: &str, width: u32, scheme: Scheme) -> Duration {
        self.call(
            "Emulation.setDeviceMetricsOverride",
            json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}),
        );
        let feature = json!({"name": "prefers-color-scheme", "value": scheme.name()});
        self.call("Emulation.setEmulatedMedia", json!({"features": [feature]}));
        self.events.clear();
        let begun = Instant::now();
        self.call("Page.navigate", json!({"url": url}));
        let is_loaded = |event: &Value| event["method"] == "Page.loadEventFired";
        while !self.events.iter().any(is_loaded) {
            self.message();
        }
        begun.elapsed()
    }

    /// Evaluates an expression in the page.
    pub fn eval(&mut self, expression: &str) -> Value {
        let answer = self.call(
            "Runtime.evaluate",
            json!({"expression": expression, "returnByValue": true, "awaitPromise": true}),
        );
        assert!(
            answer.get("exceptionDetails").is_none(),
            "{expression}: {answer}"
        );
        answer["result"]["value"].clone()
    }

    /// Waits until an expression is true.
    pub fn wait_for(&mut self, expression: &str) {
        let until = Instant::now() + PATIENCE;
        while self.eval(expression) != json!(true) {
            assert!(Instant::now() < until, "never true: {expression}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until what was done can be seen.
    pub fn painted(&mut self) {
        self.eval("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done())))");
    }

    pub fn hover(&mut self, x: f64, y: f64) {
        self.call(
            "Input.dispatchMouseEvent",
            json!({"type": "mouseMoved", "x": x, "y": y}),
        );
    }

    pub fn touch(&mut self, x: f64, y: f64) {
        let point = json!({"x": x, "y": y});
        self.call(
            "Input.dispatchTouchEvent",
            json!({"type": "touchStart", "touchPoints": [point]}),
        );
        self.call(
            "Input.dispatchTouchEvent",
            json!({"type": "touchEnd", "touchPoints": []}),
        );
    }

    pub fn key(&mut self, name: &str) {
        for kind in ["keyDown", "keyUp"] {
            self.call("Input.dispatchKeyEvent", json!({"type": kind, "key": name}));
        }
    }

    /// Errors the page caused: exceptions, messages of its policy, warnings on its console.
    pub fn problems(&mut self) -> Vec<Value> {
        // All that happened before this answer is known after it.
        self.eval("0");
        let is_problem = |event: &&Value| {
            [
                "Runtime.exceptionThrown",
                "Runtime.consoleAPICalled",
                "Log.entryAdded",
            ]
            .iter()
            .any(|method| event["method"] == *method)
        };
        self.events.iter().filter(is_problem).cloned().collect()
    }

    /// Addresses that were asked for.
    pub fn requests(&mut self) -> Vec<String> {
        self.eval("0");
        let is_request = |event: &&Value| event["method"] == "Network.requestWillBeSent";
        let requests = self.events.iter().filter(is_request);
        requests
            .map(|event| {
                event["params"]["request"]["url"]
                    .as_str()
                    .unwrap()
                    .to_string()
            })
            .collect()
    }

    /// The whole page as a picture.
    pub fn screenshot(&mut self, name: &str) {
        let size = self.eval("[innerWidth, document.documentElement.scrollHeight]");
        let clip = json!({"x": 0, "y": 0, "width": size[0], "height": size[1], "scale": 1});
        let shot = self.call(
            "Page.captureScreenshot",
            json!({"format": "png", "captureBeyondViewport": true, "clip": clip}),
        );
        self.keep(name, &shot["data"]);
    }

    /// The page as it would be printed.
    pub fn print(&mut self, name: &str) {
        let printed = self.call("Page.printToPDF", json!({"printBackground": true}));
        self.keep(name, &printed["data"]);
    }

    fn keep(&self, name: &str, data: &Value) {
        use base64::Engine;
        let bytes = base64::prelude::BASE64_STANDARD
            .decode(data.as_str().unwrap())
            .unwrap();
        assert!(bytes.len() > 1000, "{name} is empty");
        std::fs::write(screenshots().join(name), bytes).unwrap();
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
