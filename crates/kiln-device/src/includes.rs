//! Which files a unit reads, for compilers that do not say (NVRTC has no `-MD`).
//!
//! Conservative: every `#include` counts, whatever `#if` it stands under, and every file counts
//! that the name could mean. More files than the compiler read cost a needless recompilation when
//! one of them changes; a missing one would serve a stale image. For the same reason every place
//! where a name was looked for in vain is told too: a file that appears there comes to be the one
//! that is meant. What `#include MACRO` means only the compiler knows, so that is told as well; every name of a file
//! that some macro stands for counts as one it could mean.

mod directives;

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;
use std::time::SystemTime;

use crate::nvrtc::Header;
use directives::{Form, Include, includes_of};

/// Remembers what files include, for the next config of the same kernel reads them again.
#[derive(Default)]
pub(crate) struct Scanner {
    files: HashMap<PathBuf, (Stamp, Rc<[Include]>)>,
}

/// What a unit reads; both lists are sorted.
#[derive(Debug, Default, PartialEq)]
pub struct Reached {
    pub files: Vec<String>,
    /// Looked for before a file was found, and not there.
    pub absent: Vec<String>,
    /// Something is included, or asked for, whose name only the compiler knows.
    pub has_computed: bool,
}

#[derive(Clone, Copy, PartialEq)]
struct Stamp {
    bytes: u64,
    modified: Option<SystemTime>,
}

/// Everything reachable from a unit through these folders, in the order they are searched.
pub fn reachable(unit: &str, include_dirs: &[String]) -> Reached {
    thread_local! {
        // A study asks again and again, and some kernels take in hundreds of headers.
        static SCANNER: RefCell<Scanner> = RefCell::default();
    }
    SCANNER.with_borrow_mut(|scanner| scanner.reachable(unit, include_dirs, &[]))
}

impl Scanner {
    /// Everything reachable from a unit. Built-in headers are no files, and may include some.
    pub(crate) fn reachable(
        &mut self,
        unit: &str,
        include_dirs: &[String],
        built_in: &[&Header],
    ) -> Reached {
        let mut search = Search {
            include_dirs: include_dirs.iter().map(Path::new).collect(),
            built_in: built_in.to_vec(),
            is_file: HashMap::new(),
            absent: BTreeSet::new(),
            open: Vec::new(),
            meant: BTreeSet::new(),
            computing: BTreeSet::new(),
            has_computed: false,
        };
        let mut found = BTreeSet::new();
        // The unit lies in no folder.
        search.follow(&includes_of(unit.as_bytes()), None);
        loop {
            while let Some(path) = search.open.pop() {
                if found.contains(&path) {
                    continue;
                }
                let includes = self.includes_in(&path);
                search.follow(&includes, path.parent());
                found.insert(path);
            }
            search.guess(&found);
            if search.open.is_empty() {
                break;
            }
        }
        let text = |paths: BTreeSet<PathBuf>| {
            let paths = paths.into_iter();
            paths.map(|p| p.to_string_lossy().into_owned()).collect()
        };
        Reached {
            files: text(found),
            absent: text(search.absent),
            has_computed: search.has_computed,
        }
    }

    fn includes_in(&mut self, path: &Path) -> Rc<[Include]> {
        let stamp = fs::metadata(path).ok().map(|facts| Stamp {
            bytes: facts.len(),
            modified: facts.modified().ok(),
        });
        if let (Some(stamp), Some((known, includes))) = (stamp, self.files.get(path))
            && stamp == *known
        {
            return Rc::clone(includes);
        }
        // A file that cannot be read is the compiler's problem to report.
        let text = fs::read(path).unwrap_or_default();
        let includes: Rc<[Include]> = includes_of(&text).into();
        if let Some(stamp) = stamp {
            self.files
                .insert(path.to_path_buf(), (stamp, Rc::clone(&includes)));
        }
        includes
    }
}

struct Search<'d> {
    include_dirs: Vec<&'d Path>,
    /// Those not met yet.
    built_in: Vec<&'d Header>,
    /// Hundreds of headers ask for the same few names.
    is_file: HashMap<PathBuf, bool>,
    absent: BTreeSet<PathBuf>,
    open: Vec<PathBuf>,
    /// Names that macros stand for.
    meant: BTreeSet<String>,
    /// Folders of the files that include something by a macro.
    computing: BTreeSet<PathBuf>,
    has_computed: bool,
}

impl Search<'_> {
    fn follow(&mut self, includes: &[Include], folder: Option<&Path>) {
        for include in includes {
            let (form, name) = match include {
                Include::Named { form, name } => (form, name),
                Include::Computed => {
                    self.has_computed = true;
                    self.computing.extend(folder.map(Path::to_path_buf));
                    continue;
                }
                Include::Meant(name) => {
                    self.meant.insert(name.clone());
                    continue;
                }
            };
            let is_met = |header: &&Header| header.name == name;
            if let Some(at) = self.built_in.iter().position(is_met) {
                let header = self.built_in.swap_remove(at);
                self.follow(&includes_of(header.text.as_bytes()), None);
            }
            let name = Path::new(name);
            let candidates: Vec<PathBuf> = if name.is_absolute() {
                vec![name.to_path_buf()]
            } else {
                // NVRTC 13.0 was seen to look beside the including file for quotes only.
                let beside = folder.filter(|_| *form != Form::Angled);
                let dirs = beside.into_iter().chain(self.include_dirs.iter().copied());
                dirs.map(|dir| dir.join(name)).collect()
            };
            let mut is_found = false;
            for candidate in candidates {
                if self.is_file(&candidate) {
                    self.open.push(normal(&candidate));
                    // `#include_next` goes on from a folder that is not known here.
                    is_found = *form != Form::Next;
                } else if !is_found {
                    self.absent.insert(candidate);
                }
            }
        }
    }

    /// Where something is included by a macro: all that macros stand for.
    fn guess(&mut self, found: &BTreeSet<PathBuf>) {
        if !self.has_computed {
            return;
        }
        let beside = self.computing.iter().map(PathBuf::as_path);
        let dirs: Vec<PathBuf> = beside
            .chain(self.include_dirs.iter().copied())
            .map(Path::to_path_buf)
            .collect();
        // An absolute name stays what it is.
        for name in self.meant.clone() {
            for candidate in dirs.iter().map(|dir| dir.join(&name)) {
                let path = normal(&candidate);
                if self.is_file(&candidate) && !found.contains(&path) {
                    self.open.push(path);
                }
            }
        }
    }

    fn is_file(&mut self, path: &Path) -> bool {
        if let Some(known) = self.is_file.get(path) {
            return *known;
        }
        let is_file = path.is_file();
        self.is_file.insert(path.to_path_buf(), is_file);
        is_file
    }
}

