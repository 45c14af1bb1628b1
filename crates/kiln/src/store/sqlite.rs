//! The store in one SQLite file under `.kiln/`.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kiln_core::event::Event;
use kiln_core::journal::{Dated, Entry};
use kiln_core::study::Study;
use rusqlite::{Connection, OpenFlags, OptionalExtension, params};

use super::{Store, StudySummary, is_empty_file};
use crate::exit::{Exit, Failure};
use crate::{durable, settings};

/// Raised with every change of the tables; older files are migrated, newer ones refused.
const SCHEMA_VERSION: i64 = 2;

/// How long to wait for another process that is writing.
const BUSY_PATIENCE: Duration = Duration::from_secs(30);

/// What each version added to the one before it. A new file goes through all of them.
const MIGRATIONS: [&str; SCHEMA_VERSION as usize] = [STUDIES, JOURNAL];

/// What the project keeps beside its studies: lessons, iterations, sources.
const JOURNAL: &str = "
CREATE TABLE journal (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    unix_ms INTEGER NOT NULL,
    kind TEXT NOT NULL,
    body TEXT NOT NULL
) STRICT;
CREATE TRIGGER journal_never_changes BEFORE UPDATE ON journal
    BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END;
CREATE TRIGGER journal_never_shrinks BEFORE DELETE ON journal
    BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END;
";

/// Rows are only ever added; the triggers make that a property of the file, not of our care.
const STUDIES: &str = "
CREATE TABLE studies (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    created_unix_ms INTEGER NOT NULL
) STRICT;
CREATE TABLE events (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    study INTEGER NOT NULL REFERENCES studies (id),
    wall_ms INTEGER NOT NULL,
    kind TEXT NOT NULL,
    body TEXT NOT NULL
) STRICT;
CREATE INDEX events_of_study ON events (study, sequence);
CREATE TRIGGER events_never_change BEFORE UPDATE ON events
    BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;
CREATE TRIGGER events_never_vanish BEFORE DELETE ON events
    BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;
";

pub struct SqliteStore {
    connection: Connection,
    path: PathBuf,
}

impl SqliteStore {
    /// Opens or creates the store of a project.
    pub fn open(root: &Path) -> Result<SqliteStore, Failure> {
        let dir = root.join(".kiln");
        settings::private_dir(&dir)?;
        // Studies are local; a failure to say so to git does no harm. Made anew or not at all: it
        // must not be written through a link.
        let ignore = std::fs::File::create_new(dir.join(".gitignore"));
        let _ = ignore.and_then(|mut file| std::io::Write::write_all(&mut file, b"*\n"));
        for file in ["kiln.db", "kiln.db-wal", "kiln.db-shm"] {
            settings::refuse_link(&dir.join(file))?;
        }
        refuse_emptied(&dir.join("kiln.db"))?;
        // SQLite syncs the names in its own folder, but not the name of that folder. Every time, for
        // whoever made the folder may have been killed before this line.
        durable::sync_folder(root).map_err(|e| {
            let failure = Failure::io(format!("cannot sync the folder `{}`", root.display()), &e);
            match durable::is_full(&e) {
                true => failure,
                false => failure.hint(SEE_DISK),
            }
        })?;
        SqliteStore::open_file(&dir.join("kiln.db"))
    }

    /// Opens the store of a project only if there is one.
    pub fn open_existing(root: &Path) -> Result<Option<SqliteStore>, Failure> {
        let file = root.join(".kiln").join("kiln.db");
        match file.metadata() {
            // Left as it is: to open it would make a store without studies of it.
            Ok(facts) if facts.is_file() && facts.len() == 0 => {
                refuse_emptied(&file).map(|()| None)
            }
            Ok(facts) if facts.is_file() => SqliteStore::open(root).map(Some),
            // Somebody else's is not nobody's.
            Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied => {
                let shown = root.join(".kiln");
                Err(
                    Failure::machine(format!("cannot look into `{}`: {e}", shown.display()))
                        .hint(settings::take_over(&shown)),
                )
            }
            _ => Ok(None),
        }
    }

    pub fn open_file(path: &Path) -> Result<SqliteStore, Failure> {
        let started = Instant::now();
        loop {
            match prepare(path) {
                // Switching a new file to WAL does not wait for others who do the same, whatever
                // the busy timeout says; they are done in a moment.
                Err(error) if is_busy(&error) && started.elapsed() < BUSY_PATIENCE => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                Err(error) => return Err(cannot("open", path, &error)),
                Ok((_, version)) if version > SCHEMA_VERSION => {
                    return Err(Failure::machine(format!(
                        "the store `{}` has format {version}; this kiln reads up to {SCHEMA_VERSION}",
                        path.display()
                    ))
                    .hint("use the kiln that wrote it, or a newer one"));
                }
                Ok((connection, _)) => {
                    return Ok(SqliteStore {
                        connection,
                        path: path.to_path_buf(),
                    });
                }
            }
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    fn events(&self, study: u64) -> Result<Vec<(u64, Event)>, Failure> {
        let failed = |e: rusqlite::Error| cannot("read", &self.path, &e);
        let mut statement = self
            .connection
            .prepare("SELECT wall_ms, body FROM events WHERE study = ?1 ORDER BY sequence")
            .map_err(failed)?;
        let rows = statement
            .query_map(params![study as i64], |row| {
                Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?))
            })
            .map_err(failed)?;
        let mut events = Vec::new();
        for row in rows {
            let (wall_ms, body) = row.map_err(failed)?;
            events.push((wall_ms as u64, self.decode(study, &body)?));
        }
        Ok(events)
    }

