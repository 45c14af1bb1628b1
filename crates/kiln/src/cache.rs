//! Compiled images by the content that made them.
//!
//! A *recipe* is everything known before compiling: unit text, sorted defines, flags, compiler,
//! target, format version. Which headers were read is known only afterwards, so an entry is found
//! in two steps: the recipe names a list of files with their hashes; if all still match, recipe
//! and hashes together name the image. Files that were looked for in vain are in the list too: one
//! that appears would be read instead of another. Entries appear by rename, so a half-written one is never
//! seen, and the image's own hash is checked on every read: a damaged entry is a miss.

use std::collections::HashMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::SystemTime;

use kiln_core::protocol::Compiled;
use serde::{Deserialize, Serialize};

use crate::exit::Failure;
use crate::settings;

/// Part of every key; raised when the meaning of an entry changes.
const FORMAT: &str = "kiln-cache-3";

/// Stands for the hash of a file that must not be there.
const ABSENT: &str = "absent";

#[derive(Clone, Debug, PartialEq)]
pub struct Recipe(String);

impl Recipe {
    /// `parts` must be given in a fixed order; lengths are hashed too, so parts cannot run together.
    pub fn new<'p>(parts: impl IntoIterator<Item = &'p str>) -> Recipe {
        let mut hasher = blake3::Hasher::new();
        for part in std::iter::once(FORMAT).chain(parts) {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        Recipe(hasher.finalize().to_hex().to_string())
    }
}

/// An image in the cache, verified when it was looked up.
#[derive(Clone, Debug)]
pub struct Artifact {
    /// Names the image by all that went into it.
    pub key: String,
    pub image: PathBuf,
    pub image_bytes: u64,
    /// What the compiler said when it made the image.
    pub compiled: Compiled,
}

#[derive(Serialize, Deserialize)]
struct Entry {
    image_hash: String,
    compiled: Compiled,
}

#[derive(Serialize, Deserialize)]
struct Dependencies {
    /// Path and content hash of every file the compiler read, or looked for in vain.
    files: Vec<(String, String)>,
}

pub struct Cache {
    root: PathBuf,
    limit_bytes: u64,
    /// Hashes of dependencies in this process, by path, size and time of change.
    hashes: Mutex<HashMap<(PathBuf, u64, SystemTime), String>>,
}

#[derive(Debug, Default, Serialize)]
pub struct CacheStats {
    pub entries: u64,
    pub bytes: u64,
    pub limit_bytes: u64,
    pub path: String,
}

#[derive(Debug, Default, Serialize)]
pub struct CacheVerification {
    pub sound: u64,
    /// Entries that were damaged; they have been removed.
    pub removed: Vec<String>,
}

impl Cache {
    pub fn open() -> Result<Cache, Failure> {
        Cache::open_in(&settings::home()?)
    }

    /// The cache of another home.
    pub fn open_in(home: &Path) -> Result<Cache, Failure> {
        let root = home.join("images-2");
        for dir in [
            &root,
            &root.join("recipes"),
            &root.join("images"),
            &root.join("new"),
        ] {
            settings::private_dir(dir)?;
        }
        Ok(Cache {
            root,
            limit_bytes: settings::cache_limit_bytes()?,
            hashes: Mutex::default(),
        })
    }

    /// Where compilers write.
    pub fn staging_folder(&self) -> PathBuf {
        self.root.join("new")
    }

    /// A fresh path for the compiler to write to, on the same file system as the cache.
    pub fn staging_path(&self) -> PathBuf {
        let unique = blake3::hash(&rand_bytes()).to_hex();
        self.root
            .join("new")
            .join(format!("{}-{}.so", std::process::id(), &unique[..16]))
    }

