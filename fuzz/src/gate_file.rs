//! `kiln.gate.toml`: refused with a message, or read; what was read is written as the same, and every
//! shape in it has its sources.

use kiln_core::gate_file::BaselineFile;

pub fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let file = match BaselineFile::parse(text) {
        Ok(file) => file,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    for entry in file.shapes.values() {
        let sources = file.sources(entry).expect("every shape has sources");
        assert!(sources.files.contains_key(&sources.manifest));
        assert_eq!(entry.values().len(), entry.config.len());
    }
    let written = file.text().expect("what was TOML is TOML again");
    let again = BaselineFile::parse(&written).unwrap_or_else(|e| panic!("{e}\n{written}"));
    // As text: a time that is no number differs from itself.
    assert_eq!(format!("{again:?}"), format!("{file:?}"));
}
