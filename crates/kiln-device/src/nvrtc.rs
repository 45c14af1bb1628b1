//! NVIDIA's runtime compiler as a toolchain: a library inside the compile worker.
//!
//! Loaded once and kept; a job is compiled to a cubin, which the driver loads without compiling
//! anything itself. A library that crashes takes the worker down, which the supervisor survives.

mod headers;

use std::collections::HashSet;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fs;
use std::path::{Path, PathBuf};
use std::ptr;
use std::time::Instant;

use kiln_core::compiler_flags::{self, Dialect};
use kiln_core::protocol::{CompileJob, Compiled, NvrtcInfo, Tool};
use kiln_core::trial::CompileFailure;
use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_LOCAL, RTLD_NOW};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::backend::Toolchain;
use crate::compiler_process::{
    ADDED_LINES, IMAGE_LIMIT_BYTES, explain_added, failure, first_error, is_added, shorten,
};
use crate::includes::{Reached, Scanner};
use crate::ptxas;
use crate::symbols;
use headers::{Choice, DRIVER};

pub(crate) use headers::Header;

/// Given to every compilation, before the manifest's own flags. Part of the cache key.
pub const FIXED_FLAGS: &[&str] = &["--ptxas-options=-v"];

/// For flags that choose no standard themselves.
pub const DEFAULT_STANDARD: &str = "-std=c++17";

/// Its own cache would hide from kiln how long compiling takes, and fill a second folder.
const NO_CACHE: &str = "--no-cache";

const SUCCESS: c_int = 0;

/// Compiles with the library a job names.
#[derive(Default)]
pub struct Nvrtc {
    loaded: Option<(PathBuf, Api)>,
    scanner: Scanner,
    /// Units that name `CUtensorMap` and declare it nowhere.
    need_tensor_map: HashSet<String>,
}

impl Toolchain for Nvrtc {
    fn compile(&mut self, job: &CompileJob) -> Result<Compiled, CompileFailure> {
        let Tool::Nvrtc {
            library,
            builtins,
            architecture,
            entry,
        } = &job.tool
        else {
            return Err(failure("this toolchain compiles CUDA with NVRTC", ""));
        };
        let started = Instant::now();
        limit_memory(job.memory_limit_bytes);
        let (include_dirs, forced) = include_places(job);
        let choice = Choice::of(source_of(&job.unit), &include_dirs);
        let with_tensor_map = || format!("--pre-include={DRIVER}");
        let is_known = self.need_tensor_map.contains(&job.unit);
        let api = self
            .load(library, builtins.as_deref())
            .map_err(|why| failure(&why, ""))?;
        let mut options = api.options(job, architecture);
        options.extend(is_known.then(with_tensor_map));
        let built = match api.build(job, &choice.headers, &options, entry) {
            // Declared only where it is missing: a source may have a declaration of its own.
            Err(error) if !is_known && choice.has_driver() && lacks_tensor_map(&error) => {
                options.push(with_tensor_map());
                let built = api.build(job, &choice.headers, &options, entry)?;
                self.need_tensor_map.insert(job.unit.clone());
                built
            }
            result => result?,
        };
        fs::write(&job.output, &built.image).map_err(|e| {
            failure(
                &format!("cannot write the image `{}`: {e}", job.output),
                &built.log,
            )
        })?;
        let kernels = ptxas::kernels(&built.log);
        let resources = kernels
            .into_iter()
            .find(|(name, _)| *name == built.symbol)
            .map(|(_, resources)| resources);
        let reached = self.reached(job, &choice, &include_dirs, &forced);
        Ok(Compiled {
            symbol: (built.symbol != *entry).then_some(built.symbol),
            resources,
            log: shorten(&ptxas::without_numbers(&built.log)).to_string(),
            compile_ms: started.elapsed().as_secs_f64() * 1e3,
            dependencies: reached.files,
            absent: reached.absent,
            is_uncacheable: reached.has_computed,
            writable: symbols::writable(&job.output),
        })
    }

    /// NVRTC does not say: what could be read counts.
    fn reads(&mut self, job: &CompileJob) -> Result<Vec<String>, CompileFailure> {
        let (include_dirs, forced) = include_places(job);
        let choice = Choice::of(source_of(&job.unit), &include_dirs);
        Ok(self.reached(job, &choice, &include_dirs, &forced).files)
    }
}

