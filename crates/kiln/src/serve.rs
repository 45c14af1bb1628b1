//! The report of a running study in a browser on this machine.
//!
//! Pages are made on the deciding thread, between trials, and only while somebody looks: the thread that
//! answers only copies bytes, so that looking disturbs no measurement. Only this machine is listened to, only
//! who has the address with its token is answered, and no other page's script or name is taken for it.

use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use kiln_core::study::Study;
use tiny_http::{Header, Method, Request, Response, Server};

use crate::cache;
use crate::exit::Failure;
use crate::report::html::{self, Context, View};

/// A page asks again every two seconds, a busy browser later; who has not asked for longer has gone.
const STILL_LOOKING: Duration = Duration::from_secs(10);
/// Pages are made at most this often, and at most for this part of the time.
const BETWEEN_PAGES: Duration = Duration::from_secs(1);
const MOST_OF_TIME: u32 = 50;

/// What the two threads share.
struct Shown {
    page: Arc<str>,
    /// Counts pages.
    version: u64,
    /// The latest page that somebody has seen.
    seen: u64,
    looked: Option<Instant>,
}

pub struct Live {
    shown: Arc<Mutex<Shown>>,
    server: Arc<Server>,
    answering: Option<JoinHandle<()>>,
    door: Door,
    place: String,
    made: Option<Instant>,
    took: Duration,
}

/// Who is let in.
#[derive(Clone)]
struct Door {
    port: u16,
    token: String,
}

/// What a request says that matters here.
struct Asked<'a> {
    is_get: bool,
    path: &'a str,
    hosts: Vec<&'a str>,
    origin: Option<&'a str>,
}

impl Door {
    /// The status of a refusal; nothing for who may come in.
    fn refuses(&self, asked: &Asked) -> Option<u16> {
        let names = [
            format!("127.0.0.1:{}", self.port),
            format!("localhost:{}", self.port),
        ];
        // A name that was made to point here is not ours: the page it came from is somebody else's.
        let is_ours = matches!(asked.hosts.as_slice(), [host] if names.iter().any(|n| n == host));
        let is_stranger = asked.origin.is_some_and(|origin| {
            let mut ours = names.iter().map(|name| format!("http://{name}"));
            !ours.any(|name| name == origin)
        });
        if !is_ours || is_stranger {
            return Some(403);
        }
        if !same(asked.path, &format!("/{}/", self.token)) {
            return Some(404);
        }
        (!asked.is_get).then_some(405)
    }
}

/// Takes the same time wherever they differ.
fn same(a: &str, b: &str) -> bool {
    let differences = a.bytes().zip(b.bytes()).fold(0, |d, (x, y)| d | (x ^ y));
    a.len() == b.len() && differences == 0
}

impl Live {
    /// Listens on a port of this machine; 0 takes any that is free.
    pub fn start(kernel: &str, place: String, port: u16) -> Result<Live, Failure> {
        let server = Server::http((Ipv4Addr::LOCALHOST, port)).map_err(|e| {
            Failure::machine(format!("cannot listen on 127.0.0.1:{port}: {e}"))
                .hint("`--serve` without a port takes one that is free")
        })?;
        let server = Arc::new(server);
        let bound = server.server_addr().to_ip().map_or(port, |a| a.port());
        let door = Door {
            port: bound,
            token: format!("{:016x}{:016x}", cache::random_u64(), cache::random_u64()),
        };
        let shown = Arc::new(Mutex::new(Shown {
            page: html::waiting(kernel).into(),
            version: 0,
            seen: 0,
            looked: None,
        }));
        let answering = std::thread::spawn({
            let (server, shown, door) = (Arc::clone(&server), Arc::clone(&shown), door.clone());
            move || {
                for request in server.incoming_requests() {
                    answer(request, &door, &shown);
                }
            }
        });
        Ok(Live {
            shown,
            server,
            answering: Some(answering),
            door,
            place,
            made: None,
            took: Duration::ZERO,
        })
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/{}/", self.door.port, self.door.token)
    }

    /// Shows the study as it is now, if somebody looks and the last page is not too new.
    pub fn show(&mut self, study: &Study) {
        let wait = BETWEEN_PAGES.max(self.took * MOST_OF_TIME);
        let is_due = self.made.is_none_or(|made| made.elapsed() >= wait);
        if is_due && self.is_looked_at() {
            self.make(study);
        }
    }

