//! Damaged files are refused or read, never a panic.

use proptest::prelude::*;

use super::{CACHE, T1, T4, space};
use crate::interchange::{list, read_recording, t1};
use crate::space::BuildLimits;

/// One small damage: cut, doubled, replaced, or a piece of something else put in.
fn damaged(text: &str, damages: &[(usize, usize, u8)]) -> String {
    const PIECES: [&str; 24] = [
        "\"",
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "0",
        "-1",
        "1e999",
        "null",
        "NaN",
        "é",
        "\\u",
        "(",
        ")",
        " for ",
        " if ",
        "range(",
        "**",
        "//0",
        "%",
        "\"cache\"",
        "i",
    ];
    let mut text = text.to_string();
    for &(at, length, kind) in damages {
        let boundary = |text: &str, at: usize| {
            let mut at = at % (text.len() + 1);
            while !text.is_char_boundary(at) {
                at -= 1;
            }
            at
        };
        let start = boundary(&text, at);
        let end = boundary(&text, (start + length).min(text.len()));
        let end = end.max(start);
        let piece = PIECES[usize::from(kind) % PIECES.len()];
        match kind % 4 {
            0 => text.replace_range(start..end, ""),
            1 => text.replace_range(start..start, &text[start..end].repeat(2)),
            2 => text.replace_range(start..end, piece),
            _ => text.insert_str(start, piece),
        }
    }
    text
}

fn damages() -> impl Strategy<Value = Vec<(usize, usize, u8)>> {
    prop::collection::vec((0..3000usize, 0..40usize, any::<u8>()), 1..4)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn damaged_t1_files(damages in damages()) {
        let text = damaged(T1, &damages);
        let limits = BuildLimits { rows: 10_000, nodes: 100_000 };
        if let Err(error) = t1::Definition::parse(&text).and_then(|d| d.build(limits)) {
            prop_assert!(!error.render("F", &text).is_empty());
        }
    }

    #[test]
    fn damaged_recordings(damages in damages(), is_cache: bool, given: bool) {
        let text = damaged(if is_cache { CACHE } else { T4 }, &damages);
        if let Err(error) = read_recording(&text, given.then(space)) {
            prop_assert!(!error.render("F", &text).is_empty());
        }
    }

    #[test]
    fn damaged_lists(damages in prop::collection::vec((0..60usize, 0..9usize, any::<u8>()), 1..5)) {
        let text = damaged("[1] + 2 * [a ** 2 for a in list(range(1, 9)) if a % 3] + ['x']", &damages);
        if let Err(error) = list::evaluate(&text) {
            prop_assert!(error.span.start <= text.len(), "{text}: {error:?}");
        }
    }

    #[test]
    fn any_text(text: String) {
        let _ = t1::Definition::parse(&text);
        let _ = read_recording(&text, None);
        let _ = list::evaluate(&text);
    }
}
