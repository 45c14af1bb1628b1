mod parts;

use super::*;

fn manifest(shapes: &str, confirm: &str) -> Manifest {
    let text = format!(
        "[kernel]\nsource = \"k.c\"\nentry = \"k\"\n{shapes}\n\
         [arguments]\nx = {{ dtype = \"f32\", shape = [\"H\", \"KV\", \"S\", \"D\"] }}\n\
         y = {{ dtype = \"f32\", shape = [\"S\"], role = \"output\" }}\n\
         mode = {{ dtype = \"i32\", value = \"MODE\" }}\n\
         [reference]\nc = \"r.c:r\"\n[confirm]\n{confirm}\n"
    );
    Manifest::parse(&text).expect("a manifest")
}

fn shape(name: &str, [h, kv, s, d, mode]: [i64; 5]) -> String {
    format!("[shapes.{name}]\nH = {h}\nKV = {kv}\nS = {s}\nD = {d}\nMODE = {mode}\n")
}

fn attention() -> String {
    [
        shape("target", [8, 8, 512, 64, 1]),
        shape("tiny", [1, 1, 1, 64, 1]),
        shape("grouped", [8, 2, 100, 64, 5]),
        shape("odd", [3, 3, 65, 64, 1]),
    ]
    .concat()
}

fn drawn(manifest: &Manifest, count: usize, seed: u64) -> Vec<Shape> {
    Unseen::of(manifest).unwrap().draw(seed, count, |_| true)
}

fn value(shape: &Shape, name: &str) -> i64 {
    let found = shape.dimensions.iter().find(|(n, _)| n == name);
    found.unwrap().1
}

#[test]
fn relations_modes_and_bounds_are_kept() {
    let manifest = manifest(&attention(), "");
    for seed in 0..200 {
        let shapes = drawn(&manifest, 3, seed);
        assert_eq!(shapes.len(), 3, "seed {seed}");
        for shape in &shapes {
            let of = |name: &str| value(shape, name);
            assert_eq!(of("H") % of("KV"), 0, "{}", shape.name);
            assert!((1..=4).contains(&(of("H") / of("KV"))), "{}", shape.name);
            assert_eq!(of("D"), 64);
            assert!([1, 5].contains(&of("MODE")), "a mode is no size");
            assert!((1..=512).contains(&of("S")));
            assert!(
                manifest
                    .shapes
                    .iter()
                    .all(|s| s.dimensions != shape.dimensions)
            );
        }
        assert!(
            volume(&shapes[0]) > 0.3 * volume(manifest.target()),
            "{}",
            shapes[0].name
        );
    }
}

#[test]
fn shared_divisors_are_kept() {
    let text = [
        shape("target", [1, 1, 4096, 64, 1]),
        shape("small", [1, 1, 192, 64, 1]),
    ]
    .concat();
    let manifest = manifest(&text, "");
    for seed in 0..50 {
        for shape in drawn(&manifest, 3, seed) {
            assert_eq!(value(&shape, "S") % 64, 0, "{}", shape.name);
            assert!((192..=4096).contains(&value(&shape, "S")));
        }
    }
}

#[test]
fn a_domain_opens_or_narrows_what_may_vary() {
    let only = shape("target", [1, 1, 512, 64, 1]);
    let closed = manifest(&only, "");
    let why = Unseen::of(&closed).unwrap_err();
    assert!(why.contains("domain"), "{why}");
    let open = manifest(&only, "domain = { S = { from = 8, step = 8 } }");
    let shapes = drawn(&open, 3, 1);
    assert_eq!(shapes.len(), 3);
    assert!(
        shapes
            .iter()
            .all(|s| value(s, "S") % 8 == 0 && value(s, "S") < 512)
    );
    let off = manifest(&attention(), "unseen_shapes = 0");
    assert!(Unseen::of(&off).is_err());
}

#[test]
fn computed_dimensions_follow() {
    let text = "[shapes.target]\nH = 4\nKV = \"H\"\nS = 100\nD = \"2 * S\"\nMODE = 1\n\
                [shapes.small]\nH = 2\nKV = \"H\"\nS = 7\nD = \"2 * S\"\nMODE = 1\n";
    let manifest = manifest(text, "");
    for seed in 0..50 {
        let shapes = drawn(&manifest, 3, seed);
        assert_eq!(shapes.len(), 3, "seed {seed}");
        for shape in shapes {
            assert_eq!(value(&shape, "D"), 2 * value(&shape, "S"));
            assert_eq!(value(&shape, "KV"), value(&shape, "H"));
            assert!((7..=100).contains(&value(&shape, "S")), "{}", shape.name);
        }
    }
}

