//! The name of a config that does not change when tunables are reordered or values are added.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::value::Value;

/// The first 128 bits of the blake3 hash of the `name=value` lines, sorted by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConfigId([u8; 16]);

impl ConfigId {
    pub fn of<'a>(assignment: impl IntoIterator<Item = (&'a str, &'a Value)>) -> ConfigId {
        let mut lines: Vec<String> = assignment
            .into_iter()
            .map(|(name, value)| {
                // A text value cannot forge a second line.
                let value = value.to_string().replace('\\', "\\\\").replace('\n', "\\n");
                format!("{name}={value}\n")
            })
            .collect();
        lines.sort_unstable();
        let hash = blake3::hash(lines.concat().as_bytes());
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&hash.as_bytes()[..16]);
        ConfigId(bytes)
    }
}

impl fmt::Display for ConfigId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for ConfigId {
    type Err = String;

    fn from_str(text: &str) -> Result<ConfigId, String> {
        let wrong = || format!("`{text}` is not a config id: 32 hex digits are expected");
        if text.len() != 32 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        let number = u128::from_str_radix(text, 16).map_err(|_| wrong())?;
        Ok(ConfigId(number.to_be_bytes()))
    }
}

impl Serialize for ConfigId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ConfigId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ConfigId, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(de::Error::custom)
    }
}
