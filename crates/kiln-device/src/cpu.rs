//! The CPU backend: a kernel is a function in a shared library, called in this process.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::time::{Duration, Instant};

use kiln_core::protocol::{Caches, Cores, DeviceInfo, Problem, Refusal, RunUp, SamplePlan};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

use crate::backend::{Backend, Samples};

mod code;
mod environment;
mod fault;
mod guarded;
mod launches;
mod leftovers;
mod plain;
mod set;

pub use plain::plain_trial;

use set::{Set, Storage, bytes_of};

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

    /// Launches on other inputs (or these), and then at once one on these.
    fn sample_behind(&mut self, plan: &SamplePlan, run_up: RunUp) -> Result<Samples, Refusal> {
        const JUST_BEFORE: u32 = 4;
        let (entry, set) = self.ready(plan.cores)?;
        if let RunUp::Nudged(nudge) = run_up {
            set.make_room_for_snapshot();
            set.is_caught = false;
            let lead = Duration::from_nanos(plan.warm_nanos);
            return set.sample_nudged(entry, lead, JUST_BEFORE, nudge);
        }
        if run_up == RunUp::OnOriginals {
            self.move_to_the_other_place()?;
        }
        let Some((set, others)) = self.sets.split_first_mut() else {
            return Err(bad_task("nothing is prepared".into()));
        };
        set.make_room_for_snapshot();
        set.is_caught = false;
        let mut other = match run_up {
            RunUp::OnOthers(_) | RunUp::OnOriginals => others.first_mut(),
            RunUp::OnTheSame(_) | RunUp::Nudged(_) => None,
        };
        let started = Instant::now();
        while started.elapsed() < Duration::from_nanos(plan.warm_nanos) {
            match &mut other {
                Some(other) => other.run_burst(entry, JUST_BEFORE),
                None => set.run_burst(entry, JUST_BEFORE),
            };
        }
        // Their being new is to be all the difference.
        set.touch();
        // Not between the launches, where a kernel could notice.
        let interrupted = environment::interruptions();
        let nanos = vec![set.run_right_behind(other, entry, JUST_BEFORE)];
        let interruptions = environment::interruptions().saturating_sub(interrupted);
        if !set.is_caught {
            set.take_snapshot();
        }
        Ok(Samples {
            nanos,
            conditions: None,
            interruptions,
        })
    }

    /// Buffers for a problem: those of the one that has waited longest, or new ones. New inputs are then in no newer memory
    /// than known ones: where they were, an honest kernel took 1.5 times as long on them in one run of three on an Intel server.
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

fn bad_task(message: String) -> Refusal {
    Refusal::BadTask { message }
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
        set.surround(poison)?;
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
        let interrupted = environment::interruptions();
        let nanos = (0..plan.bursts)
            .map(|_| {
                if plan.caches == Caches::Cold {
                    environment::empty_caches();
                }
                set.run_burst(entry, plan.launches)
            })
            .collect();
        let interruptions = environment::interruptions().saturating_sub(interrupted);
        if !set.is_caught {
            set.take_snapshot();
        }
        Ok(Samples {
            nanos,
            conditions: None,
            interruptions,
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

#[cfg(test)]
mod tests;
