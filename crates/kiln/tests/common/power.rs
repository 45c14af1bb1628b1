//! A disk that loses power: what was synced is there; of the rest, anything may be.
//!
//! The model is the weakest that POSIX allows, weaker than any one file system: since the last sync
//! of a file each of its sectors may hold any of its versions, its size may be any it had, and what was
//! never written holds nothing or rubbish; since the last sync of a folder each change of a name in it
//! may have happened or not. A rename happens whole or not at all.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rand::Rng;
use rand_chacha::ChaCha8Rng;

use super::disk::Operation;

const SECTOR: usize = 512;

/// How much of what was not synced is there.
#[derive(Clone, Copy, Debug)]
pub enum Loss {
    /// Nothing.
    Everything,
    /// The changes up to some point, the last of them torn.
    Tail,
    /// Each sector and name for itself.
    Anything,
    /// All of it: the disk was quick.
    Nothing,
}

impl Loss {
    pub fn draw(rng: &mut ChaCha8Rng) -> Loss {
        match rng.next_u32() % 8 {
            0 => Loss::Everything,
            1 | 2 => Loss::Tail,
            3 => Loss::Nothing,
            _ => Loss::Anything,
        }
    }
}

#[derive(Clone)]
enum Change {
    Write { at: usize, bytes: Vec<u8> },
    Resize { to: usize },
}

#[derive(Clone, Default)]
struct Node {
    inode: u64,
    is_folder: bool,
    synced: Vec<u8>,
    /// Since then, in order.
    changes: Vec<Change>,
}

/// One change of names, which is on the disk as a whole or not.
#[derive(Clone)]
struct Naming {
    names: Vec<(PathBuf, Option<usize>)>,
}

/// A disk while kiln works on it.
#[derive(Clone)]
pub struct Disk {
    nodes: Vec<Node>,
    /// By inode number, which the real disk uses again when a file is gone.
    current: HashMap<u64, usize>,
    synced_names: BTreeMap<PathBuf, usize>,
    names: BTreeMap<PathBuf, usize>,
    unsynced: Vec<Naming>,
    /// Where the run left its files: some were written by other programs.
    real: PathBuf,
}

impl Disk {
    /// What is below `root` now, all of it synced.
    pub fn of(root: &Path) -> Disk {
        let mut disk = Disk {
            nodes: Vec::new(),
            current: HashMap::new(),
            synced_names: BTreeMap::new(),
            names: BTreeMap::new(),
            unsynced: Vec::new(),
            real: root.to_path_buf(),
        };
        disk.add(root, Path::new(""));
        disk.synced_names = disk.names.clone();
        disk
    }

    fn add(&mut self, real: &Path, path: &Path) {
        let facts = fs::symlink_metadata(real).unwrap();
        let node = self.node(facts.ino(), facts.is_dir());
        self.names.insert(path.to_path_buf(), node);
        if facts.is_file() {
            self.nodes[node].synced = fs::read(real).unwrap();
        }
        if facts.is_dir() {
            for entry in fs::read_dir(real).unwrap().flatten() {
                self.add(&entry.path(), &path.join(entry.file_name()));
            }
        }
    }

    fn node(&mut self, inode: u64, is_folder: bool) -> usize {
        self.nodes.push(Node {
            inode,
            is_folder,
            ..Node::default()
        });
        self.current.insert(inode, self.nodes.len() - 1);
        self.nodes.len() - 1
    }

    pub fn apply(&mut self, operation: &Operation) {
        match operation {
            Operation::Created { inode, path } => {
                let node = self.node(*inode, false);
                self.rename(vec![(path.clone(), Some(node))]);
            }
            Operation::FolderMade { inode, path } => {
                let node = self.node(*inode, true);
                self.rename(vec![(path.clone(), Some(node))]);
            }
            Operation::Written { inode, at, bytes } => {
                let change = Change::Write {
                    at: *at as usize,
                    bytes: bytes.clone(),
                };
                self.nodes[self.current[inode]].changes.push(change);
            }
            Operation::Resized { inode, to } => {
                let change = Change::Resize { to: *to as usize };
                self.nodes[self.current[inode]].changes.push(change);
            }
            Operation::Synced { inode } => {
                let node = &mut self.nodes[self.current[inode]];
                node.synced = node.contents(node.changes.len());
                node.changes.clear();
            }
            Operation::FolderSynced { inode } => self.sync_names(*inode),
            Operation::Renamed { inode, from, to } => {
                let node = self.named(from, *inode, to);
                self.rename(vec![(from.clone(), None), (to.clone(), Some(node))]);
            }
            Operation::Linked { inode, to } => {
                let node = self.current[inode];
                self.rename(vec![(to.clone(), Some(node))]);
            }
            Operation::Removed { path } => self.rename(vec![(path.clone(), None)]),
            Operation::Shown { .. } => {}
        }
    }

    /// The file of a name; one that another program wrote comes in here, with nothing of it synced.
    fn named(&mut self, name: &Path, inode: u64, to: &Path) -> usize {
        if let Some(node) = self.names.get(name) {
            return *node;
        }
        let node = self.node(inode, false);
        let bytes = fs::read(self.real.join(to)).unwrap_or_default();
        self.nodes[node]
            .changes
            .push(Change::Write { at: 0, bytes });
        node
    }

    fn rename(&mut self, names: Vec<(PathBuf, Option<usize>)>) {
        put(&mut self.names, &names);
        self.unsynced.push(Naming { names });
    }

