//! Which kernels are broken, and how a broken one becomes a task.

use crate::cli::Backend;
use crate::exit::Failure;
use crate::redteam::files::{self, Bundle};
use crate::redteam::mutate::Language;

pub struct Subject {
    pub name: &'static str,
    pub language: Language,
    folder: &'static str,
    manifest: &'static str,
    /// The file that is broken.
    file: &'static str,
    /// A candidate that includes it, where it is no candidate itself.
    wrapper: Option<&'static str>,
    /// Configs a mutation is tried in first, before those that cover the other values of the tunables.
    pub configs: usize,
    pub needs_python: bool,
    edits: &'static [(&'static str, &'static str)],
}

const fn c(
    name: &'static str,
    folder: &'static str,
    file: &'static str,
    configs: usize,
) -> Subject {
    Subject {
        name,
        language: Language::C,
        folder,
        manifest: "kiln.toml",
        file,
        wrapper: None,
        configs,
        needs_python: false,
        edits: &[],
    }
}

const fn suite(name: &'static str, folder: &'static str) -> Subject {
    Subject {
        wrapper: Some("honest.c"),
        ..c(name, folder, "task.h", 2)
    }
}

const fn suite_cuda(name: &'static str, folder: &'static str) -> Subject {
    Subject {
        language: Language::Cuda,
        manifest: "kiln.cuda.toml",
        wrapper: Some("honest.cu"),
        ..c(name, folder, "task.cuh", 2)
    }
}

const CPU: [Subject; 7] = [
    c("attention_cpu", "kernels/attention_cpu", "attention.c", 4),
    c("matmul_cpu", "kernels/matmul_cpu", "matmul.c", 4),
    c("vector_add", "kernels/vector_add", "vector_add.c", 3),
    suite("softmax", "redteam/tasks/softmax"),
    suite("matmul", "redteam/tasks/matmul"),
    suite("layernorm", "redteam/tasks/layernorm"),
    suite("mean", "redteam/tasks/mean"),
];

const CUDA: [Subject; 7] = [
    Subject {
        language: Language::Cuda,
        manifest: "kiln.kernel.toml",
        ..c("matmul_cuda", "kernels/matmul", "matmul.cu", 3)
    },
    Subject {
        language: Language::Cuda,
        manifest: "kiln.cuda.toml",
        // The baseline must not be broken with the candidate.
        edits: &[(
            "config = { BLOCK = 256, VECTOR = 1, UNROLL = 1, STEPS = 1 }",
            "kernel = \"vector_add.cu:vector_add\"\ngrid = [\"ceil_div(N, 1024)\"]\nblock = [256]",
        )],
        ..c("vector_add_cuda", "kernels/vector_add", "vector_add.cu", 3)
    },
    Subject {
        language: Language::Cuda,
        needs_python: true,
        ..c("attention", "kernels/attention", "attention.cu", 3)
    },
    suite_cuda("softmax_cuda", "redteam/tasks/softmax"),
    suite_cuda("matmul_rows_cuda", "redteam/tasks/matmul"),
    suite_cuda("layernorm_cuda", "redteam/tasks/layernorm"),
    suite_cuda("mean_cuda", "redteam/tasks/mean"),
];

pub fn of(backend: Backend) -> [Subject; 7] {
    match backend {
        Backend::Cpu => CPU,
        Backend::Cuda => CUDA,
    }
}

impl Subject {
    pub fn source(&self) -> Result<&'static str, Failure> {
        files::text(&format!("{}/{}", self.folder, self.file))
    }

    pub fn file(&self) -> String {
        format!("{}/{}", self.folder, self.file)
    }

    /// The task with another text in place of the kernel's; baseline and reference keep theirs.
    pub fn bundle(&self, text: &str) -> Result<Bundle, Failure> {
        let mut bundle = Bundle::of(self.folder, self.manifest)?;
        make_quick(&mut bundle, self.folder)?;
        // Nobody asks how fast a mutant is, and a thousand of them have to be compiled.
        bundle.manifest = bundle.manifest.replace("\"-O3\"", "\"-O1\"");
        for (from, to) in self.edits {
            bundle.edit(from, to)?;
        }
        let (_, ending) = self.file.rsplit_once('.').unwrap_or((self.file, "c"));
        let broken = format!("mutant.{ending}");
        bundle.add(&broken, text);
        let Some(wrapper) = self.wrapper else {
            let original = format!("source = \"{}\"", self.file);
            bundle.edit(&original, &format!("source = \"{broken}\""))?;
            return Ok(bundle);
        };
        let honest = files::text(&format!("{}/{wrapper}", self.folder))?;
        let include = format!("#include \"{}\"", self.file);
        let including = honest.replace(&include, &format!("#include \"{broken}\""));
        bundle.add(wrapper, &including);
        Ok(bundle)
    }
}

/// Baselines that are slow, or start slowly, and what stands in for them: the kernel itself as its
/// source has it. Nobody asks here how much faster a candidate is.
const QUICK_BASELINES: [(&str, &str, &str); 3] = [
    (
        "kernels/attention_cpu",
        "c = \"baseline.c:attention_baseline\"",
        "c = \"attention.c:attention\"",
    ),
    (
        "kernels/matmul_cpu",
        "c = \"baseline.c:matmul_baseline\"",
        "c = \"matmul.c:matmul\"",
    ),
    (
        "kernels/attention",
        "python = \"baselines.py:flash\"\nalso   = [\"baselines.py:default\", \"baselines.py:efficient\"]",
        "kernel = \"attention.cu:attention\"\ngrid = [\"ceil_div(S, 128)\", \"H\", \"B\"]\nblock = [128]\nshared = 49152",
    ),
];

/// All the checks, little of the timing: what a mutant is judged by is whether it is right.
pub fn make_quick(bundle: &mut Bundle, folder: &str) -> Result<(), Failure> {
    for (place, from, to) in QUICK_BASELINES {
        if place == folder {
            bundle.edit(from, to)?;
        }
    }
    bundle.set("measure", "min_samples", "2");
    bundle.set("measure", "max_samples", "4");
    bundle.set("measure", "max_seconds", "0.05");
    bundle.set("measure", "run_timeout_seconds", "4");
    bundle.set("confirm", "samples", "12");
    bundle.set("confirm", "rounds", "2");
    Ok(())
}

#[cfg(test)]
mod tests {
    use kiln_core::manifest::Manifest;

    use super::*;
    use crate::redteam::mutate;

    #[test]
    fn there_are_more_than_a_thousand_mutants_for_each_backend() {
        for backend in [Backend::Cpu, Backend::Cuda] {
            let mut count = 0;
            for subject in of(backend) {
                let source = subject.source().expect("it is in the binary");
                let mutations = mutate::mutations(source);
                let first = mutations.first().expect("something to break");
                let text = first.apply(source, subject.language);
                let bundle = subject.bundle(&text).expect("a task");
                Manifest::parse(&bundle.manifest).expect("a valid manifest");
                assert!(bundle.files.iter().any(|(_, t)| *t == text));
                count += mutations.len();
            }
            assert!(count > 1000, "{count} for {backend:?}");
        }
    }
}
