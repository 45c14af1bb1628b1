//! The report of a running study in a browser on this machine.
//!
//! Pages are made on the deciding thread, between trials, and only while somebody looks: the thread that
//! answers only copies bytes, so that looking disturbs no measurement. Only this machine is listened to, only
//! who has the address with its token is answered, and no other page's script or name is taken for it.

mod answering;
mod door;

use std::net::{Ipv4Addr, TcpListener};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use kiln_core::study::Study;

use self::answering::Answering;
use self::door::Door;
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
    /// Ends with this.
    _answering: Answering,
    door: Door,
    place: String,
    made: Option<Instant>,
    took: Duration,
}

impl Shown {
    /// The page, for somebody who looks at it now.
    fn look(&mut self) -> Arc<str> {
        self.looked = Some(Instant::now());
        self.seen = self.version;
        Arc::clone(&self.page)
    }
}

impl Live {
    /// Listens on a port of this machine; 0 takes any that is free.
    pub fn start(kernel: &str, place: String, port: u16) -> Result<Live, Failure> {
        let cannot = |e: std::io::Error| {
            Failure::machine(format!("cannot listen on 127.0.0.1:{port}: {e}"))
                .hint("`--serve` without a port takes one that is free")
        };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(cannot)?;
        let bound = listener.local_addr().map_err(cannot)?.port();
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
        let answering =
            Answering::start(listener, door.clone(), Arc::clone(&shown)).map_err(cannot)?;
        Ok(Live {
            shown,
            _answering: answering,
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

/// A thread that panicked left a whole page behind.
fn lock(shown: &Mutex<Shown>) -> MutexGuard<'_, Shown> {
    shown.lock().unwrap_or_else(PoisonError::into_inner)
}