    fn sync_names(&mut self, folder: u64) {
        let is_in = |naming: &Naming| {
            naming.names.iter().any(|(path, _)| {
                let parent = path.parent().and_then(|parent| self.names.get(parent));
                parent.is_some_and(|node| self.nodes[*node].inode == folder)
            })
        };
        let all = std::mem::take(&mut self.unsynced);
        let (synced, rest) = all.into_iter().partition(is_in);
        self.unsynced = rest;
        let synced: Vec<Naming> = synced;
        for naming in &synced {
            put(&mut self.synced_names, &naming.names);
        }
    }

    /// Writes into an empty folder what the disk holds after the power failed now.
    pub fn after_power_loss(&self, loss: Loss, rng: &mut ChaCha8Rng, to: &Path) {
        let mut names = self.synced_names.clone();
        let whole = draw_below(rng, self.unsynced.len() + 1);
        for (number, naming) in self.unsynced.iter().enumerate() {
            let happened = match loss {
                Loss::Everything => false,
                Loss::Tail => number < whole,
                Loss::Anything => rng.next_u32().is_multiple_of(2),
                Loss::Nothing => true,
            };
            if happened {
                put(&mut names, &naming.names);
            }
        }
        // Parents come before what is in them.
        for (path, node) in &names {
            let place = to.join(path);
            let node = &self.nodes[*node];
            if path == Path::new("") || !place.parent().unwrap().is_dir() {
                continue;
            }
            match node.is_folder {
                true => fs::DirBuilder::new().mode(0o700).create(&place).unwrap(),
                false => fs::write(&place, node.after_power_loss(loss, rng)).unwrap(),
            }
        }
    }
}

fn put(into: &mut BTreeMap<PathBuf, usize>, names: &[(PathBuf, Option<usize>)]) {
    for (path, node) in names {
        match node {
            Some(node) => into.insert(path.clone(), *node),
            None => into.remove(path),
        };
    }
}

fn draw_below(rng: &mut ChaCha8Rng, end: usize) -> usize {
    rng.next_u64() as usize % end
}

fn change(contents: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Resize { to } => contents.resize(*to, 0),
        Change::Write { at, bytes } => {
            let end = at + bytes.len();
            if contents.len() < end {
                contents.resize(end, 0);
            }
            contents[*at..end].copy_from_slice(bytes);
        }
    }
}

impl Node {
    fn contents(&self, changes: usize) -> Vec<u8> {
        let mut contents = self.synced.clone();
        for one in &self.changes[..changes] {
            change(&mut contents, one);
        }
        contents
    }

    fn after_power_loss(&self, loss: Loss, rng: &mut ChaCha8Rng) -> Vec<u8> {
        match loss {
            Loss::Everything => self.synced.clone(),
            Loss::Nothing => self.contents(self.changes.len()),
            Loss::Tail => {
                let kept = draw_below(rng, self.changes.len() + 1);
                let mut contents = self.contents(kept);
                if let Some(Change::Write { at, bytes }) = self.changes.get(kept) {
                    // Whole sectors reach the disk.
                    let end = (at + draw_below(rng, bytes.len() + 1)) / SECTOR * SECTOR;
                    let part = bytes[..end.saturating_sub(*at)].to_vec();
                    if !part.is_empty() {
                        change(
                            &mut contents,
                            &Change::Write {
                                at: *at,
                                bytes: part,
                            },
                        );
                    }
                }
                contents
            }
            Loss::Anything => self.any_version(rng),
        }
    }

    fn any_version(&self, rng: &mut ChaCha8Rng) -> Vec<u8> {
        // What a disk returns for a sector that was given to the file and never written.
        let is_rubbish = rng.next_u32().is_multiple_of(2);
        let mut contents = self.synced.clone();
        let mut sizes = vec![contents.len()];
        let mut versions: BTreeMap<usize, Vec<Vec<u8>>> = BTreeMap::new();
        for one in &self.changes {
            let old_size = contents.len();
            let touched = match one {
                Change::Write { at, bytes } => *at.min(&old_size)..at + bytes.len(),
                Change::Resize { to } => old_size.min(*to)..old_size.max(*to),
            };
            let touched = touched.start / SECTOR..touched.end.div_ceil(SECTOR);
            for sector in touched.clone() {
                versions.entry(sector).or_insert_with(|| {
                    let first = sector_of(&contents, sector);
                    vec![match first.is_empty() && is_rubbish {
                        true => (0..SECTOR).map(|_| rng.next_u32() as u8).collect(),
                        false => first,
                    }]
                });
            }
            change(&mut contents, one);
            sizes.push(contents.len());
            for sector in touched {
                let seen = versions.get_mut(&sector).expect("noted above");
                seen.push(sector_of(&contents, sector));
            }
        }
        let size = sizes[draw_below(rng, sizes.len())];
        let mut result = self.synced.clone();
        result.resize(size, 0);
        for (sector, seen) in versions {
            let mut bytes = seen[draw_below(rng, seen.len())].clone();
            bytes.resize(SECTOR, 0);
            let start = (sector * SECTOR).min(size);
            let end = (start + SECTOR).min(size);
            result[start..end].copy_from_slice(&bytes[..end - start]);
        }
        result
    }
}

fn sector_of(contents: &[u8], sector: usize) -> Vec<u8> {
    let start = (sector * SECTOR).min(contents.len());
    let end = (start + SECTOR).min(contents.len());
    contents[start..end].to_vec()
}
