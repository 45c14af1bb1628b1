use super::*;

fn cache(dir: &Path, limit_bytes: u64) -> Cache {
    let root = dir.to_path_buf();
    for sub in ["recipes", "images", "new"] {
        fs::create_dir_all(root.join(sub)).unwrap();
    }
    Cache {
        root,
        limit_bytes,
        hashes: Mutex::default(),
    }
}

fn publish(cache: &Cache, recipe: &Recipe, image: &[u8], deps: &[String]) -> Artifact {
    publish_as(cache, recipe, image, compiled(deps))
}

fn publish_as(cache: &Cache, recipe: &Recipe, image: &[u8], compiled: Compiled) -> Artifact {
    let staged = cache.staging_path();
    fs::write(&staged, image).unwrap();
    cache.publish(recipe, &staged, &compiled).unwrap()
}

fn compiled(deps: &[String]) -> Compiled {
    Compiled {
        symbol: None,
        resources: None,
        log: "log".into(),
        compile_ms: 1.0,
        dependencies: deps.to_vec(),
        absent: Vec::new(),
        is_uncacheable: false,
        writable: None,
    }
}

#[test]
fn a_file_that_appears_where_one_was_looked_for_is_a_miss() {
    let dir = tempfile::tempdir().unwrap();
    let cache = cache(&dir.path().join("cache"), 1 << 20);
    let recipe = Recipe::new(["unit"]);
    let hidden = dir.path().join("h.h");
    let looked = Compiled {
        absent: vec![hidden.display().to_string()],
        ..compiled(&[])
    };
    publish_as(&cache, &recipe, b"image", looked);
    assert!(cache.look_up(&recipe).is_some());
    // A folder is not what a compiler looks for.
    fs::create_dir(&hidden).unwrap();
    assert!(cache.look_up(&recipe).is_some());
    fs::remove_dir(&hidden).unwrap();
    fs::write(&hidden, "").unwrap();
    assert!(cache.look_up(&recipe).is_none());
}

#[test]
fn an_uncacheable_image_can_be_used_and_is_not_found() {
    let dir = tempfile::tempdir().unwrap();
    let cache = cache(dir.path(), 1 << 20);
    let recipe = Recipe::new(["unit"]);
    publish(&cache, &recipe, b"before", &[]);
    let unknown = || Compiled {
        is_uncacheable: true,
        ..compiled(&[])
    };
    let first = publish_as(&cache, &recipe, b"image", unknown());
    assert!(cache.look_up(&recipe).is_none());
    let second = publish_as(&cache, &recipe, b"other", unknown());
    assert_eq!(fs::read(first.image).unwrap(), b"image");
    assert_eq!(fs::read(second.image).unwrap(), b"other");
    assert!(cache.verify().removed.is_empty());
}

#[test]
fn a_published_image_is_found_until_a_header_changes() {
    let dir = tempfile::tempdir().unwrap();
    let header = dir.path().join("h.h");
    fs::write(&header, "1").unwrap();
    let cache = cache(&dir.path().join("cache"), 1 << 20);
    let recipe = Recipe::new(["unit", "-O3"]);
    assert!(cache.look_up(&recipe).is_none());
    let deps = [header.display().to_string()];
    let first = publish(&cache, &recipe, b"image", &deps);
    assert_eq!(cache.look_up(&recipe).unwrap().key, first.key);
    fs::write(&header, "22").unwrap();
    assert!(cache.look_up(&recipe).is_none());
    let second = publish(&cache, &recipe, b"other", &deps);
    assert_ne!(first.key, second.key);
    fs::remove_file(&header).unwrap();
    assert!(cache.look_up(&recipe).is_none());
}

#[test]
fn any_damage_is_a_miss_and_verify_removes_it() {
    let dir = tempfile::tempdir().unwrap();
    let cache = cache(dir.path(), 1 << 20);
    let recipe = Recipe::new(["a"]);
    let header = dir.path().join("h.h");
    fs::write(&header, "1").unwrap();
    let artifact = publish(
        &cache,
        &recipe,
        b"image bytes",
        &[header.display().to_string()],
    );
    for at in 0..11 {
        let mut bytes = b"image bytes".to_vec();
        bytes[at] ^= 1;
        fs::write(&artifact.image, &bytes).unwrap();
        assert!(cache.look_up(&recipe).is_none());
    }
    fs::write(&artifact.image, b"image bytes").unwrap();
    assert!(cache.look_up(&recipe).is_some());
    let entry = cache.entry_path(&artifact.key);
    let whole = fs::read(&entry).unwrap();
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        fs::write(&entry, &bytes).unwrap();
        assert!(cache.look_up(&recipe).is_none(), "byte {at}");
        fs::write(&entry, &whole[..at]).unwrap();
        assert!(cache.look_up(&recipe).is_none(), "cut at {at}");
    }
    fs::write(&entry, &whole).unwrap();
    // The list of headers names the entry: any other list names none.
    let list = cache.recipe_path(&recipe);
    let whole = fs::read(&list).unwrap();
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        fs::write(&list, &bytes).unwrap();
        assert!(cache.look_up(&recipe).is_none(), "byte {at} of the list");
        fs::write(&list, &whole[..at]).unwrap();
        assert!(cache.look_up(&recipe).is_none(), "list cut at {at}");
    }
    fs::write(&artifact.image, b"image").unwrap();
    assert_eq!(cache.verify().removed, [artifact.key]);
    assert_eq!(cache.stats().entries, 0);
}

#[test]
fn what_killed_compilers_left_goes_after_days() {
    let dir = tempfile::tempdir().unwrap();
    let cache = cache(dir.path(), 1 << 20);
    let (old, new) = (cache.staging_path(), cache.staging_path());
    for path in [&old, &new] {
        fs::write(path, "part").unwrap();
    }
    let long_ago = SystemTime::now() - 2 * STAGED_AT_MOST;
    let file = fs::File::options().write(true).open(&old).unwrap();
    file.set_modified(long_ago).unwrap();
    cache.sweep_staging();
    assert!(!old.exists() && new.exists());
}

#[test]
fn the_quota_evicts_what_was_used_longest_ago() {
    let dir = tempfile::tempdir().unwrap();
    let cache = cache(dir.path(), 250);
    let recipes: Vec<Recipe> = ["a", "b", "c"].map(|n| Recipe::new([n])).into();
    for (age, recipe) in recipes.iter().enumerate() {
        let artifact = publish(&cache, recipe, &[0; 100], &[]);
        let time = SystemTime::now() - std::time::Duration::from_secs(100 - age as u64);
        if let Ok(file) = fs::File::open(&artifact.image) {
            file.set_modified(time).unwrap();
        }
    }
    assert!(cache.look_up(&recipes[0]).is_none());
    assert!(cache.look_up(&recipes[2]).is_some());
    assert!(cache.stats().bytes <= 250);
}

#[test]
fn parts_do_not_run_together() {
    assert_ne!(Recipe::new(["ab", "c"]), Recipe::new(["a", "bc"]));
    assert_ne!(Recipe::new(["a"]), Recipe::new(["a", ""]));
}
