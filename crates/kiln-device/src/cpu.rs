//! The CPU backend: a kernel is a function in a shared library, called in this process.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::time::{Duration, Instant};

use kiln_core::input;
use kiln_core::manifest::Role;
use kiln_core::protocol::{
    ArgumentSpec, Caches, Cores, DeviceInfo, Nudge, Problem, Refusal, RunUp, SamplePlan,
};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

use crate::backend::{Backend, Samples};
use crate::contents;

mod code;
mod environment;
mod fault;
mod guarded;
mod leftovers;
mod plain;

pub use plain::plain_trial;

use guarded::{Access, GuardedBuffer};

/// The generated wrapper every image exports: takes one pointer per argument.
type Entry = unsafe extern "C" fn(*const *mut c_void);

/// Where a build that is only checked reads what garbage its threads start on.
const GARBAGE_SYMBOL: &str = "kiln_garbage_seed";

struct Image {
    entry: Entry,
    garbage_seed: Option<NonNull<u64>>,
    /// Kept so the code stays mapped.
    _library: Library,
}

impl Image {
    fn open(image: &str, symbol: &str) -> Result<Image, Refusal> {
        let not_loadable = |e: libloading::Error| {
            // The loader's own words are in the error's cause.
            let cause = std::error::Error::source(&e).map(ToString::to_string);
            Refusal::NotLoadable {
                message: cause.unwrap_or_else(|| e.to_string()),
            }
        };
        // SAFETY: loading runs the image's constructors, which are the candidate's own code; this
        // process exists to contain what they may do.
        let library =
            unsafe { Library::open(Some(image), RTLD_NOW | RTLD_LOCAL) }.map_err(not_loadable)?;
        // SAFETY: the wrapper that kiln generates gives this symbol exactly the type `Entry`.
        let entry = *unsafe { library.get::<Entry>(symbol) }.map_err(not_loadable)?;
        // SAFETY: kiln's own text defines it as a `uint64_t`. A candidate that defines it as something else has its own
        // memory overwritten, in its own process.
        let seed = unsafe { library.get::<*mut u64>(GARBAGE_SYMBOL) };
        let garbage_seed = seed.ok().and_then(|seed| NonNull::new(*seed));
        Ok(Image {
            entry,
            garbage_seed,
            _library: library,
        })
    }
}

enum Storage {
    Scalar([u8; 8]),
    Buffer {
        memory: GuardedBuffer,
        role: Role,
        element_bytes: usize,
        /// Contents to restore before a launch, for inout buffers.
        original: Vec<u8>,
    },
}

/// An element of an input and a value for it.
struct Element {
    place: *mut u8,
    bytes: Vec<u8>,
}

impl Element {
    fn write(&self) {
        // SAFETY: made by `Set::nudged_elements` of a live buffer that is writable until its inputs are protected again.
        unsafe { std::ptr::copy_nonoverlapping(self.bytes.as_ptr(), self.place, self.bytes.len()) };
    }
}

/// The buffers and scalars of one problem.
struct Set {
    problem: Problem,
    storage: Vec<Storage>,
    has_inout: bool,
    /// All outputs as they were the moment the last launch returned. Work that a candidate
    /// finishes behind the clock comes too late for it.
    snapshot: Vec<u8>,
    /// A timed launch returned before its work was done; the snapshot shows it.
    is_caught: bool,
}

/// Problems whose buffers are kept, so that timed launches can change between inputs at different
/// addresses.
const KEPT_SETS: usize = 2;
/// Buffers of more bytes than this are not kept beside those in use.
const KEPT_BYTES: u64 = 1 << 30;

#[derive(Default)]
pub struct CpuBackend {
    image: Option<Image>,
    /// The current one first.
    sets: Vec<Set>,
    /// Decides what outputs held, and memory that nobody has written.
    poison: u64,
}

impl CpuBackend {
    pub fn new() -> CpuBackend {
        CpuBackend::default()
    }

    /// Code and data of a launch, on the right cores.
    fn ready(&mut self, cores: Cores) -> Result<(Entry, &mut Set), Refusal> {
        environment::pin(cores);
        match (&self.image, self.sets.first_mut()) {
            (Some(image), Some(set)) => Ok((image.entry, set)),
            _ => Err(bad_task("nothing is loaded and prepared".into())),
        }
    }
}

