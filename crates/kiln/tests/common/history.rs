//! What one run of kiln did to a disk, and the disk at any moment of it after the power failed.

use std::path::Path;

use rand::Rng;
use rand_chacha::ChaCha8Rng;
use serde_json::Value;

use super::Project;
use super::disk::{Operation, Recorder};
use super::power::{Disk, Loss};

/// A row of the store's events.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    study: i64,
    wall_ms: i64,
    pub body: String,
}

/// One run of kiln, from a disk to what it left there.
pub struct History {
    before: Disk,
    pub operations: Vec<Operation>,
    /// Everything that was ever stored.
    pub rows: Vec<Row>,
    /// What had been acknowledged before this run.
    pub earlier: Vec<String>,
}

impl History {
    /// Runs kiln below `root`, with the power on to the end.
    pub fn make(
        project: &Project,
        recorder: &Recorder,
        root: &Path,
        arguments: &[&str],
    ) -> History {
        let before = Disk::of(root);
        let mut command = project.command(arguments);
        let place = match root == project.root.parent().unwrap() {
            true => &project.root,
            false => root,
        };
        let (operations, code) = recorder.record(command.current_dir(place), root);
        assert!(matches!(code, Some(0 | 1 | 4)), "{arguments:?}: {code:?}");
        History {
            before,
            operations,
            rows: rows(&place.join(".kiln/kiln.db")).unwrap_or_default(),
            earlier: Vec::new(),
        }
    }

    /// Whether the database itself was written before the last thing was shown: SQLite does that when
    /// its log has a thousand pages, and in the end.
    pub fn moves_its_log(&self) -> bool {
        let database = self.operations.iter().find_map(|o| match o {
            Operation::Created { inode, path } if path.ends_with("kiln.db") => Some(*inode),
            _ => None,
        });
        let is_move = |operation: &Operation| match operation {
            Operation::Written { inode, at, .. } => Some(*inode) == database && *at > 0,
            _ => false,
        };
        let is_shown = |operation: &Operation| matches!(operation, Operation::Shown { .. });
        let last = self.operations.iter().rposition(is_shown);
        let first = self.operations.iter().position(is_move);
        first.is_some() && first < last
    }

    /// Half of the moments are anywhere; the others are near what happens seldom: names and sizes
    /// that change, folders that are synced, the database itself.
    pub fn draw_moment(&self, rng: &mut ChaCha8Rng) -> usize {
        let anywhere = rng.next_u64() as usize % (self.operations.len() + 1);
        if rng.next_u32().is_multiple_of(2) {
            return anywhere;
        }
        let is_seldom = |operation: &Operation| {
            !matches!(
                operation,
                Operation::Written { .. } | Operation::Synced { .. } | Operation::Shown { .. }
            )
        };
        let seldom: Vec<usize> = (0..self.operations.len())
            .filter(|number| is_seldom(&self.operations[*number]))
            .collect();
        if seldom.is_empty() {
            return anywhere;
        }
        let near = seldom[rng.next_u64() as usize % seldom.len()];
        (near + rng.next_u32() as usize % 8)
            .saturating_sub(3)
            .min(self.operations.len())
    }

    /// The disk after the power failed at a moment, in a new folder.
    pub fn cut(&self, moment: usize, loss: Loss, rng: &mut ChaCha8Rng) -> tempfile::TempDir {
        let mut disk = self.before.clone();
        for operation in &self.operations[..moment] {
            disk.apply(operation);
        }
        let folder = tempfile::tempdir().unwrap();
        disk.after_power_loss(loss, rng, folder.path());
        folder
    }

    /// What people had been shown by then.
    pub fn acknowledged(&self, moment: usize) -> Vec<String> {
        let mut shown = Vec::new();
        for operation in &self.operations[..moment] {
            if let Operation::Shown { bytes } = operation {
                shown.extend_from_slice(bytes);
            }
        }
        let lines = shown.split_inclusive(|b| *b == b'\n');
        let whole = lines.filter(|line| line.ends_with(b"\n"));
        let mut events = self.earlier.clone();
        events.extend(whole.map(|line| super::text(line.trim_ascii_end())));
        events
    }

    /// The store is a prefix of history that reaches at least as far as what was acknowledged;
    /// returns its length.
    pub fn check(&self, stored: &[Row], acknowledged: &[String]) -> Result<usize, String> {
        let known = stored.iter().zip(&self.rows);
        let kept = known.take_while(|(one, other)| one == other).count();
        if kept < stored.len() {
            return Err(format!("the store leaves history after {kept} events"));
        }
        holds(stored, acknowledged)?;
        Ok(kept)
    }
}

/// Whether everything that was acknowledged is there, in that order.
pub fn holds(stored: &[Row], acknowledged: &[String]) -> Result<(), String> {
    let mut rest = stored.iter();
    for event in acknowledged {
        let value = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        // Mostly they agree to the letter, which is quicker to see.
        let is_it = |row: &Row| row.body == *event || value(&row.body) == value(event);
        if !rest.any(is_it) {
            return Err(format!(
                "{} events are there; this one was acknowledged and is not: {event}",
                stored.len()
            ));
        }
    }
    Ok(())
}

/// The events of a store after a check of the whole file; `None` where there is no store.
pub fn rows(path: &Path) -> Option<Vec<Row>> {
    if !path.exists() {
        return None;
    }
    let store = rusqlite::Connection::open(path).unwrap();
    // Nobody depends on this copy.
    store.execute_batch("PRAGMA synchronous = OFF").unwrap();
    let text = |sql: &str| store.query_row(sql, [], |row| row.get::<_, rusqlite::types::Value>(0));
    let sound = text("PRAGMA integrity_check").unwrap();
    assert_eq!(sound, rusqlite::types::Value::Text("ok".into()));
    if text("PRAGMA user_version").unwrap() == rusqlite::types::Value::Integer(0) {
        return None;
    }
    let mut statement = store
        .prepare("SELECT study, wall_ms, body FROM events ORDER BY sequence")
        .unwrap();
    let found = statement.query_map([], |row| {
        Ok(Row {
            study: row.get(0)?,
            wall_ms: row.get(1)?,
            body: row.get(2)?,
        })
    });
    Some(found.unwrap().map(|row| row.unwrap()).collect())
}
