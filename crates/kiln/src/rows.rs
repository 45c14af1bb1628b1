//! Rows as they are decided: a run that is cut short leaves what it has found.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Mutex;
use std::time::Instant;

use serde::Serialize;

use crate::exit::Failure;
use crate::printer;

/// Told of every row at once, by whichever thread decided it.
pub struct Rows {
    file: Option<Mutex<File>>,
    started: Instant,
}

#[derive(Serialize)]
struct Line<'a, R> {
    part: &'static str,
    /// Since the run began.
    at_seconds: f64,
    #[serde(flatten)]
    row: &'a R,
}

impl Rows {
    pub fn new(path: Option<&Path>) -> Result<Rows, Failure> {
        let open = |path: &Path| {
            File::create(path)
                .map(Mutex::new)
                .map_err(|e| Failure::io(format!("cannot write rows to `{}`", path.display()), &e))
        };
        Ok(Rows {
            file: path.map(open).transpose()?,
            started: Instant::now(),
        })
    }

    /// Says a row to people, and writes it down for programs.
    pub fn decided(
        &self,
        part: &'static str,
        row: &impl Serialize,
        words: &str,
    ) -> Result<(), Failure> {
        printer::talk(&format!("  {words}"));
        self.write(part, row)
    }

    /// Writes a row down for programs, where they want it.
    pub fn write(&self, part: &'static str, row: &impl Serialize) -> Result<(), Failure> {
        let Some(file) = &self.file else {
            return Ok(());
        };
        let line = Line {
            part,
            at_seconds: (self.started.elapsed().as_secs_f64() * 10.0).round() / 10.0,
            row,
        };
        let mut line = serde_json::to_string(&line)
            .map_err(|e| Failure::machine(format!("a row is no JSON: {e}")))?;
        line.push('\n');
        let mut file = file.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        // One call: a run that is killed leaves whole lines.
        file.write_all(line.as_bytes())
            .map_err(|e| Failure::machine(format!("cannot write rows: {e}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_a_line_of_its_own() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("rows");
        let rows = Rows::new(Some(&path)).expect("a new file");
        for number in 0..3 {
            let row = serde_json::json!({ "number": number });
            rows.decided("cheat", &row, "a row").expect("written");
        }
        let text = std::fs::read_to_string(&path).expect("readable");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        let last: serde_json::Value = serde_json::from_str(lines[2]).expect("JSON");
        assert_eq!(
            (&last["part"], &last["number"]),
            (&"cheat".into(), &2.into())
        );
        assert!(last["at_seconds"].is_number());
        assert!(Rows::new(Some(folder.path())).is_err(), "a folder");
    }
}