    /// The image for a recipe, if it is there, whole, and its headers have not changed.
    pub fn look_up(&self, recipe: &Recipe) -> Option<Artifact> {
        let text = fs::read(self.recipe_path(recipe)).ok()?;
        let dependencies: Dependencies = serde_json::from_slice(&text).ok()?;
        let current = dependencies
            .files
            .iter()
            .all(|(path, hash)| match hash.as_str() {
                ABSENT => !Path::new(path).is_file(),
                hash => self.file_hash(Path::new(path)).is_ok_and(|h| h == hash),
            });
        if !current {
            return None;
        }
        let artifact = self.read_entry(&image_key(recipe, &dependencies)).ok()?;
        // Recently used entries are the last to be evicted; a failure to note it is harmless.
        let _ = fs::File::open(&artifact.image).and_then(|f| f.set_modified(SystemTime::now()));
        Some(artifact)
    }

    /// Takes a freshly compiled image in. Safe against other processes doing the same.
    pub fn publish(
        &self,
        recipe: &Recipe,
        staged: &Path,
        compiled: &Compiled,
    ) -> io::Result<Artifact> {
        let mut files = Vec::with_capacity(compiled.dependencies.len());
        for path in &compiled.dependencies {
            files.push((path.clone(), self.file_hash(Path::new(path))?));
        }
        let absent = compiled.absent.iter();
        files.extend(absent.map(|path| (path.clone(), ABSENT.to_string())));
        let image = fs::read(staged)?;
        let image_hash = blake3::hash(&image).to_hex().to_string();
        if compiled.is_uncacheable {
            // Two images of one recipe may differ, and whoever uses one must keep it.
            files.push((String::new(), image_hash.clone()));
        }
        let dependencies = Dependencies { files };
        let key = image_key(recipe, &dependencies);
        let entry = Entry {
            image_hash,
            compiled: Compiled {
                dependencies: Vec::new(),
                absent: Vec::new(),
                ..compiled.clone()
            },
        };
        // Image first, then what points to it: a reader never follows a pointer to nothing.
        fs::rename(staged, self.image_path(&key))?;
        self.write_atomically(&self.entry_path(&key), &serde_json::to_vec(&entry)?)?;
        let pointer = self.recipe_path(recipe);
        if compiled.is_uncacheable {
            // Without a pointer nobody finds it; an older one may be there from before an edit.
            let _ = fs::remove_file(pointer);
        } else {
            self.write_atomically(&pointer, &serde_json::to_vec(&dependencies)?)?;
        }
        self.evict_beyond_limit(&key);
        Ok(Artifact {
            image: self.image_path(&key),
            key,
            image_bytes: image.len() as u64,
            compiled: entry.compiled,
        })
    }

    pub fn stats(&self) -> CacheStats {
        let images = self.images();
        CacheStats {
            entries: images.len() as u64,
            bytes: images.iter().map(|i| i.bytes).sum(),
            limit_bytes: self.limit_bytes,
            path: self.root.display().to_string(),
        }
    }

    /// Re-reads every entry; removes and names the damaged ones.
    pub fn verify(&self) -> CacheVerification {
        let mut found = CacheVerification::default();
        for image in self.images() {
            match self.read_entry(&image.key) {
                Ok(_) => found.sound += 1,
                Err(_) => {
                    self.remove(&image.key);
                    found.removed.push(image.key);
                }
            }
        }
        found
    }

    /// Removes everything and says how much that was.
    pub fn clear(&self) -> io::Result<CacheStats> {
        let stats = self.stats();
        for dir in ["recipes", "images", "new"] {
            for file in fs::read_dir(self.root.join(dir))? {
                match fs::remove_file(file?.path()) {
                    Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
                    _ => {}
                }
            }
        }
        Ok(stats)
    }

    fn recipe_path(&self, recipe: &Recipe) -> PathBuf {
        self.root.join("recipes").join(format!("{}.json", recipe.0))
    }

    fn image_path(&self, key: &str) -> PathBuf {
        self.root.join("images").join(format!("{key}.so"))
    }

    fn entry_path(&self, key: &str) -> PathBuf {
        self.root.join("images").join(format!("{key}.json"))
    }

