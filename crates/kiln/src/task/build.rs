//! What to compile: the units handed to the compiler, and what their images depend on.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use kiln_core::dtype::DType;
use kiln_core::manifest::{
    Argument, ArgumentKind, BaselineKind, CudaCompiler, Fill, Language, PythonFunction, Reference,
    Stage,
};
use kiln_core::protocol::{CompileJob, Tool};
use kiln_core::trial::Assignment;
use kiln_core::value::Value;
use kiln_device::cc::{FIXED_FLAGS, is_linked_apart};
use kiln_device::python::Mode;

use super::includes::has_word;
use super::reads::dialect;
use super::{ENTRY_SYMBOL, Part, Precision, Program, ReferenceFile, Task, cuda_unit, flags};
use crate::cache::Recipe;
use crate::engine::compile_pool::Build;
use crate::engine::worker::{OUTSIDE_KILLS_FORGIVEN, WorkerKind};
use crate::engine::{interrupt, interrupted, jail};
use crate::exit::Failure;
use crate::settings;
use crate::toolchain::child;

const COMPILE_MEMORY_BYTES: u64 = 8 << 30;

pub struct Compiler {
    pub command: Vec<String>,
    /// Version, and the processor where flags say `native`.
    pub identity: String,
}

/// Where a program comes from: it has to be compiled, or it is there.
#[derive(Clone, Debug)]
pub enum Source {
    Build(Box<Build>),
    Ready(Program),
}

impl Task {
    pub fn candidate_build(&self, config: &Assignment) -> Build {
        self.candidate_with(&[], config)
    }

    /// The candidate as it is tuned, with what leads from an instruction to a line of source.
    pub fn traced_build(&self, config: &Assignment) -> Build {
        // Neither changes the instructions.
        let trace = match self.manifest().kernel.language {
            Language::C => "-g",
            Language::Cuda => "-lineinfo",
        };
        self.candidate_with(&[trace], config)
    }

    /// The same with every check the compiler can build in without a library; for kernels in C.
    pub fn trapping_build(&self, config: &Assignment) -> Option<Build> {
        const CHECKS: [&str; 3] = [
            "-g",
            "-fsanitize=bounds,alignment,null,object-size",
            "-fsanitize-undefined-trap-on-error",
        ];
        let is_c = self.manifest().kernel.language == Language::C;
        is_c.then(|| self.candidate_with(&CHECKS, config))
    }

    /// The candidate with some of its stages left out: it computes something else.
    pub fn staged_build(&self, without: &[String], config: &Assignment) -> Build {
        let stages = self.manifest().stages.iter();
        let flags: Vec<&str> = stages
            .filter(|stage| without.contains(&stage.name))
            .flat_map(|stage| stage.flags.iter().map(String::as_str))
            .collect();
        self.candidate_with(&flags, config)
    }

    fn candidate_with(&self, further: &[&str], config: &Assignment) -> Build {
        let kernel = &self.manifest().kernel;
        let further = further.iter().map(|flag| flag.to_string());
        let flags: Vec<String> = kernel.flags.iter().cloned().chain(further).collect();
        let entry = &kernel.entry.value;
        match kernel.language {
            Language::C => {
                let unit = self.unit(&self.source, entry, Precision::Declared);
                self.c_build(unit, &flags, config)
            }
            Language::Cuda => {
                self.cuda_build(&self.source, entry, Precision::Declared, &flags, config)
            }
        }
    }

    pub fn reference_source(&self) -> Option<Source> {
        match (&self.reference, &self.manifest().reference) {
            (ReferenceFile::C { path }, Some(Reference::C { entry, flags, .. })) => {
                let unit = self.unit(path, entry, Precision::Double);
                Some(self.c_build(unit, flags, &Vec::new()).into())
            }
            (ReferenceFile::Kernel { path }, Some(Reference::Kernel { entry, flags, .. })) => {
                let precision = self.precision(Part::Reference);
                Some(
                    self.cuda_build(path, entry, precision, flags, &Vec::new())
                        .into(),
                )
            }
            (ReferenceFile::Python { path }, Some(Reference::Python(function))) => {
                Some(Source::Ready(Program {
                    worker: WorkerKind::Python(Mode::Reference),
                    image: path.display().to_string(),
                    symbol: function.function.clone(),
                }))
            }
            _ => None,
        }
    }