/// Without `.` and `..`, so that a header reached in two ways is one. Symbolic links stay: the
/// compiler resolves names next to the link.
fn normal(path: &Path) -> PathBuf {
    let mut parts: Vec<Component> = Vec::new();
    for part in path.components() {
        match (part, parts.last()) {
            (Component::CurDir, _) => {}
            // `link/..` is not the link's folder; then the name stays as it is.
            (Component::ParentDir, Some(Component::Normal(_)))
                if !parts.iter().collect::<PathBuf>().is_symlink() =>
            {
                parts.pop();
            }
            (part, _) => parts.push(part),
        }
    }
    parts.iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Folder {
        _dir: tempfile::TempDir,
        root: PathBuf,
        scanner: Scanner,
    }

    impl Folder {
        fn new() -> Folder {
            let dir = tempfile::tempdir().unwrap();
            Folder {
                root: dir.path().canonicalize().unwrap(),
                _dir: dir,
                scanner: Scanner::default(),
            }
        }

        fn path(&self, name: &str) -> String {
            self.root.join(name).to_string_lossy().into_owned()
        }

        fn write(&self, name: &str, text: &str) -> String {
            let path = self.root.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            self.path(name)
        }

        /// From `k.cu`, with the include folders `a` and `b`.
        fn reached(&mut self) -> Reached {
            let unit = format!("#include \"{}\"\nint x;\n", self.path("k.cu"));
            let dirs = [self.path("a"), self.path("b")];
            self.scanner.reachable(&unit, &dirs, &[])
        }
    }

    #[test]
    fn all_that_a_name_could_mean_and_cycles_end() {
        let mut folder = Folder::new();
        let kernel = folder.write(
            "k.cu",
            "#include \"sub/s.h\"\n#if 0\n#include \"both.h\"\n#endif\n",
        );
        let s = folder.write("sub/s.h", "#include \"../k.cu\"\n#include <nowhere.h>\n");
        let beside = folder.write("both.h", "");
        let inside = folder.write("a/both.h", "");
        folder.write("other.h", "");
        let reached = folder.reached();
        assert_eq!(reached.files, [inside, beside, kernel, s]);
        assert_eq!(
            reached.absent,
            [folder.path("a/nowhere.h"), folder.path("b/nowhere.h")]
        );
        assert!(!reached.has_computed);
        // A changed file is read again.
        folder.write("sub/s.h", "#define H \"other.h\"\n#include H\n");
        assert!(folder.reached().has_computed);
    }

    #[test]
    fn what_could_hide_the_file_that_was_found_is_told() {
        let mut folder = Folder::new();
        folder.write("b/h.h", "");
        folder.write("k.cu", "#include <h.h>\n");
        let reached = folder.reached();
        assert!(reached.files.contains(&folder.path("b/h.h")));
        assert_eq!(reached.absent, [folder.path("a/h.h")]);
        folder.write("k.cu", "#include \"h.h\"\n");
        assert_eq!(
            folder.reached().absent,
            [folder.path("a/h.h"), folder.path("h.h")]
        );
        // What comes after the one that is found hides nothing.
        let found = folder.write("h.h", "");
        let reached = folder.reached();
        assert_eq!(reached.absent, [""; 0]);
        assert!(reached.files.contains(&found));
        // A folder of that name is no file, neither now nor for the cache.
        fs::create_dir_all(folder.path("a/v.h")).unwrap();
        folder.write("k.cu", "#if __has_include(<v.h>)\n#endif\n");
        assert_eq!(
            folder.reached().absent,
            [folder.path("a/v.h"), folder.path("b/v.h")]
        );
    }

    #[test]
    fn what_macros_stand_for_counts_where_one_is_included() {
        let mut folder = Folder::new();
        let plain = "#define H \"other.h\"\nconst char *name = H;\n";
        folder.write("k.cu", plain);
        let other = folder.write("other.h", "#define I <in.h>\n#include I\n");
        let inner = folder.write("a/in.h", "");
        assert!(!folder.reached().files.contains(&other), "a text only");
        folder.write("k.cu", &format!("{plain}#include H\n"));
        let reached = folder.reached();
        assert!(reached.has_computed);
        assert!(reached.files.contains(&other) && reached.files.contains(&inner));
    }

    #[test]
    fn paths_lose_their_dots() {
        assert_eq!(normal(Path::new("/a/./b/../c.h")), Path::new("/a/c.h"));
        assert_eq!(normal(Path::new("../c.h")), Path::new("../c.h"));
    }
}