    fn read_entry(&self, key: &str) -> io::Result<Artifact> {
        let entry: Entry = serde_json::from_slice(&fs::read(self.entry_path(key))?)?;
        let image = fs::read(self.image_path(key))?;
        if blake3::hash(&image).to_hex().as_str() != entry.image_hash {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "image is damaged",
            ));
        }
        Ok(Artifact {
            key: key.to_string(),
            image: self.image_path(key),
            image_bytes: image.len() as u64,
            compiled: entry.compiled,
        })
    }

    fn write_atomically(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut file = tempfile::NamedTempFile::new_in(self.root.join("new"))?;
        file.write_all(bytes)?;
        file.persist(path).map_err(|e| e.error)?;
        Ok(())
    }

    fn file_hash(&self, path: &Path) -> io::Result<String> {
        let facts = fs::metadata(path)?;
        let stamp = (path.to_path_buf(), facts.len(), facts.modified()?);
        let known = self
            .hashes
            .lock()
            .expect("no holder panics")
            .get(&stamp)
            .cloned();
        if let Some(hash) = known {
            return Ok(hash);
        }
        let hash = blake3::hash(&fs::read(path)?).to_hex().to_string();
        self.hashes
            .lock()
            .expect("no holder panics")
            .insert(stamp, hash.clone());
        Ok(hash)
    }

    fn images(&self) -> Vec<StoredImage> {
        let files = fs::read_dir(self.root.join("images")).into_iter().flatten();
        files
            .flatten()
            .filter_map(|file| {
                let path = file.path();
                let facts = file.metadata().ok()?;
                (path.extension()? == "so").then_some(())?;
                Some(StoredImage {
                    key: path.file_stem()?.to_str()?.to_string(),
                    bytes: facts.len(),
                    used: facts.modified().ok()?,
                })
            })
            .collect()
    }

    fn remove(&self, key: &str) {
        // Another process may have removed it first, which is as good.
        let _ = fs::remove_file(self.entry_path(key));
        let _ = fs::remove_file(self.image_path(key));
    }

    /// Least recently used images go first; the newest stays even if it alone is over the limit.
    fn evict_beyond_limit(&self, keep: &str) {
        let mut images = self.images();
        let mut total: u64 = images.iter().map(|i| i.bytes).sum();
        if total <= self.limit_bytes {
            return;
        }
        images.sort_by_key(|i| i.used);
        for image in images.iter().filter(|i| i.key != keep) {
            if total <= self.limit_bytes {
                break;
            }
            self.remove(&image.key);
            total -= image.bytes;
        }
    }
}

struct StoredImage {
    key: String,
    bytes: u64,
    used: SystemTime,
}

fn image_key(recipe: &Recipe, dependencies: &Dependencies) -> String {
    let hashes = dependencies.files.iter().map(|(_, hash)| hash.as_str());
    Recipe::new(std::iter::once(recipe.0.as_str()).chain(hashes)).0
}

fn rand_bytes() -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&random_u64().to_le_bytes());
    bytes[8..].copy_from_slice(&random_u64().to_le_bytes());
    bytes
}

/// A number nobody can predict, from the operating system.
pub fn random_u64() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    let mut bytes = [0; 8];
    let read =
        fs::File::open("/dev/urandom").and_then(|mut f| io::Read::read_exact(&mut f, &mut bytes));
    match read {
        Ok(()) => u64::from_le_bytes(bytes),
        // Without /dev/urandom the standard library's own random keys still differ per process.
        Err(_) => std::hash::RandomState::new().build_hasher().finish(),
    }
}

#[cfg(test)]
mod tests {
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
        let artifact = publish(&cache, &recipe, b"image bytes", &[]);
        for at in 0..11 {
            let mut bytes = b"image bytes".to_vec();
            bytes[at] ^= 1;
            fs::write(&artifact.image, &bytes).unwrap();
            assert!(cache.look_up(&recipe).is_none());
        }
        fs::write(&artifact.image, b"image").unwrap();
        assert_eq!(cache.verify().removed, [artifact.key]);
        assert_eq!(cache.stats().entries, 0);
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
}
