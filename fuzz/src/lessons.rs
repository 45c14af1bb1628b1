//! A file of lessons: refused with a message, or read; what was read is written as the same, and can be folded in,
//! evaluated and shown.

use kiln_core::journal::{Dated, Entry};
use kiln_core::lesson::{self, Claim, LessonFile};

pub fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let file = match LessonFile::parse(text) {
        Ok(file) => file,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            assert!(!error.hint().is_empty());
            return;
        }
    };
    let import = |lesson: &lesson::Lesson| Dated {
        unix_ms: 1,
        entry: Entry::LessonImported(Box::new(lesson.clone())),
    };
    let entries: Vec<Dated> = file.lessons.iter().map(import).collect();
    let folded = lesson::lessons(&entries);
    assert_eq!(folded.len(), file.lessons.len());
    for lesson in &folded {
        if let Claim::Constraint { when, .. } = &lesson.claim {
            let _ = lesson::meets(when, &Vec::new());
        }
    }
    let _ = lesson::markdown(&folded);
    let written = file.text().expect("what was TOML is TOML again");
    let again = LessonFile::parse(&written).unwrap_or_else(|e| panic!("{e}\n{written}"));
    assert_eq!(again, file);
}