impl CpuBackend {
    /// Launches on other inputs (or these), and then at once one on these.
    fn sample_behind(&mut self, plan: &SamplePlan, run_up: RunUp) -> Result<Samples, Refusal> {
        const JUST_BEFORE: u32 = 4;
        let (entry, set) = self.ready(plan.cores)?;
        if let Some(nudge) = run_up.nudge {
            set.make_room_for_snapshot();
            set.is_caught = false;
            let lead = Duration::from_nanos(plan.warm_nanos);
            return set.sample_nudged(entry, lead, JUST_BEFORE, nudge);
        }
        if run_up.on_a_copy {
            self.move_to_the_other_place()?;
        }
        let Some((set, others)) = self.sets.split_first_mut() else {
            return Err(bad_task("nothing is prepared".into()));
        };
        set.make_room_for_snapshot();
        set.is_caught = false;
        let mut other = others.first_mut().filter(|_| run_up.on_others);
        let started = Instant::now();
        while started.elapsed() < Duration::from_nanos(plan.warm_nanos) {
            match &mut other {
                Some(other) => other.run_burst(entry, JUST_BEFORE),
                None => set.run_burst(entry, JUST_BEFORE),
            };
        }
        // Their being new is to be all the difference.
        set.touch();
        let nanos = vec![set.run_right_behind(other, entry, JUST_BEFORE)];
        if !set.is_caught {
            set.take_snapshot();
        }
        Ok(Samples {
            nanos,
            conditions: None,
        })
    }
}

impl CpuBackend {
    /// Buffers for a problem: those of the one that has waited longest, or new ones. Memory that was never used before is
    /// slower than the rest for a while, on some machines by half, whatever is in it.
    fn place_for(&mut self, problem: &Problem) -> Result<Set, Refusal> {
        let spare = match self.sets.len() < KEPT_SETS {
            true => None,
            false => self.sets.pop(),
        };
        // Large buffers go first: two problems need not fit side by side.
        let bytes: u64 = self.sets.iter().map(Set::bytes).sum();
        if bytes.saturating_add(bytes_of(problem)) > KEPT_BYTES {
            self.sets.clear();
        }
        match spare {
            Some(mut set) if set.problem.arguments == problem.arguments => {
                set.refill(problem)?;
                Ok(set)
            }
            spare => {
                drop(spare);
                Set::new(problem)
            }
        }
    }

    /// Brings the current inputs to where new ones would come, and as late. The originals wait behind them.
    fn move_to_the_other_place(&mut self) -> Result<(), Refusal> {
        let Some(current) = self.sets.first() else {
            return Err(bad_task("nothing is prepared".into()));
        };
        let problem = current.problem.clone();
        let are_there = self.sets.iter().skip(1).any(|set| set.problem == problem);
        let mut moved = match are_there {
            true => {
                let mut moved = self.sets.remove(0);
                moved.refill(&problem)?;
                moved
            }
            false => self.place_for(&problem)?,
        };
        moved.poison(self.poison);
        fault::forget_regions();
        moved.watch();
        self.sets.insert(0, moved);
        Ok(())
    }
}

/// Something that differs from burst to burst.
fn clock() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |d| d.as_nanos() as u64)
}

fn bad_task(message: String) -> Refusal {
    Refusal::BadTask { message }
}

fn bytes_of(problem: &Problem) -> u64 {
    let sizes = problem.arguments.iter().filter_map(ArgumentSpec::bytes);
    sizes.fold(0, u64::saturating_add)
}

impl Set {
    fn new(problem: &Problem) -> Result<Set, Refusal> {
        let mut storage = Vec::with_capacity(problem.arguments.len());
        for (index, spec) in problem.arguments.iter().enumerate() {
            storage.push(make_storage(problem, index, spec)?);
        }
        let has_inout = storage.iter().any(|s| {
            matches!(
                s,
                Storage::Buffer {
                    role: Role::InOut,
                    ..
                }
            )
        });
        Ok(Set {
            problem: problem.clone(),
            storage,
            has_inout,
            snapshot: Vec::new(),
            is_caught: false,
        })
    }

