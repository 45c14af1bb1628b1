//! Times that no honest kernel has.

use kiln_core::trial::Fault;

/// Single launches that find the right outputs of the last one against those that do not: with the
/// caches flushed nothing else differs.
pub(super) fn skips_work(poisoned_ns: f64, kept_ns: f64) -> Option<Fault> {
    /// Below this a difference is noise, above it no honest kernel comes by one.
    const SUSPICIOUS: f64 = 1.3;
    const SUSPICIOUS_NS: f64 = 1e3;
    (poisoned_ns > SUSPICIOUS * kept_ns + SUSPICIOUS_NS).then_some(Fault::WorkSkipped {
        poisoned_ns,
        kept_ns,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_that_is_faster_on_its_own_answers_skips_work() {
        let is_caught = |poisoned, kept| skips_work(poisoned, kept).is_some();
        assert!(is_caught(14_001.0, 10_000.0));
        assert!(!is_caught(14_000.0, 10_000.0));
        assert!(!is_caught(9_000.0, 10_000.0));
        // A microsecond is noise, whatever part it is.
        assert!(!is_caught(1_200.0, 200.0));
        assert!(is_caught(1_300.0, 200.0));
    }
}