    /// What to beat and a name for it.
    pub fn baseline_source(&self) -> Result<(Source, String), Failure> {
        let manifest = self.manifest();
        let path = || self.baseline.as_ref().expect("resolved with the task");
        match manifest.baseline.as_ref().map(|b| &b.kind) {
            Some(BaselineKind::C {
                source,
                entry,
                flags,
            }) => {
                let unit = self.unit(path(), entry, Precision::Declared);
                let build = self.c_build(unit, flags, &Vec::new());
                Ok((build.into(), format!("{}:{entry}", source.value)))
            }
            Some(BaselineKind::Kernel {
                source,
                entry,
                flags,
                ..
            }) => {
                let build = self.cuda_build(path(), entry, Precision::Declared, flags, &Vec::new());
                Ok((build.into(), format!("{}:{entry}", source.value)))
            }
            Some(BaselineKind::Python(function)) => {
                Ok((python_baseline(path(), function), label(function)))
            }
            Some(BaselineKind::Config { values, .. }) => {
                let config = self.in_space_order(values);
                let build = self.candidate_build(&config);
                Ok((build.into(), "the given config".into()))
            }
            None => Err(Failure::usage(format!(
                "`{}` has no [baseline]: a verdict needs something to beat",
                self.file.name()
            ))
            .hint(match manifest.kernel.language {
                Language::C => {
                    "add `[baseline]` with `c = \"baseline.c:function\"` or `config = { … }`"
                }
                Language::Cuda => {
                    "add `[baseline]` with `python = \"baseline.py:function\"`, \
                     `kernel = \"baseline.cu:function\"` or `config = { … }`"
                }
            })),
        }
    }

    /// Other implementations to show beside the baseline.
    pub fn also_sources(&self) -> Result<Vec<(Source, String)>, Failure> {
        let also = self.manifest().baseline.iter().flat_map(|b| &b.also);
        also.map(|function| {
            let path = self.file.resolve(&function.source)?;
            Ok((python_baseline(&path, function), label(function)))
        })
        .collect()
    }

    /// kiln's own helper kernels for this device.
    pub fn support_build(&self) -> Build {
        self.cuda_job(
            kiln_device::cuda::SUPPORT_SOURCE.to_string(),
            "kiln_hold",
            &[],
            &Vec::new(),
        )
    }

    fn in_space_order(&self, values: &[(String, Value)]) -> Assignment {
        let tunables = self.space.tunables().iter();
        tunables
            .filter_map(|t| values.iter().find(|(name, _)| *name == t.name).cloned())
            .collect()
    }

    /// The config the baseline's arguments are made with.
    pub fn baseline_config(&self) -> Result<Assignment, Failure> {
        match self.manifest().baseline.as_ref().map(|b| &b.kind) {
            Some(BaselineKind::Config { values, .. }) => Ok(self.in_space_order(values)),
            _ => self.any_config(),
        }
    }

    fn cuda_build(
        &self,
        source: &Path,
        entry: &str,
        precision: Precision,
        flags: &[String],
        config: &Assignment,
    ) -> Build {
        let is_candidate = source == self.source && *entry == self.manifest().kernel.entry.value;
        let arguments = self.manifest().arguments.iter();
        let arguments: Vec<&Argument> = arguments
            .filter(|a| is_candidate || !matches!(a.kind, ArgumentKind::Tma { .. }))
            .collect();
        let unit = cuda_unit::text(&arguments, source, entry, precision);
        self.cuda_job(unit, entry, flags, config)
    }

    fn cuda_job(&self, unit: String, entry: &str, flags: &[String], config: &Assignment) -> Build {
        let cuda = self.cuda.as_ref().expect("found for every CUDA kernel");
        let architecture = self.architecture.clone();
        let entry = entry.to_string();
        let tool = match (self.manifest().kernel.compiler, &cuda.nvcc) {
            (CudaCompiler::Nvcc, Some(nvcc)) => Tool::Nvcc {
                command: vec![nvcc.display().to_string()],
                architecture,
                entry,
            },
            _ => Tool::Nvrtc {
                library: cuda.library.display().to_string(),
                builtins: cuda.builtins.as_ref().map(|b| b.display().to_string()),
                architecture,
                entry,
            },
        };
        let headers = cuda.include_dirs.iter().map(|d| d.display().to_string());
        let dirs = self.include_dirs.iter().cloned().chain(headers).collect();
        self.build(tool, &cuda.identity, unit, flags, config, dirs)
    }

    pub(super) fn c_build(&self, unit: String, flags: &[String], config: &Assignment) -> Build {
        let compiler = self.compiler.as_ref().expect("found for every C source");
        let command = compiler.command.clone();
        let dirs = self.include_dirs.clone();
        let tool = Tool::Cc { command };
        self.build(tool, &compiler.identity, unit, flags, config, dirs)
    }