    fn bytes(&self) -> u64 {
        bytes_of(&self.problem)
    }

    /// Takes over the inputs of a problem with the same arguments.
    fn refill(&mut self, problem: &Problem) -> Result<(), Refusal> {
        self.protect_inputs(Access::ReadWrite)?;
        for (index, spec) in problem.arguments.iter().enumerate() {
            let Storage::Buffer {
                memory,
                role: role @ (Role::Input | Role::InOut),
                original,
                ..
            } = &mut self.storage[index]
            else {
                continue;
            };
            let seen = contents::of_buffer(problem, index, spec)?;
            memory.bytes_mut().copy_from_slice(&seen);
            if *role == Role::InOut {
                *original = seen;
            }
        }
        self.protect_inputs(Access::ReadOnly)?;
        self.problem = problem.clone();
        Ok(())
    }

    /// Tells the fault handler where these buffers are.
    fn watch(&self) {
        for (index, storage) in self.storage.iter().enumerate() {
            if let Storage::Buffer { memory, role, .. } = storage {
                fault::watch_region(index, memory, *role == Role::Input);
            }
        }
    }

    fn pointers(&mut self) -> Vec<*mut c_void> {
        self.storage
            .iter_mut()
            .map(|s| match s {
                Storage::Scalar(bytes) => bytes.as_mut_ptr().cast(),
                Storage::Buffer { memory, .. } => memory.as_mut_ptr().cast(),
            })
            .collect()
    }

    fn restore_inout(&mut self) {
        for storage in &mut self.storage {
            if let Storage::Buffer {
                memory,
                role: Role::InOut,
                original,
                ..
            } = storage
            {
                memory.bytes_mut().copy_from_slice(original);
            }
        }
    }

    /// Nanoseconds of a burst of launches on these buffers.
    ///
    /// Before each launch one element of each output is spoilt, so that a kernel that skips work
    /// because its answer is still there from the launch before leaves the wrong one behind.
    fn run_burst(&mut self, entry: Entry, launches: u32) -> u64 {
        let pointers = self.pointers();
        // SAFETY: as in `CpuBackend::launch`.
        let launch = || unsafe { entry(pointers.as_ptr()) };
        let pages = self.output_pages();
        let look = || {
            for page in &pages {
                // SAFETY: each is a byte of a live buffer of this set.
                unsafe { std::ptr::read_volatile(*page) };
            }
        };
        if self.has_inout {
            // Each launch needs its input back, outside the clock.
            let mut total = 0;
            for _ in 0..launches {
                self.restore_inout();
                let start = Instant::now();
                launch();
                look();
                total += start.elapsed().as_nanos() as u64;
            }
            return total;
        }
        let spots = self.spots();
        let mut next = spots.iter().cycle();
        let start = Instant::now();
        for done in 0..launches {
            let Some(spot) = next.next() else {
                launch();
                continue;
            };
            // SAFETY: every spot is one byte of a live output buffer of this set.
            let spoilt = unsafe {
                **spot = !**spot;
                **spot
            };
            launch();
            // From the second launch on the byte was right before it was spoilt, so a launch that
            // did its work has changed it back by the time it returns.
            // SAFETY: as above; read as it is, whoever may be writing.
            if done > 0 && unsafe { std::ptr::read_volatile(*spot) } == spoilt {
                self.take_snapshot();
                self.is_caught = true;
                break;
            }
        }
        look();
        start.elapsed().as_nanos() as u64
    }

    /// Nanoseconds of one launch, behind some on the buffers of another set or on these. What it takes is made ready
    /// before: a kernel that keeps answers while launches follow each other closely must not be given a moment to notice.
    fn run_right_behind(&mut self, other: Option<&mut Set>, entry: Entry, launches: u32) -> u64 {
        if self.has_inout {
            // Each launch needs its input back, which takes time.
            match other {
                Some(other) => other.run_burst(entry, launches),
                None => self.run_burst(entry, launches),
            };
            return self.run_burst(entry, 1);
        }
        let mine = self.pointers();
        let ahead = other.map_or_else(|| mine.clone(), Set::pointers);
        let pages = self.output_pages();
        for _ in 0..launches {
            // SAFETY: as in `CpuBackend::launch`.
            unsafe { entry(ahead.as_ptr()) };
        }
        let start = Instant::now();
        // SAFETY: as in `CpuBackend::launch`.
        unsafe { entry(mine.as_ptr()) };
        for page in &pages {
            // SAFETY: each is a byte of a live buffer of this set.
            unsafe { std::ptr::read_volatile(*page) };
        }
        start.elapsed().as_nanos() as u64
    }

