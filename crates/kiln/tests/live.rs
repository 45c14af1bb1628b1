//! `kiln tune --serve`: the live page, who is let in to see it, and what a browser makes of it.
#![allow(clippy::unwrap_used)]

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream, UdpSocket};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use common::browser::{Browser, Scheme};
use common::{Project, orphans_after};
use serde_json::{Value, json};

/// A study that runs until it is told to stop, and is watched.
struct Tuning {
    child: Child,
    url: String,
    said: BufReader<std::process::ChildStderr>,
    project: Project,
}

/// Exhaustive and with many samples: a few dozen trials that take a while each.
fn tuning(trials: u32) -> Tuning {
    let project = Project::with_quick_kernel();
    let mut child = project
        .command(&[
            "tune",
            "--serve",
            "--strategy",
            "random",
            "--trials",
            &trials.to_string(),
            "--cold",
        ])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    let url = loop {
        line.clear();
        assert!(
            said.read_line(&mut line).unwrap() > 0,
            "no address was said"
        );
        if let Some(url) = line.trim_end().strip_prefix("live: ") {
            break url.to_string();
        }
    };
    Tuning {
        child,
        url,
        said,
        project,
    }
}

impl Tuning {
    fn port(&self) -> u16 {
        let rest = self.url.strip_prefix("http://127.0.0.1:").unwrap();
        rest.split('/').next().unwrap().parse().unwrap()
    }

    fn path(&self) -> String {
        format!(
            "/{}/",
            self.url.trim_end_matches('/').rsplit('/').next().unwrap()
        )
    }

    /// The answer to a request that is written out by hand: its status and all of it.
    fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> (u16, String) {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port())).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(30)))
            .unwrap();
        let mut request = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
        for (name, value) in headers {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        stream
            .write_all(format!("{request}\r\n").as_bytes())
            .unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
        (status, answer)
    }

    fn end(mut self) {
        drop(self.said);
        let _ = self.child.kill();
        self.child.wait().unwrap();
        let left = orphans_after(&self.project.home, Duration::from_secs(20));
        assert!(left.is_empty(), "left running: {left:?}");
    }
}

#[test]
fn only_who_has_the_address_sees_the_page() {
    let tuning = tuning(66);
    let host = format!("127.0.0.1:{}", tuning.port());
    let path = tuning.path();
    assert_eq!(path.len(), 34, "128 bits in hexadecimal: {path}");
    let own = [("Host", host.as_str())];
    let (status, answer) = tuning.ask("GET", &path, &own);
    assert_eq!(status, 200);
    for part in [
        "Content-Security-Policy: default-src 'none'",
        "frame-ancestors 'none'",
        "X-Content-Type-Options: nosniff",
        "Referrer-Policy: no-referrer",
        "Cache-Control: no-store",
        "vector_add",
        "<body data-live=\"yes\">",
    ] {
        assert!(answer.contains(part), "{part}");
    }
    let origin = format!("http://{host}");
    assert_eq!(
        tuning.ask("GET", &path, &[own[0], ("Origin", &origin)]).0,
        200
    );
    // A name of somebody else's that was made to point here, and pages of others.
    let others = format!("evil.example:{}", tuning.port());
    for strange in [others.as_str(), "127.0.0.1", "127.0.0.1:1", ""] {
        let (status, answer) = tuning.ask("GET", &path, &[("Host", strange)]);
        assert!(
            status == 403 && !answer.contains("vector_add"),
            "{strange}: {answer}"
        );
    }
    for strange in ["http://evil.example", "null", "https://127.0.0.1"] {
        let (status, answer) = tuning.ask("GET", &path, &[own[0], ("Origin", strange)]);
        assert!(
            status == 403 && !answer.contains("vector_add"),
            "{strange}: {answer}"
        );
    }
    let almost = format!("/{}/", "0".repeat(32));
    for strange in [
        "/",
        almost.as_str(),
        &path[..33],
        &format!("{path}x"),
        "/favicon.ico",
        "/../../etc/passwd",
    ] {
        let (status, answer) = tuning.ask("GET", strange, &own);
        assert!(
            status == 404 && !answer.contains("vector_add"),
            "{strange}: {answer}"
        );
    }
    for method in ["POST", "PUT", "DELETE", "OPTIONS"] {
        assert_eq!(tuning.ask(method, &path, &own).0, 405, "{method}");
    }
    // Not a word to other machines: nothing listens on this one's other address.
    if let Some(address) = own_address() {
        let there = std::net::SocketAddr::from((address, tuning.port()));
        assert!(TcpStream::connect_timeout(&there, Duration::from_secs(2)).is_err());
    }
    // Nonsense does not end it.
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, tuning.port())).unwrap();
    stream.write_all(b"\x00\xff nonsense\r\n\r\n").unwrap();
    drop(stream);
    assert_eq!(tuning.ask("GET", &path, &own).0, 200);
    tuning.end();
}

