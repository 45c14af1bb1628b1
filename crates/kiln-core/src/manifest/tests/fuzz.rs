//! Broken manifests by the thousand: never a panic, always a message that can be shown.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::{ATTENTION, HOPPER, MATMUL, SAXPY};
use crate::manifest::{Manifest, first_manifest};

/// Pieces that mean something to TOML, to the manifest or to expressions.
const TOKENS: &[&str] = &[
    "[",
    "]",
    "{",
    "}",
    "=",
    ",",
    ".",
    "\"",
    "'",
    "\"\"\"",
    "'''",
    "\n",
    "#",
    "\\",
    "\\u00e9",
    "0",
    "1",
    "-1",
    "1e400",
    "0x7fffffffffffffff",
    "9223372036854775807",
    "inf",
    "-nan",
    "1.5",
    "true",
    "1979-05-27",
    "\"\"",
    "[]",
    "{}",
    "N",
    "BLOCK",
    "M",
    "\"M * N\"",
    "\"N / 0\"",
    "\"N ** 99\"",
    "target",
    "use",
    "values",
    "value",
    "from",
    "to",
    "step",
    "factor",
    "dtype",
    "shape",
    "role",
    "draw",
    "file",
    "tolerance",
    "kind",
    "tma",
    "box",
    "kernel",
    "python",
    "cooperative",
    "[shapes.tiny]",
    "[tunables]",
    "[kernel]",
    "[[arguments]]",
    "\"{shape}\"",
    "\"{\"",
    "ceil_div(",
    "not",
    "if",
    "é",
    "\u{feff}",
    "\u{0}",
    "\r\n",
    "\t",
    "\u{1b}",
];

fn mutate(text: &str, random: &mut ChaCha8Rng) -> String {
    let mut bytes = text.as_bytes().to_vec();
    for _ in 0..random.random_range(1..=4) {
        if bytes.is_empty() {
            break;
        }
        let at = random.random_range(0..bytes.len());
        let end = (at + random.random_range(1..=24)).min(bytes.len());
        let token = TOKENS[random.random_range(0..TOKENS.len())];
        match random.random_range(0..7) {
            0 => bytes[at] ^= 1 << random.random_range(0..8),
            1 => drop(bytes.drain(at..end)),
            2 => drop(bytes.splice(at..at, token.bytes())),
            3 => drop(bytes.splice(at..end, token.bytes())),
            4 => {
                let copy = bytes[at..end].to_vec();
                let to = random.random_range(0..=bytes.len());
                drop(bytes.splice(to..to, copy));
            }
            5 => swap_words(&mut bytes, random),
            _ => remove_line(&mut bytes, at),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Exchanges two words, so that most of the result is still well formed.
fn swap_words(bytes: &mut Vec<u8>, random: &mut ChaCha8Rng) {
    let text = String::from_utf8_lossy(bytes).into_owned();
    let mut words: Vec<&str> = text.split_inclusive([' ', '\n', ',']).collect();
    let (a, b) = (
        random.random_range(0..words.len()),
        random.random_range(0..words.len()),
    );
    words.swap(a, b);
    *bytes = words.concat().into_bytes();
}

fn remove_line(bytes: &mut Vec<u8>, at: usize) {
    let start = bytes[..at].iter().rposition(|b| *b == b'\n').unwrap_or(0);
    let end = bytes[at..]
        .iter()
        .position(|b| *b == b'\n')
        .map_or(bytes.len(), |n| at + n);
    bytes.drain(start..end.max(start));
}

#[test]
fn broken_manifests_give_messages() {
    let mut random = ChaCha8Rng::seed_from_u64(11);
    let mut valid = 0;
    for case in 0..10_000 {
        let base = [SAXPY, MATMUL, ATTENTION, HOPPER][case % 4];
        let text = mutate(base, &mut random);
        match Manifest::parse(&text) {
            Ok(manifest) => {
                valid += 1;
                // What parsing promises.
                assert!(manifest.target().dimensions.iter().all(|(_, n)| *n >= 1));
                assert!(manifest.tunables.iter().all(|t| !t.values.is_empty()));
                let scope = manifest.scope();
                assert!(
                    manifest
                        .constraints
                        .iter()
                        .all(|c| c.expr.bind(&scope).is_ok())
                );
            }
            Err(problems) => {
                assert!(!problems.is_empty(), "{text}");
                let starts = problems
                    .iter()
                    .filter_map(|p| p.span.as_ref().map(|s| s.start));
                assert!(starts.is_sorted(), "{text}");
                for problem in problems {
                    let shown = problem.render("kiln.toml", &text);
                    let is_plain = |c: char| c == '\n' || !c.is_control();
                    assert!(shown.chars().all(is_plain), "{shown:?}");
                }
            }
        }
    }
    // The mutations are neither all fatal nor all harmless.
    assert!((200..9_000).contains(&valid), "{valid} of 10000 were valid");
}

#[test]
fn broken_sources_give_a_manifest_or_an_error() {
    let source = "#ifndef TILE\n#define TILE 32\n#endif\n/* a */ static int g(void) { return 1; }\n\
        void f(const float *restrict x, float y[], int n, double a) { for (;;) { \"{\"; } }\n";
    let mut random = ChaCha8Rng::seed_from_u64(12);
    for case in 0..3_000 {
        let text = mutate(source, &mut random);
        let file_name = ["f.c", "f.cu"][case % 2];
        if let Ok(manifest) = first_manifest(file_name, &text, None) {
            assert!(Manifest::parse(&manifest.text).is_ok());
        }
    }
}
