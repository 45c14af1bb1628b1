//! What the compile cache keeps about an image: read, or refused; what was read is written as the same.

use kiln_core::cache_entry::{Dependencies, Entry, Recipe, sealed};

pub fn check(data: &[u8]) {
    // As it would lie on a disk, and with a seal that is right: nobody guesses one.
    for file in [data, &sealed(data)] {
        if let Some(entry) = Entry::parse(file) {
            let again = entry.to_bytes().expect("plain data");
            assert_eq!(Entry::parse(&again).expect("it was written"), entry);
        }
    }
    if let Ok(dependencies) = Dependencies::parse(data) {
        let json = serde_json::to_vec(&dependencies).expect("plain data");
        let again = Dependencies::parse(&json).expect("it was written");
        assert_eq!(again, dependencies);
        let recipe = Recipe::new(["unit"]);
        let key = dependencies.image_key(&recipe);
        // It is a file's name: nothing of what was read may lead elsewhere.
        assert!(key.len() == 64 && key.bytes().all(|b| b.is_ascii_hexdigit()));
        assert_ne!(key, recipe.name());
    }
}