    /// One launch right behind others, with nothing in between but that some elements of the inputs are written.
    fn sample_nudged(
        &mut self,
        entry: Entry,
        lead: Duration,
        just_before: u32,
        nudge: Nudge,
    ) -> Result<Samples, Refusal> {
        self.protect_inputs(Access::ReadWrite)?;
        let started = Instant::now();
        while started.elapsed() < lead {
            self.run_burst(entry, just_before);
        }
        let (written, before) = self.nudged_elements(nudge);
        let spoilt = self.spots().first().copied();
        let (pointers, pages) = (self.pointers(), self.output_pages());
        for _ in 0..just_before {
            // SAFETY: as in `CpuBackend::launch`.
            unsafe { entry(pointers.as_ptr()) };
        }
        for element in &written {
            element.write();
        }
        if let Some(spot) = spoilt {
            // SAFETY: a byte of a live output buffer of this set. A kernel that skips its work leaves it wrong.
            unsafe { *spot = !*spot };
        }
        let start = Instant::now();
        // SAFETY: as in `CpuBackend::launch`.
        unsafe { entry(pointers.as_ptr()) };
        for page in &pages {
            // SAFETY: each is a byte of a live buffer of this set.
            unsafe { std::ptr::read_volatile(*page) };
        }
        let nanos = start.elapsed().as_nanos() as u64;
        if !self.is_caught {
            self.take_snapshot();
        }
        for element in &before {
            element.write();
        }
        self.protect_inputs(Access::ReadOnly)?;
        Ok(Samples {
            nanos: vec![nanos],
            conditions: None,
        })
    }

    fn protect_inputs(&mut self, access: Access) -> Result<(), Refusal> {
        for storage in &mut self.storage {
            if let Storage::Buffer {
                memory,
                role: Role::Input,
                ..
            } = storage
            {
                let refused = |_| bad_task("access to the inputs' memory cannot be changed".into());
                memory.protect(access).map_err(refused)?;
            }
        }
        Ok(())
    }

    /// What to write before the timed launch, and afterwards.
    fn nudged_elements(&mut self, nudge: Nudge) -> (Vec<Element>, Vec<Element>) {
        let (mut now, mut before) = (Vec::new(), Vec::new());
        for (index, spec) in self.problem.arguments.iter().enumerate() {
            let Storage::Buffer {
                memory,
                role: Role::Input,
                element_bytes,
                ..
            } = &mut self.storage[index]
            else {
                continue;
            };
            if !spec.is_nudged() {
                continue;
            }
            let size = *element_bytes;
            let start = memory.as_mut_ptr();
            let contents = memory.bytes();
            let value = |at: usize| contents[at * size..][..size].to_vec();
            for (which, whose) in input::nudges(nudge.seed, index, contents.len() / size) {
                // SAFETY: an element of this buffer.
                let place = unsafe { start.add(which * size) };
                let bytes = value(if nudge.changes { whose } else { which });
                now.push(Element { place, bytes });
                before.push(Element {
                    place,
                    bytes: value(which),
                });
            }
        }
        (now, before)
    }

    /// The most significant bytes of elements spread over all outputs, in an order a kernel cannot
    /// foresee: changing one changes the value beyond any tolerance.
    fn spots(&mut self) -> Vec<*mut u8> {
        const SPOTS: u64 = 61;
        let draw = input::mix(&[self.snapshot.len() as u64, clock()]);
        let mut spots = Vec::new();
        for (index, storage) in self.storage.iter_mut().enumerate() {
            let Storage::Buffer {
                memory,
                role: Role::Output,
                element_bytes,
                ..
            } = storage
            else {
                continue;
            };
            let bytes = memory.bytes_mut();
            let elements = (bytes.len() / *element_bytes) as u64;
            for spot in 0..SPOTS.min(elements) {
                let element = (input::mix(&[draw, index as u64, spot]) % elements) as usize;
                spots.push(&raw mut bytes[(element + 1) * *element_bytes - 1]);
            }
        }
        // Outputs take turns.
        spots.sort_by_key(|spot| input::mix(&[draw, *spot as u64]));
        spots
    }