    fn decode(&self, study: u64, body: &str) -> Result<Event, Failure> {
        serde_json::from_str(body).map_err(|e| {
            Failure::machine(format!(
                "study {study} in `{}` holds an event this kiln cannot read: {e}",
                self.path.display()
            ))
            .hint("it was probably written by a newer kiln")
        })
    }
}

/// A log beside an empty file is no beginning: the first page is in the file before there is a log. SQLite would delete
/// the log, and with it what can still be saved.
fn refuse_emptied(path: &Path) -> Result<(), Failure> {
    let log = path.with_extension("db-wal");
    let logged = log.metadata().map_or(0, |facts| facts.len());
    if !is_empty_file(path) || logged == 0 {
        return Ok(());
    }
    Err(Failure::machine(format!(
        "the store `{}` is damaged: it is empty (0 bytes), and `{}` beside it has {logged} bytes",
        path.display(),
        log.display()
    ))
    .hint("bring both back from a copy, or move both away to start a new store"))
}

/// Opens the file, makes the tables of a new one, and says which version it has.
fn prepare(path: &Path) -> rusqlite::Result<(Connection, i64)> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY_PATIENCE)?;
    // FULL: an acknowledged event survives power loss, not only the death of this process.
    connection.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON;",
    )?;
    let transaction =
        connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    let mut version: i64 = transaction.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    // All or nothing: a file is of one version, whoever is killed meanwhile.
    let missing = MIGRATIONS.iter().skip(version.max(0) as usize);
    for migration in missing {
        transaction.execute_batch(migration)?;
        version += 1;
        transaction.pragma_update(None, "user_version", version)?;
    }
    transaction.commit()?;
    Ok((connection, version))
}

fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(rusqlite::ErrorCode::DatabaseBusy | rusqlite::ErrorCode::DatabaseLocked)
    )
}

const FULL: &str = "the disk is full; finished trials are kept: free space and run again";
const SEE_DISK: &str =
    "finished trials are kept: see that the disk works and has space, and run again";

fn cannot(verb: &str, path: &Path, error: &rusqlite::Error) -> Failure {
    let failure = Failure::machine(format!(
        "cannot {verb} the store `{}`: {error}",
        path.display()
    ));
    match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::DiskFull) => failure.hint(FULL),
        Some(rusqlite::ErrorCode::NotADatabase | rusqlite::ErrorCode::DatabaseCorrupt) => {
            failure.hint("move the file away to start a new one; nothing else refers to it")
        }
        // A full disk shows in many ways: the file cannot be made, mapped, grown or synced.
        Some(rusqlite::ErrorCode::SystemIoFailure | rusqlite::ErrorCode::CannotOpen) => {
            match durable::is_almost_full(durable::folder_of(path)) {
                true => failure.hint(FULL),
                false => failure.hint(SEE_DISK),
            }
        }
        Some(rusqlite::ErrorCode::ReadOnly) => failure.hint("make the folder writable"),
        Some(rusqlite::ErrorCode::DatabaseBusy) => {
            failure.hint("another process holds the store; wait for it to end")
        }
        _ => failure,
    }
}

fn encode(event: &Event) -> Result<(String, String), Failure> {
    let broken =
        |e: serde_json::Error| Failure::new(Exit::Bug, format!("cannot encode an event: {e}"));
    let value = serde_json::to_value(event).map_err(broken)?;
    let kind = value["event"].as_str().unwrap_or_default().to_string();
    Ok((kind, serde_json::to_string(&value).map_err(broken)?))
}

impl SqliteStore {
    fn decode_entry(&self, body: &str) -> Result<Entry, Failure> {
        serde_json::from_str(body).map_err(|e| {
            Failure::machine(format!(
                "the journal in `{}` holds an entry this kiln cannot read: {e}",
                self.path.display()
            ))
            .hint("it was probably written by a newer kiln")
        })
    }
}

impl Store for SqliteStore {
    fn enter(&mut self, unix_ms: u64, entry: &Entry) -> Result<(), Failure> {
        let body = serde_json::to_string(entry)
            .map_err(|e| Failure::new(Exit::Bug, format!("cannot encode a journal entry: {e}")))?;
        self.connection
            .execute(
                "INSERT INTO journal (unix_ms, kind, body) VALUES (?1, ?2, ?3)",
                params![unix_ms as i64, entry.kind(), body],
            )
            .map_err(|e| cannot("write to", &self.path, &e))?;
        Ok(())
    }

