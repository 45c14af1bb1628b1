//! What one manifest asks of the machine.

use std::path::PathBuf;

use kiln_core::manifest::{
    BaselineKind, CudaCompiler, Language, Manifest, PythonFunction, Reference,
};

use crate::project::ManifestFile;

#[derive(Clone, Debug, Default)]
pub struct Needs {
    pub kernel: String,
    pub gpu: bool,
    pub nvcc: bool,
    pub c_compiler: bool,
    pub python: Vec<PythonNeed>,
    /// A Python function is timed, which takes PyTorch and a GPU.
    pub times_python: bool,
}

#[derive(Clone, Debug)]
pub struct PythonNeed {
    pub role: &'static str,
    pub file: PathBuf,
    /// As the manifest writes it.
    pub shown: String,
    pub function: String,
}

impl Needs {
    pub fn of(file: &ManifestFile) -> Needs {
        let manifest = &file.manifest;
        let mut needs = Needs {
            kernel: manifest.kernel.name.clone(),
            gpu: manifest.kernel.language == Language::Cuda,
            nvcc: manifest.kernel.language == Language::Cuda
                && manifest.kernel.compiler == CudaCompiler::Nvcc,
            c_compiler: uses_c(manifest),
            ..Needs::default()
        };
        let python = |role, function: &PythonFunction| PythonNeed {
            role,
            file: file.dir().join(&function.source.value),
            shown: function.source.value.clone(),
            function: function.function.clone(),
        };
        if let Some(Reference::Python(function)) = &manifest.reference {
            needs.python.push(python("reference", function));
        }
        if let Some(baseline) = &manifest.baseline {
            if let BaselineKind::Python(function) = &baseline.kind {
                needs.python.push(python("baseline", function));
                needs.times_python = true;
            }
            for function in &baseline.also {
                needs.python.push(python("also", function));
                needs.times_python = true;
            }
        }
        needs
    }
}

fn uses_c(manifest: &Manifest) -> bool {
    let baseline = manifest.baseline.as_ref().map(|b| &b.kind);
    manifest.kernel.language == Language::C
        || matches!(manifest.reference, Some(Reference::C { .. }))
        || matches!(baseline, Some(BaselineKind::C { .. }))
}