    /// One byte of every page of every output. A kernel that makes its outputs unreadable to do
    /// the work when somebody looks has to do it while the clock runs.
    fn output_pages(&self) -> Vec<*const u8> {
        const PAGE: usize = 4096;
        self.results()
            .flat_map(|result| result.iter().step_by(PAGE))
            .map(std::ptr::from_ref)
            .collect()
    }

    /// Done before the launch: growing a vector takes time the candidate could use.
    fn make_room_for_snapshot(&mut self) {
        let bytes = self.results().map(<[u8]>::len).sum();
        let mut snapshot = std::mem::take(&mut self.snapshot);
        snapshot.clear();
        // Written, not only reserved: fresh pages would fault in while the snapshot is taken.
        snapshot.resize(bytes, 0);
        self.snapshot = snapshot;
    }

    fn take_snapshot(&mut self) {
        let mut snapshot = std::mem::take(&mut self.snapshot);
        let mut at = 0;
        for result in self.results() {
            snapshot[at..at + result.len()].copy_from_slice(result);
            at += result.len();
        }
        self.snapshot = snapshot;
    }

    fn results(&self) -> impl Iterator<Item = &[u8]> {
        self.storage.iter().filter_map(|storage| match storage {
            Storage::Buffer {
                memory,
                role: Role::Output | Role::InOut,
                ..
            } => Some(memory.bytes()),
            _ => None,
        })
    }

    /// Reads all of it, so that it is in the caches as far as it fits.
    fn touch(&self) {
        const CACHE_LINE: usize = 64;
        for storage in &self.storage {
            if let Storage::Buffer { memory, .. } = storage {
                for byte in memory.bytes().iter().step_by(CACHE_LINE) {
                    std::hint::black_box(*byte);
                }
            }
        }
    }

    fn poison(&mut self, seed: u64) {
        for (index, storage) in self.storage.iter_mut().enumerate() {
            let Storage::Buffer { memory, role, .. } = storage else {
                continue;
            };
            match role {
                Role::Output | Role::Scratch => {
                    let bytes = memory.bytes_mut();
                    let pattern = input::poison(input::mix(&[seed, index as u64]), bytes.len());
                    bytes.copy_from_slice(&pattern);
                }
                Role::Zeroed => memory.bytes_mut().fill(0),
                Role::Input | Role::InOut => {}
            }
        }
        self.restore_inout();
    }
}

impl Backend for CpuBackend {
    fn device(&self) -> DeviceInfo {
        environment::device_info()
    }

    fn load(&mut self, image: &str, symbol: &str) -> Result<(), Refusal> {
        let image = Image::open(image, symbol)?;
        fault::watch_code(image.entry as *const () as usize);
        self.image = Some(image);
        Ok(())
    }

    /// Code that ran in this process may have left anything behind, so there is no second image.
    fn unload(&mut self) -> Result<u64, Refusal> {
        Err(bad_task("a CPU worker serves one image".into()))
    }

    fn prepare(&mut self, problem: &Problem) -> Result<(), Refusal> {
        let known = self.sets.iter().position(|set| set.problem == *problem);
        if known == Some(0) {
            return Ok(());
        }
        fault::forget_regions();
        let set = match known {
            Some(place) => self.sets.remove(place),
            None => self.place_for(problem)?,
        };
        set.watch();
        self.sets.insert(0, set);
        Ok(())
    }

    fn poison(&mut self, seed: u64) -> Result<(), Refusal> {
        self.poison = seed;
        if let Some(set) = self.sets.first_mut() {
            set.poison(seed);
        }
        Ok(())
    }