#[test]
fn what_is_not_valid_is_not_drawn() {
    let manifest = manifest(&attention(), "");
    let unseen = Unseen::of(&manifest).unwrap();
    assert!(unseen.draw(1, 3, |_| false).is_empty());
    let even = unseen.draw(1, 3, |shape| value(shape, "S") % 2 == 0);
    assert!(even.iter().all(|shape| value(shape, "S") % 2 == 0));
}

#[test]
fn edges_are_beside_the_tiles_and_in_the_domain() {
    let manifest = manifest(&attention(), "");
    let unseen = Unseen::of(&manifest).unwrap();
    let shapes = unseen.at_edges(3, &[16, 128, 4], 40, |_| true);
    let sizes: Vec<i64> = shapes.iter().map(|s| value(s, "S")).collect();
    for edge in [15, 17, 127, 129, 3, 5, 16, 48, 12, 128, 384, 63] {
        assert!(sizes.contains(&edge), "{edge} in {sizes:?}");
    }
    assert!(sizes.iter().all(|s| (1..=512).contains(s)), "{sizes:?}");
    for shape in &shapes {
        assert_eq!(value(shape, "H") % value(shape, "KV"), 0, "{}", shape.name);
        assert_eq!(value(shape, "D"), 64);
        assert!(
            manifest
                .shapes
                .iter()
                .all(|s| s.dimensions != shape.dimensions)
        );
    }
    let again = unseen.at_edges(3, &[16, 128, 4], 40, |_| true);
    let again: Vec<i64> = again.iter().map(|s| value(s, "S")).collect();
    assert_eq!(sizes, again, "the same seed, the same shapes");
    assert!(unseen.at_edges(3, &[16], 24, |_| false).is_empty());
    assert_eq!(unseen.at_edges(3, &[16, 128, 4], 2, |_| true).len(), 2);
}

/// A partial tile of one dimension meets whole ones of the others.
#[test]
fn one_size_at_an_edge_and_the_others_large() {
    let text = "[kernel]\nsource = \"k.c\"\nentry = \"k\"\n\
                [shapes.target]\nM = 512\nN = 512\nK = 512\n[shapes.one]\nM = 1\nN = 1\nK = 1\n\
                [shapes.wide]\nM = 3\nN = 1030\nK = 600\n[shapes.tall]\nM = 259\nN = 17\nK = 40\n\
                [arguments]\na = { dtype = \"f32\", shape = [\"M\", \"K\"] }\n\
                b = { dtype = \"f32\", shape = [\"K\", \"N\"] }\n\
                c = { dtype = \"f32\", shape = [\"M\", \"N\"], role = \"output\" }\n\
                [reference]\nc = \"r.c:r\"\n";
    let manifest = Manifest::parse(text).expect("a manifest");
    let unseen = Unseen::of(&manifest).unwrap();
    let numbers = [2, 4, 16, 64, 128, 512];
    for seed in 0..20 {
        let shapes = unseen.at_edges_of_large(seed, &numbers, 36, |_| true);
        let meets = |s: &&Shape| value(s, "N") == 63 && value(s, "K") >= 512;
        assert!(shapes.iter().any(|s| meets(&s)), "seed {seed}: {shapes:?}");
        for shape in &shapes {
            assert!(volume(shape) <= unseen.affordable(), "{}", shape.name);
        }
        let fewer = unseen.at_edges_of_large(seed, &numbers, 5, |_| true);
        let names = |shapes: &[Shape]| shapes.iter().map(|s| s.name.clone()).collect::<Vec<_>>();
        assert_eq!(
            names(&fewer),
            names(&shapes[..5]),
            "the same seed, the same shapes"
        );
    }
    assert!(
        unseen
            .at_edges_of_large(1, &numbers, 36, |_| false)
            .is_empty()
    );
}

