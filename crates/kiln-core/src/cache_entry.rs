//! What the compile cache writes down about an image: how it is found, and what the compiler said.
//!
//! Text and keys only; where the files are and whether they still are what they were is the cache's
//! business.

use serde::{Deserialize, Serialize};

use crate::protocol::Compiled;

/// Part of every key; raised when the meaning of an entry changes.
const FORMAT: &str = "kiln-cache-4";

/// Stands for the hash of a file that must not be there.
pub const ABSENT: &str = "absent";

/// Everything known before compiling, as one name.
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

    pub fn name(&self) -> &str {
        &self.0
    }
}

/// Of an image: what it must be, and what the compiler said when it made it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    pub image_hash: String,
    pub compiled: Compiled,
}

impl Entry {
    /// As it stands in its file, behind its own hash. The list of a recipe needs none: its hash is
    /// the name of the image.
    pub fn to_bytes(&self) -> serde_json::Result<Vec<u8>> {
        Ok(sealed(&serde_json::to_vec(self)?))
    }

    /// `None` for what is damaged, or was never an entry.
    pub fn parse(file: &[u8]) -> Option<Entry> {
        serde_json::from_slice(opened(file)?).ok()
    }
}

/// A text behind its own hash.
pub fn sealed(text: &[u8]) -> Vec<u8> {
    let hash = blake3::hash(text).to_hex();
    [hash.as_bytes(), b"\n", text].concat()
}

/// The text, if it is what was sealed.
fn opened(sealed: &[u8]) -> Option<&[u8]> {
    let (hash, rest) = sealed.split_at_checked(blake3::OUT_LEN * 2)?;
    let text = rest.strip_prefix(b"\n")?;
    (blake3::hash(text).to_hex().as_bytes() == hash).then_some(text)
}

/// Of a recipe: on which files its image depends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Dependencies {
    /// Path and content hash of every file the compiler read, or looked for in vain.
    pub files: Vec<(String, String)>,
}

impl Dependencies {
    pub fn parse(json: &[u8]) -> serde_json::Result<Dependencies> {
        serde_json::from_slice(json)
    }

    /// Names the image that a recipe makes from these very files.
    pub fn image_key(&self, recipe: &Recipe) -> String {
        let hashes = self.files.iter().map(|(_, hash)| hash.as_str());
        Recipe::new(std::iter::once(recipe.0.as_str()).chain(hashes)).0
    }
}
