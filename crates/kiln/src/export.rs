//! A kernel that was tuned, as something a program can use: `kiln export` and `kiln verify`.
//!
//! Winners (studies, or a file of them) -> `Plan`: their distinct configs, with every expression of the
//! launch worked out as far as a config decides it -> one writer per target -> a folder with checksums.
//! What a writer puts there needs neither kiln nor a compiler to be used (C sources excepted).

mod c_source;
mod choosing;
mod cpp;
mod files;
mod header;
mod images;
mod importable;
mod modules;
mod names;
pub mod package;
mod plan;
mod python;
mod relations;
mod rust;
mod sealed;
mod sources;
pub mod standing;
mod unchanged;
pub mod verify;
pub mod winners;

pub use files::Folder;
pub use modules::is_taken;
pub use names::identifier;
pub use plan::Plan;
pub use unchanged::changed_since;

use std::path::PathBuf;

use kiln_core::diagnostic::printable;
use kiln_core::manifest::Language;

use crate::exit::Failure;
use crate::printer;
use crate::project::ManifestFile;
use package::{Package, Target};
use winners::Winners;

/// What a user asked for.
pub struct Request {
    pub target: Target,
    /// The folder to become.
    pub out: PathBuf,
    /// CUDA architectures; none: that of the winners' device.
    pub architectures: Vec<String>,
}

/// Everything the package consists of, in a folder that is not yet in its place.
pub fn build(
    file: ManifestFile,
    winners: &Winners,
    request: &Request,
) -> Result<(Package, Folder), Failure> {
    let is_cuda = file.manifest.kernel.language == Language::Cuda;
    if request.target == Target::Cubin && !is_cuda {
        return Err(Failure::usage(format!(
            "`{}` is a kernel in C: it has no cubin",
            file.manifest.kernel.name
        ))
        .hint("`--to cpp`, `rust` or `header` export its source as it was tuned; `--to torch` a library"));
    }
    if let (false, Some(named)) = (is_cuda, request.architectures.first()) {
        return Err(Failure::usage(format!(
            "`{}` is a kernel in C: `--arch {}` means nothing for it",
            file.manifest.kernel.name,
            printable(named)
        ))
        .hint("leave `--arch` out; `-march=…` among the flags of `[kernel]` chooses a processor"));
    }
    let mut folder = Folder::beside(&request.out)?;
    let mut plan = Plan::new(&file, winners)?;
    let read = images::build(&file, winners, request, &mut plan, &mut folder)?;
    let left_out = sources::copy(&file, &read, &mut folder)?;
    plan.tag = plan.tag_of(&folder.digest()?);
    let mut package = Package::of(&plan, winners, request.target)?;
    package.notes.extend(left_out);
    if !is_cuda && matches!(request.target, Target::Cpp | Target::Rust) {
        package.notes.extend(c_source::notes(&plan));
    }
    match request.target {
        Target::Json | Target::Cubin => {}
        Target::Header => header::write(&plan, &mut folder)?,
        Target::Torch => {
            python::write(&plan, &package, &mut folder)?;
            let offered = python::offered(&plan)?;
            // Said here and not in the package: it is about this machine.
            if let Some(open) = importable::prove(folder.path(), offered.as_ref())? {
                printer::talk(&format!("note: {open}"));
            }
        }
        Target::Cpp => cpp::write(&plan, &package, &mut folder)?,
        Target::Rust => rust::write(&plan, &package, &mut folder)?,
    }
    folder.text("README.md", &package.readme())?;
    let document = serde_json::to_string_pretty(&package).map_err(|e| {
        Failure::new(
            crate::exit::Exit::Bug,
            format!("a package that cannot be written: {e}"),
        )
    })?;
    folder.text(package::FILE, &format!("{document}\n"))?;
    folder.sums()?;
    Ok((package, folder))
}