impl Nvrtc {
    /// Version and architectures of a library.
    pub fn info(&mut self, library: &str, builtins: Option<&str>) -> Result<NvrtcInfo, String> {
        let api = self.load(library, builtins)?;
        Ok(NvrtcInfo {
            version: api.version,
            architectures: api.architectures()?,
        })
    }

    fn load(&mut self, library: &str, builtins: Option<&str>) -> Result<&Api, String> {
        let path = Path::new(library);
        if self.loaded.as_ref().is_some_and(|(known, _)| known != path) {
            // Two versions side by side in one process would share their builtins' names.
            return Err(format!(
                "this compile worker has loaded another NVRTC than `{library}`"
            ));
        }
        if self.loaded.is_none() {
            let api = Api::load(path, builtins.map(Path::new))?;
            self.loaded = Some((path.to_path_buf(), api));
        }
        Ok(self.loaded.as_ref().map(|(_, api)| api).expect("just set"))
    }

    fn reached(
        &mut self,
        job: &CompileJob,
        choice: &Choice,
        include_dirs: &[String],
        forced: &[String],
    ) -> Reached {
        // Forced includes are also looked for in the current folder.
        let here = [String::new()].into_iter().filter(|_| !forced.is_empty());
        let dirs: Vec<String> = include_dirs.iter().cloned().chain(here).collect();
        let forced = forced.iter().map(|file| format!("#include \"{file}\"\n"));
        let definitions = compiler_flags::definitions(&job.flags);
        let unit = definitions + &forced.collect::<String>() + &job.unit;
        let mut reached = self.scanner.reachable(&unit, &dirs, &choice.headers);
        let absent = choice.absent.iter();
        let absent = absent.map(|path| path.to_string_lossy().into_owned());
        reached.absent.extend(absent);
        reached.absent.sort();
        reached.absent.dedup();
        reached
    }
}

/// Where names are looked for, and the files that flags include.
fn include_places(job: &CompileJob) -> (Vec<String>, Vec<String>) {
    let dirs = compiler_flags::header_folders(&job.flags, Dialect::Nvrtc);
    let dirs = job.include_dirs.iter().cloned().chain(dirs).collect();
    let forced = compiler_flags::headers(&job.flags, Dialect::Nvrtc);
    (dirs, forced)
}

/// Not known at all, or only declared ahead, as `<cuda/barrier>` does.
fn lacks_tensor_map(error: &CompileFailure) -> bool {
    error.log.lines().any(|line| {
        (line.contains("\"CUtensorMap\"") || line.contains("\"CUtensorMap_st\""))
            && (line.contains("is undefined") || line.contains("incomplete type"))
    })
}

/// A kernel that makes the compiler unroll for ever must not take the machine's memory with it.
/// The time is the supervisor's to watch.
fn limit_memory(bytes: u64) {
    // The soft limit only: a later job may be allowed more. Where the limit cannot be set, the
    // compilation is still worth trying.
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_AS) {
        let _ = setrlimit(Resource::RLIMIT_AS, bytes.min(hard), hard);
    }
}

type Program = *mut c_void;

/// The functions of the library kiln uses, as its header `nvrtc.h` declares them.
struct Api {
    version_of: unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int,
    architecture_count: unsafe extern "C" fn(*mut c_int) -> c_int,
    architecture_list: unsafe extern "C" fn(*mut c_int) -> c_int,
    error_string: unsafe extern "C" fn(c_int) -> *const c_char,
    create: unsafe extern "C" fn(
        *mut Program,
        *const c_char,
        *const c_char,
        c_int,
        *const *const c_char,
        *const *const c_char,
    ) -> c_int,
    destroy: unsafe extern "C" fn(*mut Program) -> c_int,
    add_name: unsafe extern "C" fn(Program, *const c_char) -> c_int,
    compile: unsafe extern "C" fn(Program, c_int, *const *const c_char) -> c_int,
    log_size: unsafe extern "C" fn(Program, *mut usize) -> c_int,
    log: unsafe extern "C" fn(Program, *mut c_char) -> c_int,
    lowered_name: unsafe extern "C" fn(Program, *const c_char, *mut *const c_char) -> c_int,
    image_size: unsafe extern "C" fn(Program, *mut usize) -> c_int,
    image: unsafe extern "C" fn(Program, *mut c_char) -> c_int,
    version: (u32, u32),
    /// Versions before 12.9 or so do not know `--no-cache`, and have no cache.
    knows_no_cache: bool,
    // Never unloaded: NVRTC keeps thread-local state and does not expect to go.
    _library: std::mem::ManuallyDrop<Library>,
    _builtins: Option<std::mem::ManuallyDrop<Library>>,
}