#[test]
fn edges_keep_the_step_of_the_shapes() {
    let text = [
        shape("target", [8, 8, 512, 64, 1]),
        shape("half", [8, 8, 256, 64, 1]),
    ]
    .concat();
    let manifest = manifest(&text, "");
    let unseen = Unseen::of(&manifest).unwrap();
    // No multiple of 256 lies beside these tiles but the shapes themselves.
    assert!(unseen.at_edges(1, &[16, 128], 8, |_| true).is_empty());
}

/// As where a config is for one mask only, and the smallest shape has the other.
#[test]
fn edges_start_from_a_shape_that_is_valid_itself() {
    let manifest = manifest(&attention(), "");
    let unseen = Unseen::of(&manifest).unwrap();
    let masked = |shape: &Shape| value(shape, "MODE") == 5;
    let shapes = unseen.at_edges(3, &[16, 128], 24, masked);
    assert!(shapes.len() > 1, "{shapes:?}");
    assert!(shapes.iter().all(masked));
}

/// Rows of `COLS` numbers at a pitch of `STRIDE`: only the pitch is in the size of a buffer.
fn pitched(target: &str, tiny: &str) -> Manifest {
    let text = format!(
        "[kernel]\nsource = \"k.c\"\nentry = \"k\"\n\
         [shapes.target]\nROWS = 301\n{target}\n[shapes.tiny]\nROWS = 17\n{tiny}\n\
         [arguments]\ncols = {{ dtype = \"u64\", value = \"COLS\" }}\n\
         a = {{ dtype = \"i16\", shape = [\"ROWS\", \"STRIDE\"] }}\n\
         dot = {{ dtype = \"i64\", shape = [\"ROWS\"], role = \"output\" }}\n\
         [reference]\nc = \"r.c:r\"\n"
    );
    Manifest::parse(&text).expect("a manifest")
}

fn all_kinds(manifest: &Manifest, seed: u64) -> Vec<Shape> {
    let unseen = Unseen::of(manifest).unwrap();
    let mut shapes = unseen.draw(seed, 3, |_| true);
    assert_eq!(shapes.len(), 3, "seed {seed}");
    shapes.extend(unseen.at_edges(seed, &[2, 16, 128], 40, |_| true));
    shapes.extend(unseen.at_edges_of_large(seed, &[2, 16, 128], 36, |_| true));
    shapes
}

#[test]
fn a_held_dimension_still_does_not_exceed_one_that_varies() {
    let manifest = pitched("COLS = 4093\nSTRIDE = 4100", "COLS = 33\nSTRIDE = 33");
    let mut has_other_pitch = false;
    for seed in 0..100 {
        for shape in all_kinds(&manifest, seed) {
            let (cols, stride) = (value(&shape, "COLS"), value(&shape, "STRIDE"));
            assert!(cols <= stride, "seed {seed}: {}", shape.name);
            assert!([33, 4093].contains(&cols), "{}", shape.name);
            has_other_pitch |= ![33, 4100].contains(&stride);
        }
    }
    assert!(has_other_pitch, "the pitch still varies");
}

#[test]
fn a_held_dimension_follows_one_it_equals_everywhere() {
    let manifest = pitched("COLS = 4100\nSTRIDE = 4100", "COLS = 33\nSTRIDE = 33");
    let mut sizes = std::collections::BTreeSet::new();
    for seed in 0..100 {
        for shape in all_kinds(&manifest, seed) {
            assert_eq!(
                value(&shape, "COLS"),
                value(&shape, "STRIDE"),
                "{}",
                shape.name
            );
            sizes.insert(value(&shape, "COLS"));
        }
    }
    assert!(sizes.len() > 20, "{sizes:?}");
}

/// A mode divides sizes by chance, which must not keep ragged ones from being tried.
#[test]
fn what_a_held_dimension_divides_may_be_ragged() {
    let text = [
        shape("target", [1, 1, 512, 64, 2]),
        shape("tiny", [1, 1, 2, 64, 1]),
        shape("odd", [1, 1, 33, 64, 1]),
    ]
    .concat();
    let manifest = manifest(&text, "");
    let is_ragged = |s: &Shape| value(s, "MODE") == 2 && value(s, "S") % 2 == 1;
    assert!((0..20).any(|seed| drawn(&manifest, 3, seed).iter().any(is_ragged)));
}