/// Anybody on the machine may connect. None of them may keep the viewer out for long, or the study from ending.
#[test]
fn those_who_only_hold_the_line_keep_nobody_waiting() {
    let mut tuning = tuning(30);
    let host = format!("127.0.0.1:{}", tuning.port());
    let connect = || TcpStream::connect((Ipv4Addr::LOCALHOST, tuning.port())).unwrap();
    // A body that never comes, a head that never ends, many who say nothing.
    let mut held: Vec<TcpStream> = Vec::new();
    let mut body = connect();
    body.write_all(
        format!("POST / HTTP/1.1\r\nHost: {host}\r\nContent-Length: 1000000\r\n\r\n").as_bytes(),
    )
    .unwrap();
    held.push(body);
    let mut endless = connect();
    let _ = endless.write_all(&b"GET / HTTP/1.1\r\nX: ".repeat(4000));
    held.push(endless);
    held.extend((0..40).map(|_| connect()));
    let until = Instant::now() + Duration::from_secs(40);
    let seen = loop {
        let mut stream = connect();
        let request = format!("GET {} HTTP/1.1\r\nHost: {host}\r\n\r\n", tuning.path());
        let mut answer = Vec::new();
        let asked = stream.write_all(request.as_bytes());
        if asked.and_then(|()| stream.read_to_end(&mut answer)).is_ok()
            && answer.starts_with(b"HTTP/1.1 200")
        {
            break true;
        }
        if Instant::now() > until {
            break false;
        }
        std::thread::sleep(Duration::from_millis(300));
    };
    assert!(seen, "the page was kept from who has its address");
    // They are all still there, and more, and the study ends.
    held.extend((0..4).map(|_| connect()));
    let mut rest = String::new();
    tuning.said.read_to_string(&mut rest).unwrap();
    let status = tuning.child.wait().unwrap();
    assert!(
        status.code().is_some_and(|code| code <= 4),
        "{status}\n{rest}"
    );
    assert!(!rest.contains("panicked"), "{rest}");
    drop(held);
}

/// This machine's address for others; nothing is sent to find it.
fn own_address() -> Option<std::net::IpAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9)).ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback() && !address.is_unspecified()).then_some(address)
}

#[test]
fn the_page_follows_the_study_to_its_end() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let mut tuning = tuning(24);
    browser.open(&tuning.url, 1100, Scheme::Light);
    // Marks appear without anybody asking for the page again.
    let marks = "[...document.querySelectorAll('#plot-search .mark[data-count]')].reduce((n, e) => n + Number(e.dataset.count), 0)";
    browser.wait_for(&format!("{marks} > 0"));
    let early = browser.eval(marks).as_u64().unwrap();
    browser.screenshot("live-1100-light.png");
    browser.wait_for("document.body.dataset.live === 'done'");
    let late = browser.eval(marks).as_u64().unwrap();
    assert_eq!(late, 24, "{early} before");
    let verdict = browser.eval("document.querySelector('.verdict').textContent");
    assert!(
        !verdict.as_str().unwrap().contains("NOT FINISHED"),
        "{verdict}"
    );
    assert_eq!(browser.problems(), Vec::<Value>::new());
    let strangers: Vec<String> = browser
        .requests()
        .into_iter()
        .filter(|url| *url != tuning.url)
        .collect();
    assert_eq!(json!(strangers), json!([]));
    // The end was seen, so kiln ends too, with its verdict.
    let code = tuning.child.wait().unwrap().code();
    assert!([Some(0), Some(1), Some(4)].contains(&code), "{code:?}");
    tuning.end();
}

#[test]
fn a_port_that_is_taken_is_said() {
    let taken = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = taken.local_addr().unwrap().port();
    let project = Project::with_quick_kernel();
    let output = project.run(&["tune", &format!("--serve={port}")]);
    assert_eq!(output.status.code(), Some(3));
    let said = common::text(&output.stderr);
    assert!(
        said.contains(&format!("cannot listen on 127.0.0.1:{port}")),
        "{said}"
    );
    assert!(
        said.contains("hint: `--serve` without a port takes one that is free"),
        "{said}"
    );
}
