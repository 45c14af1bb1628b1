//! kiln's own recordings: refused with a hint, or read; what was read is written and read as the same.

use kiln_core::interchange::Table;
use kiln_core::recording::Recording;

pub fn check(data: &[u8]) {
    let recording = match Recording::parse(data) {
        Ok(recording) => recording,
        Err(error) => {
            assert!(!error.to_string().is_empty() && !error.hint().is_empty());
            return;
        }
    };
    let json = serde_json::to_vec(&recording).expect("plain data");
    let again = Recording::parse(&json).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(again, recording);
    for trial in &recording.trials {
        assert_eq!(recording.assignment(trial).len(), recording.tunables.len());
    }
    if let Ok(table) = Table::of_recording(&recording) {
        assert!(table.records().len() <= recording.trials.len());
    }
}