    fn build(
        &self,
        tool: Tool,
        identity: &str,
        unit: String,
        flags: &[String],
        config: &Assignment,
        include_dirs: Vec<String>,
    ) -> Build {
        let mut defines: Vec<(String, String)> = config
            .iter()
            .map(|(name, value)| (name.clone(), value.define()))
            .collect();
        defines.sort();
        let timeout = self.manifest().measure.compile_timeout_seconds;
        let job = CompileJob {
            flags: flags::placed(flags, dialect(&tool), self.file.dir(), &include_dirs),
            tool,
            unit,
            defines,
            include_dirs,
            output: String::new(),
            memory_limit_bytes: COMPILE_MEMORY_BYTES,
            cpu_limit_seconds: timeout.ceil() as u64 + 1,
        };
        let mut parts = vec![identity.to_string(), job.unit.clone()];
        match &job.tool {
            Tool::Cc { command } => {
                parts.extend(command.iter().cloned());
                parts.push("flags".into());
                parts.extend(FIXED_FLAGS.iter().map(|flag| flag.to_string()));
                // Images of earlier versions set the processor's mode.
                parts.extend(is_linked_apart(&job).then(|| "linked apart".to_string()));
            }
            cuda => {
                parts.push(format!("{cuda:?}"));
                parts.push("flags".into());
            }
        }
        parts.extend(job.flags.iter().cloned());
        parts.extend(job.flags.iter().filter_map(|flag| named_file_hash(flag)));
        parts.push("defines".into());
        parts.extend(job.defines.iter().map(|(n, v)| format!("{n}={v}")));
        parts.push("includes".into());
        parts.extend(job.include_dirs.iter().cloned());
        let worker = match &job.tool {
            Tool::Cc { .. } => WorkerKind::reading_only(self.inputs().to_vec()),
            _ => WorkerKind::cuda(self.support.clone()),
        };
        Build {
            recipe: Recipe::new(parts.iter().map(String::as_str)),
            worker,
            job,
            deadline: Duration::from_secs_f64(timeout),
            project: self.readable_project(),
        }
    }

    /// The source and a wrapper that calls its entry with one pointer per argument, so that the C
    /// compiler itself checks the manifest's types against the real signature.
    pub(super) fn unit(&self, source: &Path, entry: &str, precision: Precision) -> String {
        let arguments: Vec<String> = self
            .manifest()
            .arguments
            .iter()
            .enumerate()
            // A reference in C gets the buffers, not their descriptors.
            .filter(|(_, argument)| !matches!(argument.kind, ArgumentKind::Tma { .. }))
            .map(|(i, argument)| {
                let dtype = match precision {
                    Precision::Double if argument.dtype.is_float() => DType::F64,
                    _ => argument.dtype,
                };
                match (&argument.kind, dtype.c_type()) {
                    // Filtered above.
                    (ArgumentKind::Tma { .. }, _) => String::new(),
                    (ArgumentKind::Buffer { .. }, Some(c)) => format!("({c} *)kiln_arguments[{i}]"),
                    (ArgumentKind::Buffer { .. }, None) => format!("kiln_arguments[{i}]"),
                    (ArgumentKind::Scalar { .. }, Some(c)) => {
                        format!("*({c} *)kiln_arguments[{i}]")
                    }
                    // Refused by `check_arguments`.
                    (ArgumentKind::Scalar { .. }, None) => "0".into(),
                }
            })
            .collect();
        format!(
            "#include \"{}\"\n#include <stdint.h>\n\
             __attribute__((visibility(\"default\"))) void {ENTRY_SYMBOL}(void **kiln_arguments) {{\n    \
             {entry}({});\n}}\n",
            source.display(),
            arguments.join(", ")
        )
    }

    /// Stages with a macro that appears nowhere in the kernel's source: leaving them out leaves nothing out.
    pub fn unknown_stages(&self) -> Vec<(&Stage, &str)> {
        let stages = &self.manifest().stages;
        if self.replayed.is_some() || stages.is_empty() {
            return Vec::new();
        }
        let texts = self.closure(vec![self.source.clone()]);
        let is_unknown = |name: &&str| !texts.iter().any(|(_, text)| has_word(text, name));
        let named = stages
            .iter()
            .filter_map(|stage| Some((stage, stage.macros().find(is_unknown)?)));
        named.collect()
    }

    /// What a compiler may read of the user's: the project, but not a whole home, with its keys,
    /// that happens to be one.
    pub(super) fn readable_project(&self) -> PathBuf {
        match jail::holds_home(&self.file.root) {
            true => self.file.dir().to_path_buf(),
            false => self.file.root.clone(),
        }
    }

