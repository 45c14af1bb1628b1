//! `kiln cache`: stats, clear, verify.

use crate::cache::Cache;
use crate::cli::{CacheArgs, CacheVerb};
use crate::exit::{Exit, Failure};
use crate::printer;
use crate::report::terminal::human_bytes;

pub fn run(args: &CacheArgs) -> Result<Exit, Failure> {
    let cache = Cache::open()?;
    match args.verb {
        CacheVerb::Stats { json } => {
            let stats = cache.stats();
            if json {
                let mut value = serde_json::to_value(&stats).unwrap_or_default();
                value["schema_version"] = 1.into();
                printer::document(&value);
            } else {
                printer::data(&format!(
                    "{} images, {} of {}, in {}",
                    stats.entries,
                    human_bytes(stats.bytes),
                    human_bytes(stats.limit_bytes),
                    stats.path
                ));
            }
        }
        CacheVerb::Clear => {
            let removed = cache
                .clear()
                .map_err(|e| Failure::machine(format!("cannot clear the cache: {e}")))?;
            printer::data(&format!(
                "removed {} images, {}",
                removed.entries,
                human_bytes(removed.bytes)
            ));
        }
        CacheVerb::Verify => {
            let found = cache.verify();
            printer::data(&format!(
                "{} images are sound, {} were damaged and removed",
                found.sound,
                found.removed.len()
            ));
        }
    }
    Ok(Exit::Success)
}
