//! Several candidates at a time, where their times do not matter.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::cli::Backend;
use crate::engine::{interrupt, interrupted};
use crate::exit::Failure;

/// A GPU serves processes by turns, so that every launch of many waits for all others: on an H200 eight honest
/// candidates side by side took longer than one after another. A few hide that processes take long to start and to end.
const ON_A_GPU: usize = 3;

/// How many candidates run at a time unless the user says so. On a CPU one has the cores for itself.
pub fn width(backend: Backend, asked: Option<usize>) -> usize {
    match (backend, asked) {
        (_, Some(asked)) => asked,
        (Backend::Cpu, None) => 1,
        (Backend::Cuda, None) => ON_A_GPU,
    }
}

/// Refusals that rest on a clock: in company they are to be seen again, alone.
pub fn rests_on_a_clock(reason: &str) -> bool {
    ["inputs_remembered", "work_skipped"].contains(&reason)
}

/// Hands every item to `act`, on as many threads as `width`, and returns what came of each in their
/// order. `open` makes what one thread needs; it is dropped there, for workers end with the thread that
/// started them. The first failure ends everything.
pub fn each<T: Sync, S, R: Send>(
    items: &[T],
    width: usize,
    open: impl Fn() -> Result<S, Failure> + Sync,
    act: impl Fn(&mut S, usize, &T) -> Result<R, Failure> + Sync,
) -> Result<Vec<R>, Failure> {
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<Option<R>>> = Mutex::new(items.iter().map(|_| None).collect());
    let failed: Mutex<Option<Failure>> = Mutex::new(None);
    let fail = |failure: Failure| {
        next.store(items.len(), Ordering::Relaxed);
        failed
            .lock()
            .expect("no holder panics")
            .get_or_insert(failure);
    };
    let serve = || {
        let mut state = None;
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(place) else {
                return Ok(());
            };
            if interrupt::asked() {
                return Err(interrupted());
            }
            let state = match &mut state {
                Some(state) => state,
                // Not before there is something to do.
                none => none.insert(open()?),
            };
            let result = act(state, place, item)?;
            done.lock().expect("no holder panics")[place] = Some(result);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..width.min(items.len()) {
            scope.spawn(|| serve().unwrap_or_else(&fail));
        }
    });
    match failed.into_inner().expect("no holder panics") {
        Some(failure) => Err(failure),
        None => {
            let done = done.into_inner().expect("no holder panics");
            Ok(done.into_iter().flatten().collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_done_once_and_in_order() {
        let items: Vec<usize> = (0..100).collect();
        let opened = AtomicUsize::new(0);
        let open = || Ok(opened.fetch_add(1, Ordering::Relaxed));
        let done = each(&items, 4, open, |_, place, item| Ok((place, item * 2)));
        let expected: Vec<_> = items.iter().map(|i| (*i, i * 2)).collect();
        assert_eq!(done.expect("nothing fails"), expected);
        assert!(opened.into_inner() <= 4);
    }

    #[test]
    fn the_first_failure_ends_it() {
        let tried = AtomicUsize::new(0);
        let act = |(): &mut (), _, item: &usize| {
            tried.fetch_add(1, Ordering::Relaxed);
            match item {
                3 => Err(Failure::machine("no more")),
                _ => Ok(()),
            }
        };
        let items: Vec<usize> = (0..1000).collect();
        let failure = each(&items, 1, || Ok(()), act).expect_err("item 3 fails");
        assert_eq!(failure.message, "no more");
        assert_eq!(tried.into_inner(), 4);
        assert!(each(&[] as &[usize], 4, || Ok(()), |_, _, _| Ok(())).is_ok());
    }
}