struct Built {
    image: Vec<u8>,
    symbol: String,
    log: String,
}

impl Api {
    fn load(path: &Path, builtins: Option<&Path>) -> Result<Api, String> {
        let library = open(path, RTLD_LOCAL)?;
        macro_rules! symbol {
            ($name:literal) => {{
                // SAFETY: the field's type is the function's declaration in nvrtc.h, which has
                // not changed since the function appeared.
                let found = unsafe { library.get(concat!($name, "\0").as_bytes()) };
                *found.map_err(|e| format!("`{}` is not NVRTC: {e}", path.display()))?
            }};
        }
        let mut api = Api {
            version_of: symbol!("nvrtcVersion"),
            architecture_count: symbol!("nvrtcGetNumSupportedArchs"),
            architecture_list: symbol!("nvrtcGetSupportedArchs"),
            error_string: symbol!("nvrtcGetErrorString"),
            create: symbol!("nvrtcCreateProgram"),
            destroy: symbol!("nvrtcDestroyProgram"),
            add_name: symbol!("nvrtcAddNameExpression"),
            compile: symbol!("nvrtcCompileProgram"),
            log_size: symbol!("nvrtcGetProgramLogSize"),
            log: symbol!("nvrtcGetProgramLog"),
            lowered_name: symbol!("nvrtcGetLoweredName"),
            image_size: symbol!("nvrtcGetCUBINSize"),
            image: symbol!("nvrtcGetCUBIN"),
            version: (0, 0),
            knows_no_cache: false,
            _library: std::mem::ManuallyDrop::new(library),
            _builtins: None,
        };
        let (mut major, mut minor) = (0, 0);
        // SAFETY: two valid places for integers.
        let code = unsafe { (api.version_of)(&mut major, &mut minor) };
        if code != SUCCESS {
            return Err(format!("`{}` does not tell its version", path.display()));
        }
        api.version = (major as u32, minor as u32);
        // The library asks the loader for its builtins by name, which finds them only when they
        // are loaded already or lie on the loader's own path.
        api._builtins = match builtins.map(Path::to_path_buf).or_else(|| api.beside(path)) {
            Some(builtins) => Some(std::mem::ManuallyDrop::new(open(&builtins, RTLD_GLOBAL)?)),
            None => None,
        };
        api.knows_no_cache = api.accepts(NO_CACHE);
        Ok(api)
    }

    fn beside(&self, library: &Path) -> Option<PathBuf> {
        let (major, minor) = self.version;
        let name = format!("libnvrtc-builtins.so.{major}.{minor}");
        let found = library.parent()?.join(name);
        found.is_file().then_some(found)
    }

    fn architectures(&self) -> Result<Vec<u32>, String> {
        let mut count = 0;
        // SAFETY: a valid place for one integer.
        let code = unsafe { (self.architecture_count)(&mut count) };
        let mut list = vec![0; count.max(0) as usize];
        // SAFETY: the library fills as many entries as it just said.
        let second = unsafe { (self.architecture_list)(list.as_mut_ptr()) };
        if code != SUCCESS || second != SUCCESS {
            return Err("NVRTC does not tell its architectures".into());
        }
        Ok(list.into_iter().map(|a| a as u32).collect())
    }

    fn accepts(&self, option: &str) -> bool {
        let Ok(program) = Handle::new(self, "", "kiln.cu", &[]) else {
            return false;
        };
        program.compile(&[option.to_string()]) == SUCCESS
    }

