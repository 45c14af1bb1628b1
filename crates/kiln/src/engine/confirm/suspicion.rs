//! Times that no honest kernel has.

use kiln_core::trial::Fault;

/// With the caches emptied, inputs a kernel has met are as far away as new ones. One that is far
/// slower on the new ones keeps answers instead of computing them. Launches too short to be timed
/// singly prove nothing, and neither do those that were not measured, which are infinite. A pair is
/// the time on inputs met for the first time, and on known ones.
pub(super) fn remembers_inputs(on_gpu: bool, pairs: [(f64, f64); 2]) -> Option<Fault> {
    const SUSPICIOUS: f64 = 2.5;
    // A GPU's events are finer than a host's clock.
    let shortest_judged_ns = if on_gpu { 5e3 } else { 20e3 };
    pairs.into_iter().find_map(|(fresh_ns, repeated_ns)| {
        let measured = fresh_ns.is_finite() && repeated_ns.is_finite();
        let suspicious = fresh_ns > SUSPICIOUS * repeated_ns && fresh_ns > shortest_judged_ns;
        (measured && suspicious).then_some(Fault::InputsRemembered {
            fresh_ns,
            repeated_ns,
        })
    })
}

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

    const UNKNOWN: (f64, f64) = (f64::INFINITY, f64::INFINITY);

    fn remembered(on_gpu: bool, pairs: [(f64, f64); 2]) -> Option<(f64, f64)> {
        match remembers_inputs(on_gpu, pairs)? {
            Fault::InputsRemembered {
                fresh_ns,
                repeated_ns,
            } => Some((fresh_ns, repeated_ns)),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn far_slower_on_new_inputs_is_suspicious() {
        for (fresh, known, suspicious) in [
            (26e3, 10e3, true),
            (25e3, 10e3, false),
            (24e3, 10e3, false),
            (5e3, 10e3, false),
            (21e3, 1e3, true),
            (20e3, 1e3, false),
            (6e3, 1e3, false),
        ] {
            let pair = (fresh, known);
            let found = suspicious.then_some(pair);
            assert_eq!(remembered(false, [pair, UNKNOWN]), found, "{pair:?}");
            assert_eq!(remembered(false, [UNKNOWN, pair]), found, "{pair:?}");
        }
        // Of a GPU shorter times are believed.
        assert_eq!(remembered(true, [(6e3, 1e3), UNKNOWN]), Some((6e3, 1e3)));
        assert_eq!(remembered(true, [(5e3, 1e3), UNKNOWN]), None);
    }

    #[test]
    fn what_was_not_measured_is_not_suspicious() {
        for pair in [UNKNOWN, (f64::INFINITY, 1e3), (1e9, f64::INFINITY)] {
            assert_eq!(remembered(false, [pair, pair]), None);
        }
    }

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