    /// Shows the end, and waits for who is looking to see it.
    pub fn finish(&mut self, study: &Study) {
        if !self.is_looked_at() {
            return;
        }
        self.make(study);
        let until = Instant::now() + STILL_LOOKING;
        while Instant::now() < until && !self.is_seen() {
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn is_looked_at(&self) -> bool {
        let looked = lock(&self.shown).looked;
        looked.is_some_and(|at| at.elapsed() < STILL_LOOKING)
    }

    fn is_seen(&self) -> bool {
        let shown = lock(&self.shown);
        shown.seen == shown.version
    }

    fn make(&mut self, study: &Study) {
        let begun = Instant::now();
        let context = Context {
            place: &self.place,
            others: &[],
            view: View::Live,
        };
        let page: Arc<str> = html::page(study, &context).into();
        self.took = begun.elapsed();
        self.made = Some(Instant::now());
        let mut shown = lock(&self.shown);
        shown.page = page;
        shown.version += 1;
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.server.unblock();
        if let Some(thread) = self.answering.take() {
            // It only answers; there is nothing to do about one that failed.
            let _ = thread.join();
        }
    }
}

/// A thread that panicked left a whole page behind.
fn lock(shown: &Mutex<Shown>) -> MutexGuard<'_, Shown> {
    shown.lock().unwrap_or_else(PoisonError::into_inner)
}

fn answer(request: Request, door: &Door, shown: &Mutex<Shown>) {
    let values = |name: &'static str| {
        let headers = request.headers().iter();
        headers
            .filter(move |h| h.field.equiv(name))
            .map(|h| h.value.as_str())
    };
    let asked = Asked {
        is_get: *request.method() == Method::Get,
        path: request.url(),
        hosts: values("Host").collect(),
        origin: values("Origin").next(),
    };
    let response = match door.refuses(&asked) {
        Some(status) => Response::from_string("refused\n").with_status_code(status),
        None => {
            let page = {
                let mut shown = lock(shown);
                shown.looked = Some(Instant::now());
                shown.seen = shown.version;
                Arc::clone(&shown.page)
            };
            Response::from_string(&*page)
        }
    };
    let response = headers().into_iter().fold(response, Response::with_header);
    // Whoever asked may be gone; that is no reason to stop.
    let _ = request.respond(response);
}

fn headers() -> Vec<Header> {
    let policy = format!("{}; frame-ancestors 'none'", html::policy(View::Live));
    let pairs = [
        ("Content-Type", "text/html; charset=utf-8"),
        ("Content-Security-Policy", policy.as_str()),
        ("X-Content-Type-Options", "nosniff"),
        ("Referrer-Policy", "no-referrer"),
        ("Cache-Control", "no-store"),
        ("Cross-Origin-Resource-Policy", "same-origin"),
        ("Cross-Origin-Opener-Policy", "same-origin"),
    ];
    let headers = pairs.iter();
    headers
        .filter_map(|(name, value)| Header::from_bytes(*name, *value).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_has_the_address_is_let_in() {
        let door = Door {
            port: 8000,
            token: "abc".into(),
        };
        let asked = |host: &'static str, path: &'static str, origin| Asked {
            is_get: true,
            path,
            hosts: vec![host],
            origin,
        };
        let refused = |asked: Asked| door.refuses(&asked);
        assert_eq!(refused(asked("127.0.0.1:8000", "/abc/", None)), None);
        let own = Some("http://localhost:8000");
        assert_eq!(refused(asked("localhost:8000", "/abc/", own)), None);
        for host in [
            "127.0.0.1",
            "127.0.0.1:8001",
            "evil.example:8000",
            "localhost",
            "",
        ] {
            assert_eq!(refused(asked(host, "/abc/", None)), Some(403), "{host}");
        }
        for origin in [
            "http://evil.example",
            "null",
            "https://127.0.0.1:8000",
            "http://127.0.0.1",
        ] {
            let asked = asked("127.0.0.1:8000", "/abc/", Some(origin));
            assert_eq!(refused(asked), Some(403), "{origin}");
        }
        for path in ["/", "/abd/", "/abc", "/abc/x", "/ABC/", "/abc/?", ""] {
            let asked = asked("127.0.0.1:8000", path, None);
            assert_eq!(refused(asked), Some(404), "{path}");
        }
        let mut twice = asked("127.0.0.1:8000", "/abc/", None);
        twice.hosts.push("evil.example");
        assert_eq!(refused(twice), Some(403));
        let mut post = asked("127.0.0.1:8000", "/abc/", None);
        post.is_get = false;
        assert_eq!(refused(post), Some(405));
    }
}
