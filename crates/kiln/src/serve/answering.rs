//! Requests of one machine's browsers: a head and no more, a page, and good-bye.
//!
//! Anybody on this machine may connect. So there are few connections at a time, each for a few seconds and a few
//! kilobytes, whoever they are: none of them can take the memory, the files or the time of the study.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use super::door::{Asked, Door};
use super::{Shown, lock};
use crate::report::html::{self, View};

/// A browser asks once in two seconds.
const MOST_CONNECTIONS: usize = 8;
const MOST_HEAD_BYTES: usize = 16 << 10;
const MOST_HEADERS: usize = 64;
const TO_ASK: Duration = Duration::from_secs(3);
/// A page of thousands of trials has a few megabytes.
const TO_READ_THE_PAGE: Duration = Duration::from_secs(10);

/// The thread that answers.
pub struct Answering {
    port: u16,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Answering {
    pub fn start(
        listener: TcpListener,
        door: Door,
        shown: Arc<Mutex<Shown>>,
    ) -> std::io::Result<Answering> {
        let port = listener.local_addr()?.port();
        let is_over = Arc::new(AtomicBool::new(false));
        let thread = Builder::new().name("serve".into()).spawn({
            let is_over = Arc::clone(&is_over);
            move || accept_all(&listener, &door, &shown, &is_over)
        })?;
        Ok(Answering {
            port,
            is_over,
            thread: Some(thread),
        })
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        // Wakes the thread, which waits for somebody to connect.
        let address = (Ipv4Addr::LOCALHOST, self.port).into();
        let woken = TcpStream::connect_timeout(&address, Duration::from_millis(500));
        // One that cannot be woken ends with the process.
        if let (Ok(_), Some(thread)) = (woken, self.thread.take()) {
            let _ = thread.join();
        }
    }
}

fn accept_all(
    listener: &TcpListener,
    door: &Door,
    shown: &Arc<Mutex<Shown>>,
    is_over: &AtomicBool,
) {
    let open = Arc::new(AtomicUsize::new(0));
    loop {
        let accepted = listener.accept();
        if is_over.load(Ordering::SeqCst) {
            return;
        }
        let Ok((stream, _)) = accepted else {
            // Files or memory of the process are used up for now.
            std::thread::sleep(Duration::from_millis(100));
            continue;
        };
        if open.fetch_add(1, Ordering::SeqCst) >= MOST_CONNECTIONS {
            open.fetch_sub(1, Ordering::SeqCst);
            continue;
        }
        let (door, shown, counted) = (door.clone(), Arc::clone(shown), Counted(Arc::clone(&open)));
        let started = Builder::new().name("answer".into()).spawn(move || {
            let _counted = counted;
            // Whoever asked may be gone; that is no reason to stop.
            let _ = answer(&stream, &door, &shown);
            let _ = stream.shutdown(Shutdown::Both);
        });
        if started.is_err() {
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

/// Counts down however its thread ends, and where there was to be one and is none.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

fn answer(stream: &TcpStream, door: &Door, shown: &Mutex<Shown>) -> std::io::Result<()> {
    let Some(head) = read_head(stream, Instant::now() + TO_ASK)? else {
        return write_all(stream, &response(400, "not a request\n"));
    };
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    if !matches!(request.parse(&head), Ok(httparse::Status::Complete(_))) {
        return write_all(stream, &response(400, "not a request\n"));
    }
    // What is no text is nobody's name.
    let values = |name: &str| -> Vec<&str> {
        let named = request
            .headers
            .iter()
            .filter(|h| h.name.eq_ignore_ascii_case(name));
        named
            .map(|h| std::str::from_utf8(h.value).unwrap_or("").trim())
            .collect()
    };
    let asked = Asked {
        is_get: request.method == Some("GET"),
        path: request.path.unwrap_or_default(),
        hosts: values("Host"),
        origins: values("Origin"),
    };
    match door.refuses(&asked) {
        Some(status) => write_all(stream, &response(status, "refused\n")),
        None => {
            let page = lock(shown).look();
            write_all(stream, &response(200, &page))
        }
    }
}

/// What comes before the empty line; none where it is too long. A body is nobody's business.
fn read_head(mut stream: &TcpStream, until: Instant) -> std::io::Result<Option<Vec<u8>>> {
    let mut head = Vec::new();
    let mut part = [0; 2048];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        if head.len() > MOST_HEAD_BYTES {
            return Ok(None);
        }
        stream.set_read_timeout(Some(time_left(until)?))?;
        match stream.read(&mut part)? {
            0 => return Ok(None),
            count => head.extend_from_slice(&part[..count]),
        }
    }
    Ok(Some(head))
}

fn write_all(mut stream: &TcpStream, mut bytes: &[u8]) -> std::io::Result<()> {
    let until = Instant::now() + TO_READ_THE_PAGE;
    while !bytes.is_empty() {
        stream.set_write_timeout(Some(time_left(until)?))?;
        match stream.write(bytes)? {
            0 => return Err(std::io::ErrorKind::WriteZero.into()),
            count => bytes = &bytes[count..],
        }
    }
    Ok(())
}

fn time_left(until: Instant) -> std::io::Result<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    match left.is_zero() {
        true => Err(std::io::ErrorKind::TimedOut.into()),
        false => Ok(left),
    }
}

fn response(status: u16, body: &str) -> Vec<u8> {
    let reason = match status {
        200 => "OK",
        400 => "Bad Request",
        403 => "Forbidden",
        404 => "Not Found",
        _ => "Method Not Allowed",
    };
    let policy = html::policy(View::Live);
    let mut bytes = format!(
        "HTTP/1.1 {status} {reason}\r\n\
         Content-Type: text/html; charset=utf-8\r\n\
         Content-Length: {}\r\n\
         Connection: close\r\n\
         Content-Security-Policy: {policy}; frame-ancestors 'none'\r\n\
         X-Content-Type-Options: nosniff\r\n\
         Referrer-Policy: no-referrer\r\n\
         Cache-Control: no-store\r\n\
         Cross-Origin-Resource-Policy: same-origin\r\n\
         Cross-Origin-Opener-Policy: same-origin\r\n\r\n",
        body.len()
    )
    .into_bytes();
    bytes.extend_from_slice(body.as_bytes());
    bytes
}
