//! Compiled images by the content that made them.
//!
//! A *recipe* is everything known before compiling: unit text, sorted defines, flags, compiler,
//! target, format version. Which headers were read is known only afterwards, so an entry is found
//! in two steps: the recipe names a list of files with their hashes; if all still match, recipe
//! and hashes together name the image. Files that were looked for in vain are in the list too: one
//! that appears would be read instead of another. Entries appear by rename, so a half-written one is never
//! seen, and every read checks the hashes of the image and of what the compiler said about it: a
//! damaged entry is a miss. Nothing here is synced: what a power loss takes or damages is compiled
//! again, which costs less than waiting for the disk after every compilation.

use std::collections::HashMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

pub use kiln_core::cache_entry::Recipe;
use kiln_core::cache_entry::{ABSENT, Dependencies, Entry};
use kiln_core::protocol::Compiled;
use serde::Serialize;

use crate::durable;
use crate::exit::Failure;
use crate::settings;

#[cfg(test)]
mod tests;

/// A compiler has a day at most (`compile_timeout_seconds`); what is older than this is nobody's.
const STAGED_AT_MOST: Duration = Duration::from_secs(2 * 24 * 3600);

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
        let cache = Cache {
            root,
            limit_bytes: settings::cache_limit_bytes()?,
            hashes: Mutex::default(),
        };
        cache.sweep_staging();
        Ok(cache)
    }

    /// Removes what killed compilers left half-written.
    fn sweep_staging(&self) {
        let files = fs::read_dir(self.staging_folder()).into_iter().flatten();
        for file in files.flatten() {
            let age = file
                .metadata()
                .and_then(|facts| facts.modified())
                .ok()
                .and_then(|time| time.elapsed().ok());
            if age.is_some_and(|age| age > STAGED_AT_MOST) {
                // It may be a folder, or be removed by another process: neither matters here.
                let _ = fs::remove_file(file.path());
            }
        }
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
        let dependencies = Dependencies::parse(&text).ok()?;
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
        let artifact = self.read_entry(&dependencies.image_key(recipe)).ok()?;
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
        let key = dependencies.image_key(recipe);
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
        self.write_atomically(&self.entry_path(&key), &entry.to_bytes()?)?;
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
        let name = format!("{}.json", recipe.name());
        self.root.join("recipes").join(name)
    }

    fn image_path(&self, key: &str) -> PathBuf {
        self.root.join("images").join(format!("{key}.so"))
    }

    fn entry_path(&self, key: &str) -> PathBuf {
        self.root.join("images").join(format!("{key}.json"))
    }

    fn read_entry(&self, key: &str) -> io::Result<Artifact> {
        let damaged = || io::Error::new(io::ErrorKind::InvalidData, "the entry is damaged");
        let file = fs::read(self.entry_path(key))?;
        let entry = Entry::parse(&file).ok_or_else(damaged)?;
        let image = fs::read(self.image_path(key))?;
        if blake3::hash(&image).to_hex().as_str() != entry.image_hash {
            return Err(damaged());
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
        durable::publish_unsynced(file, path)
    }

    fn file_hash(&self, path: &Path) -> io::Result<String> {
        let facts = fs::metadata(path)?;
        // A device has no end, and a pipe keeps its reader waiting.
        if !facts.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
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