    fn journal(&self) -> Result<Vec<Dated>, Failure> {
        let failed = |e: rusqlite::Error| cannot("read", &self.path, &e);
        let mut statement = self
            .connection
            .prepare("SELECT unix_ms, body FROM journal ORDER BY sequence")
            .map_err(failed)?;
        let rows = statement
            .query_map([], |row| {
                Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?))
            })
            .map_err(failed)?;
        let mut entries = Vec::new();
        for row in rows {
            let (unix_ms, body) = row.map_err(failed)?;
            entries.push(Dated {
                unix_ms: unix_ms as u64,
                entry: self.decode_entry(&body)?,
            });
        }
        Ok(entries)
    }

    fn create(&mut self, started: &Event) -> Result<u64, Failure> {
        let Event::StudyStarted(header) = started else {
            return Err(Failure::new(
                Exit::Bug,
                "a study must begin with its header",
            ));
        };
        let (kind, body) = encode(started)?;
        let path = self.path.clone();
        let failed = |e: rusqlite::Error| cannot("write to", &path, &e);
        // Both rows or neither: a study without a header could not be read back.
        let transaction = self.connection.transaction().map_err(failed)?;
        transaction
            .execute(
                "INSERT INTO studies (created_unix_ms) VALUES (?1)",
                params![header.created_unix_ms as i64],
            )
            .map_err(failed)?;
        let id = transaction.last_insert_rowid();
        transaction
            .execute(
                "INSERT INTO events (study, wall_ms, kind, body) VALUES (?1, 0, ?2, ?3)",
                params![id, kind, body],
            )
            .map_err(failed)?;
        transaction.commit().map_err(failed)?;
        Ok(id as u64)
    }

    fn append(&mut self, study: u64, wall_ms: u64, event: &Event) -> Result<(), Failure> {
        let (kind, body) = encode(event)?;
        self.connection
            .execute(
                "INSERT INTO events (study, wall_ms, kind, body) VALUES (?1, ?2, ?3, ?4)",
                params![study as i64, wall_ms as i64, kind, body],
            )
            .map_err(|e| cannot("write to", &self.path, &e))?;
        Ok(())
    }

    fn study(&self, id: u64) -> Result<Study, Failure> {
        let exists: Option<i64> = self
            .connection
            .query_row(
                "SELECT id FROM studies WHERE id = ?1",
                params![id as i64],
                |row| row.get(0),
            )
            .optional()
            .map_err(|e| cannot("read", &self.path, &e))?;
        if exists.is_none() {
            return Err(Failure::usage(format!(
                "there is no study {id} in `{}`",
                self.path.display()
            ))
            .hint("`kiln studies list` shows them"));
        }
        Study::from_events(id, self.events(id)?).map_err(|e| {
            Failure::machine(e.to_string())
                .hint("move `.kiln/kiln.db` away to begin a new store; nothing else refers to it")
        })
    }

    fn studies(&self) -> Result<Vec<StudySummary>, Failure> {
        let failed = |e: rusqlite::Error| cannot("read", &self.path, &e);
        let mut statement = self
            .connection
            .prepare(
                "SELECT s.id, e.body,
                   (SELECT count(*) FROM events t WHERE t.study = s.id AND t.kind = 'trial_finished'),
                   EXISTS (SELECT 1 FROM events t WHERE t.study = s.id AND t.kind = 'study_finished'),
                   (SELECT t.body FROM events t WHERE t.study = s.id AND t.kind = 'confirmed')
                 FROM studies s
                 JOIN events e ON e.sequence =
                   (SELECT min(sequence) FROM events f WHERE f.study = s.id)
                 ORDER BY s.id",
            )
            .map_err(failed)?;
        let rows = statement
            .query_map([], |row| {
                Ok((
                    row.get::<_, i64>(0)?,
                    row.get::<_, String>(1)?,
                    row.get::<_, i64>(2)?,
                    row.get::<_, bool>(3)?,
                    row.get::<_, Option<String>>(4)?,
                ))
            })
            .map_err(failed)?;
        let mut studies = Vec::new();
        for row in rows {
            let (id, body, trials, finished, confirmed) = row.map_err(failed)?;
            let confirmed = confirmed
                .map(|body| self.decode(id as u64, &body))
                .transpose()?;
            let winner = match confirmed {
                Some(Event::Confirmed(confirmation)) => confirmation.winner.map(|w| w.comparison),
                _ => None,
            };
            if let Event::StudyStarted(header) = self.decode(id as u64, &body)? {
                studies.push(StudySummary {
                    id: id as u64,
                    header: *header,
                    finished,
                    trials: trials as u64,
                    winner,
                });
            }
        }
        Ok(studies)
    }
}