    fn options(&self, job: &CompileJob, architecture: &str) -> Vec<String> {
        let mut options = vec![format!("--gpu-architecture={architecture}")];
        let chooses = |flag: &String| flag.starts_with("-std") || flag.starts_with("--std");
        if !job.flags.iter().any(chooses) {
            options.push(DEFAULT_STANDARD.into());
        }
        if self.knows_no_cache {
            options.push(NO_CACHE.into());
        }
        options.extend(FIXED_FLAGS.iter().map(|flag| flag.to_string()));
        options.extend(job.include_dirs.iter().map(|dir| format!("-I{dir}")));
        let defines = job.defines.iter();
        options.extend(defines.map(|(name, value)| format!("-D{name}={value}")));
        options.extend(job.flags.iter().cloned());
        options
    }

    fn build(
        &self,
        job: &CompileJob,
        headers: &[&Header],
        options: &[String],
        entry: &str,
    ) -> Result<Built, CompileFailure> {
        let program = Handle::new(self, &job.unit, &unit_name(&job.unit), headers)
            .map_err(|why| failure(&why, ""))?;
        let name = CString::new(entry)
            .map_err(|_| failure(&format!("`{entry:?}` is no name of a kernel"), ""))?;
        // SAFETY: a live program that is not compiled yet, and a string that outlives the call.
        let code = unsafe { (self.add_name)(program.program, name.as_ptr()) };
        if code != SUCCESS {
            return Err(failure(&self.describe(code), ""));
        }
        let code = program.compile(options);
        let log = program.log();
        if code != SUCCESS {
            return Err(self.explain(job, headers, options, entry, code, &log));
        }
        let symbol = program
            .lowered_name(&name)
            .map_err(|code| failure(&format!("`{entry}`: {}", self.describe(code)), &log))?;
        let image = program.image();
        if image.is_empty() {
            let why = format!("NVRTC made no machine code for `{}`", options[0]);
            return Err(failure(&why, &log));
        }
        if image.len() as u64 > IMAGE_LIMIT_BYTES {
            let why = format!("the image has {} bytes, over kiln's limit", image.len());
            return Err(failure(&why, &log));
        }
        Ok(Built { image, symbol, log })
    }

    /// A failure with a first error that says what is wrong in the user's terms.
    fn explain(
        &self,
        job: &CompileJob,
        headers: &[&Header],
        options: &[String],
        entry: &str,
        code: c_int,
        log: &str,
    ) -> CompileFailure {
        let mut log = ptxas::without_numbers(log);
        if log.is_empty() {
            // With `-v`, 13.0 loses the message of ptxas about, say, too much shared memory.
            let quiet: Vec<String> = options
                .iter()
                .filter(|option| !FIXED_FLAGS.contains(&option.as_str()))
                .cloned()
                .collect();
            if let Ok(again) = Handle::new(self, &job.unit, &unit_name(&job.unit), headers) {
                again.compile(&quiet);
                log = again.log().trim().to_string();
            }
        }
        let first = match first_error(&log) {
            Some(error) if is_added(error) => explain_added(entry, error, &log),
            Some(error) => error.to_string(),
            None => self.describe(code),
        };
        failure(&first, &log)
    }

    fn describe(&self, code: c_int) -> String {
        // SAFETY: the library returns a constant string for every code.
        let text = unsafe { self.string((self.error_string)(code)) };
        format!("NVRTC failed: {text} ({code})")
    }

    /// # Safety
    /// `text` is null or a C string that is not changed meanwhile.
    unsafe fn string(&self, text: *const c_char) -> String {
        if text.is_null() {
            return String::new();
        }
        // SAFETY: as the caller promises.
        unsafe { CStr::from_ptr(text) }
            .to_string_lossy()
            .into_owned()
    }
}

fn open(path: &Path, scope: i32) -> Result<Library, String> {
    // SAFETY: loading runs the library's initialisers: NVIDIA's code, inside a compile worker.
    unsafe { Library::open(Some(path), RTLD_NOW | scope) }.map_err(|e| {
        // The loader's own words are the cause of the error.
        let why =
            std::error::Error::source(&e).map_or_else(|| e.to_string(), |why| why.to_string());
        format!("cannot load NVRTC from `{}`: {why}", path.display())
    })
}

/// Messages about the user's source name its file by themselves; this name is for the lines kiln
/// adds, which check the file against the manifest.
fn unit_name(unit: &str) -> String {
    match source_of(unit).and_then(Path::file_name) {
        Some(name) => format!("{ADDED_LINES} of {}", name.to_string_lossy()),
        None => "kiln.cu".into(),
    }
}