    fn launch(&mut self, cores: Cores) -> Result<(), Refusal> {
        let poison = self.poison;
        if let Some(seed) = self.image.as_ref().and_then(|image| image.garbage_seed) {
            // SAFETY: a variable of the image, which stays mapped, and no thread of it runs between launches that kiln
            // has to mind: what a candidate leaves running is contained by this process.
            unsafe { seed.as_ptr().write_volatile(poison) };
        }
        let (entry, set) = self.ready(cores)?;
        let pointers = set.pointers();
        set.make_room_for_snapshot();
        leftovers::strew(poison);
        // SAFETY: `pointers` holds one valid pointer per argument of the wrapper, and the buffers
        // live until the call returns. What the candidate does beyond that is contained by this
        // process.
        unsafe { entry(pointers.as_ptr()) };
        set.take_snapshot();
        leftovers::tidy();
        Ok(())
    }

    fn sample(&mut self, plan: &SamplePlan) -> Result<Samples, Refusal> {
        if let Some(run_up) = plan.run_up {
            return self.sample_behind(plan, run_up);
        }
        let (entry, set) = self.ready(plan.cores)?;
        set.make_room_for_snapshot();
        set.is_caught = false;
        let started = Instant::now();
        while started.elapsed() < Duration::from_nanos(plan.warm_nanos) {
            set.run_burst(entry, 1);
        }
        let nanos = (0..plan.bursts)
            .map(|_| {
                if plan.caches == Caches::Cold {
                    environment::empty_caches();
                }
                set.run_burst(entry, plan.launches)
            })
            .collect();
        if !set.is_caught {
            set.take_snapshot();
        }
        Ok(Samples {
            nanos,
            conditions: None,
        })
    }

    fn same_as_sent(&mut self) -> Result<bool, Refusal> {
        Ok(false)
    }

    fn inspect(&mut self) -> Result<&[u8], Refusal> {
        let Some(set) = self.sets.first() else {
            return Err(bad_task("nothing is prepared".into()));
        };
        for (index, storage) in set.storage.iter().enumerate() {
            if let Storage::Buffer { memory, .. } = storage
                && let Some(offset) = memory.first_damage()
            {
                return Err(Refusal::GuardZone {
                    argument: index,
                    offset,
                });
            }
        }
        Ok(&set.snapshot)
    }
}

/// Where an instruction of this process lies in its image.
#[cfg(test)]
pub(crate) fn code_offset(instruction: usize) -> Option<u64> {
    let code = code::Code::unknown();
    code.watch(instruction);
    code.offset(instruction)
}

/// Installs the handler that turns a bad address near a buffer into a message.
pub fn install_fault_handler(protocol_fd: i32) -> std::io::Result<()> {
    fault::install(protocol_fd)
}

fn make_storage(problem: &Problem, index: usize, spec: &ArgumentSpec) -> Result<Storage, Refusal> {
    let too_large = |bytes| Refusal::OutOfMemory { bytes };
    match spec {
        // For the kernel on a GPU; its reference in C does not take it.
        ArgumentSpec::Tma { tile, .. } if tile.is_empty() => Ok(Storage::Scalar([0; 8])),
        ArgumentSpec::Tma { name, .. } => Err(bad_task(format!(
            "argument `{name}` is a TMA descriptor, which a CPU does not have"
        ))),
        ArgumentSpec::Scalar { dtype, value, .. } => {
            let bytes = contents::of_scalar(*dtype, value);
            Ok(Storage::Scalar(bytes))
        }
        ArgumentSpec::Buffer { role, seen_as, .. } => {
            let total = spec.bytes().ok_or(too_large(u64::MAX))?;
            let length = usize::try_from(total).map_err(|_| too_large(total))?;
            let guard_seed = contents::stream(problem, index);
            let mut memory =
                GuardedBuffer::new(length, guard_seed).map_err(|_| too_large(total))?;
            let mut original = Vec::new();
            if matches!(role, Role::Input | Role::InOut) {
                let seen = contents::of_buffer(problem, index, spec)?;
                memory.bytes_mut().copy_from_slice(&seen);
                if *role == Role::InOut {
                    original = seen;
                }
            }
            if *role == Role::Input {
                memory
                    .protect(Access::ReadOnly)
                    .map_err(|_| too_large(total))?;
            }
            Ok(Storage::Buffer {
                memory,
                role: *role,
                element_bytes: seen_as.size_bytes(),
                original,
            })
        }
    }
}

#[cfg(test)]
mod tests;