    /// Inputs that come from files. Expected outputs are not among them: no candidate may see those.
    fn inputs(&self) -> &[String] {
        self.inputs.get_or_init(|| {
            let mut files = Vec::new();
            for shape in &self.manifest().shapes {
                for argument in &self.manifest().arguments {
                    if let ArgumentKind::Buffer { fill, .. } = &argument.kind
                        && let Ok(Fill::File { path }) = self.resolved_fill(argument, fill, shape)
                        && !files.contains(&path)
                    {
                        files.push(path);
                    }
                }
            }
            files
        })
    }

    /// Inputs and expected outputs that come from files.
    pub fn data_files(&self) -> Vec<String> {
        let mut files = Vec::new();
        for shape in &self.manifest().shapes {
            for argument in &self.manifest().arguments {
                files.extend(self.reference_array(shape, &argument.name).ok().flatten());
                if let ArgumentKind::Buffer { fill, .. } = &argument.kind
                    && let Ok(Fill::File { path }) = self.resolved_fill(argument, fill, shape)
                {
                    files.push(path);
                }
            }
        }
        files
    }
}

impl From<Build> for Source {
    fn from(build: Build) -> Source {
        Source::Build(Box::new(build))
    }
}

fn python_baseline(path: &Path, function: &PythonFunction) -> Source {
    Source::Ready(Program {
        worker: WorkerKind::Python(Mode::Baseline),
        image: path.display().to_string(),
        symbol: function.function.clone(),
    })
}

fn label(function: &PythonFunction) -> String {
    format!("{}:{}", function.source.value, function.function)
}

impl Compiler {
    /// Asks the compiler for its version; an absent one is the machine's problem.
    pub fn find() -> Result<Compiler, Failure> {
        let command = settings::c_compiler();
        let missing = |why: String| {
            Failure::machine(format!("no C compiler: `{}` {why}", command.join(" ")))
                .hint("install one (Debian: `apt install gcc`), or set KILN_CC")
        };
        let ask = || {
            let mut asked = Command::new(&command[0]);
            asked
                .args(&command[1..])
                .arg("--version")
                .env("LC_ALL", "C");
            child::output(&mut asked, Some(PATIENCE))
                .map_err(|e| missing(format!("cannot be run: {e}")))
        };
        let mut output = ask()?;
        for _ in 0..OUTSIDE_KILLS_FORGIVEN {
            if output.status.and_then(|s| s.signal()) == Some(9) {
                output = ask()?;
            }
        }
        if interrupt::asked() {
            return Err(interrupted());
        }
        match output.status {
            Some(status) if status.success() => {}
            Some(status) => return Err(missing(format!("fails with {status}"))),
            None => return Err(missing("does not say its version".into())),
        }
        let version = output.stdout.lines().next().unwrap_or_default().to_string();
        let environment: Vec<String> = SEARCH_VARIABLES
            .iter()
            .filter_map(|name| Some(format!("{name}={}", std::env::var(name).ok()?)))
            .collect();
        let words = [
            command.join(" "),
            version,
            processor_features(),
            environment.join(" "),
        ];
        Ok(Compiler {
            identity: words.join(" | ").trim_end_matches([' ', '|']).to_string(),
            command,
        })
    }
}

/// For a compiler to say its version.
const PATIENCE: Duration = Duration::from_secs(60);

/// Variables that change which headers, libraries and passes a compiler finds.
const SEARCH_VARIABLES: [&str; 6] = [
    "CPATH",
    "C_INCLUDE_PATH",
    "LIBRARY_PATH",
    "COMPILER_PATH",
    "GCC_EXEC_PREFIX",
    "SOURCE_DATE_EPOCH",
];

/// A flag that names a file (an archive, an object, `@options`) brings its contents along.
fn named_file_hash(flag: &str) -> Option<String> {
    let name = flag.rsplit(['=', ',', '@']).next()?;
    let contents = fs::read(name).ok()?;
    Some(blake3::hash(&contents).to_hex().to_string())
}

/// Hash of the processor's model and features: what `native` means here.
fn processor_features() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let relevant: Vec<&str> = text
        .split("\n\n")
        .next()
        .unwrap_or_default()
        .lines()
        .filter(|l| {
            l.starts_with("model name") || l.starts_with("flags") || l.starts_with("Features")
        })
        .collect();
    blake3::hash(relevant.join("\n").as_bytes()).to_hex()[..16].to_string()
}