/// The user's file, which the first line of a unit includes.
fn source_of(unit: &str) -> Option<&Path> {
    let rest = unit.strip_prefix("#include \"")?;
    rest.split('"').next().map(Path::new)
}

/// A program that is destroyed when dropped.
struct Handle<'a> {
    api: &'a Api,
    program: Program,
}

impl<'a> Handle<'a> {
    fn new(
        api: &'a Api,
        unit: &str,
        name: &str,
        headers: &[&Header],
    ) -> Result<Handle<'a>, String> {
        let text =
            |what: &str| CString::new(what).map_err(|_| "the source holds a zero byte".to_string());
        let (unit, name) = (text(unit)?, text(name)?);
        let all = |part: fn(&Header) -> &'static str| {
            let texts = headers.iter().map(|header| text(part(header)));
            texts.collect::<Result<Vec<CString>, String>>()
        };
        let (texts, names) = (all(|header| header.text)?, all(|header| header.name)?);
        let pointers = |list: &[CString]| list.iter().map(|s| s.as_ptr()).collect::<Vec<_>>();
        let (text_pointers, name_pointers) = (pointers(&texts), pointers(&names));
        let mut program = ptr::null_mut();
        // SAFETY: all strings outlive the call, which copies them, and so do the two lists, which
        // are as long as it is told.
        let code = unsafe {
            (api.create)(
                &mut program,
                unit.as_ptr(),
                name.as_ptr(),
                headers.len() as c_int,
                text_pointers.as_ptr(),
                name_pointers.as_ptr(),
            )
        };
        if code != SUCCESS {
            return Err(api.describe(code));
        }
        Ok(Handle { api, program })
    }

    fn compile(&self, options: &[String]) -> c_int {
        let Ok(options) = options
            .iter()
            .map(|option| CString::new(option.as_str()))
            .collect::<Result<Vec<CString>, _>>()
        else {
            // As for any other option that is not one.
            return 5;
        };
        let pointers: Vec<*const c_char> = options.iter().map(|o| o.as_ptr()).collect();
        // SAFETY: a live program; the strings outlive the call, and the count is theirs.
        unsafe { (self.api.compile)(self.program, pointers.len() as c_int, pointers.as_ptr()) }
    }

    fn log(&self) -> String {
        let mut size = 0;
        // SAFETY: a live program and a valid place for the size.
        if unsafe { (self.api.log_size)(self.program, &mut size) } != SUCCESS || size == 0 {
            return String::new();
        }
        let mut bytes = vec![0u8; size];
        // SAFETY: the buffer has the size the library asked for, the final zero included.
        if unsafe { (self.api.log)(self.program, bytes.as_mut_ptr().cast()) } != SUCCESS {
            return String::new();
        }
        let end = bytes.iter().position(|b| *b == 0).unwrap_or(size);
        String::from_utf8_lossy(&bytes[..end]).into_owned()
    }

    fn lowered_name(&self, name: &CStr) -> Result<String, c_int> {
        let mut lowered = ptr::null();
        // SAFETY: a live, compiled program and the very string given before compiling.
        let code = unsafe { (self.api.lowered_name)(self.program, name.as_ptr(), &mut lowered) };
        if code != SUCCESS {
            return Err(code);
        }
        // SAFETY: the string belongs to the program, which lives until after the copy.
        Ok(unsafe { self.api.string(lowered) })
    }

    fn image(&self) -> Vec<u8> {
        let mut size = 0;
        // SAFETY: a live program and a valid place for the size.
        if unsafe { (self.api.image_size)(self.program, &mut size) } != SUCCESS || size == 0 {
            return Vec::new();
        }
        let mut bytes = vec![0u8; size];
        // SAFETY: the buffer has the size the library asked for.
        if unsafe { (self.api.image)(self.program, bytes.as_mut_ptr().cast()) } != SUCCESS {
            return Vec::new();
        }
        bytes
    }
}

impl Drop for Handle<'_> {
    fn drop(&mut self) {
        // SAFETY: the program is live and not used afterwards.
        unsafe { (self.api.destroy)(&mut self.program) };
    }
}

#[cfg(test)]
mod tests;
