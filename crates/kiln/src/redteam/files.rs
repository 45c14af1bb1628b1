//! Sources of the repository, as text in the binary.

use crate::cli::Backend;
use crate::exit::{Exit, Failure};
use crate::selftest::Ground;
use crate::task::Task;

include!(concat!(env!("OUT_DIR"), "/repository_files.rs"));

pub fn text(path: &str) -> Result<&'static str, Failure> {
    let found = FILES.iter().find(|(name, _)| *name == path);
    found.map(|(_, text)| *text).ok_or_else(|| {
        Failure::new(
            Exit::Bug,
            format!("`{path}` was not there when kiln was built"),
        )
    })
}

/// The files of a folder, by their names in it.
pub fn folder(path: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let prefix = format!("{path}/");
    FILES
        .iter()
        .filter_map(move |(name, text)| Some((name.strip_prefix(&prefix)?, *text)))
}

/// A task that can still be changed before it is written down.
#[derive(Clone, Debug)]
pub struct Bundle {
    pub manifest: String,
    pub files: Vec<(String, String)>,
}

impl Bundle {
    /// A folder of the repository with one of its manifests.
    pub fn of(path: &str, manifest: &str) -> Result<Bundle, Failure> {
        let owned = |(name, text): (&str, &str)| (name.to_string(), text.to_string());
        Ok(Bundle {
            manifest: text(&format!("{path}/{manifest}"))?.to_string(),
            files: folder(path).map(owned).collect(),
        })
    }

    /// A task of the suite.
    pub fn of_suite(task: &str, backend: Backend) -> Result<Bundle, Failure> {
        let manifest = match backend {
            Backend::Cpu => "kiln.toml",
            Backend::Cuda => "kiln.cuda.toml",
        };
        Bundle::of(&format!("redteam/tasks/{task}"), manifest)
    }

    pub fn add(&mut self, name: &str, text: &str) {
        self.files.retain(|(known, _)| known != name);
        self.files.push((name.to_string(), text.to_string()));
    }

    /// Replaces a passage of the manifest, which must be there.
    pub fn edit(&mut self, from: &str, to: &str) -> Result<(), Failure> {
        if !self.manifest.contains(from) {
            let message = format!("a manifest of the suite does not say `{from}`");
            return Err(Failure::new(Exit::Bug, message));
        }
        self.manifest = self.manifest.replacen(from, to, 1);
        Ok(())
    }

    /// Replaces the value of a key of the manifest, or adds it to its table.
    pub fn set(&mut self, table: &str, key: &str, value: &str) {
        let header = format!("[{table}]");
        let mut lines: Vec<String> = self.manifest.lines().map(str::to_string).collect();
        let Some(start) = lines.iter().position(|line| line.trim() == header) else {
            lines.extend([String::new(), header, format!("{key} = {value}")]);
            self.manifest = lines.join("\n") + "\n";
            return;
        };
        let rest = &lines[start + 1..];
        let length = rest.iter().position(|line| line.starts_with('['));
        let end = start + 1 + length.unwrap_or(rest.len());
        let is_key = |line: &String| line.split('=').next().map(str::trim) == Some(key);
        match lines[start..end].iter().position(is_key) {
            Some(at) => lines[start + at] = format!("{key} = {value}"),
            None => lines.insert(start + 1, format!("{key} = {value}")),
        }
        self.manifest = lines.join("\n") + "\n";
    }

    /// The task on the device at hand, in a folder of its own.
    pub fn task(&self, ground: &Ground, place: &str) -> Result<Task, Failure> {
        let files = self.files.iter().map(|(n, t)| (n.as_str(), t.as_str()));
        ground.task_from(&self.manifest, files, place)
    }
}
