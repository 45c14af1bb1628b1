//! Tables of `ncu --csv --page raw`: refused with a message, or read; whatever was counted is judged, and no gain is less than
//! none or beyond all reason.

use kiln_core::bottleneck::{Circumstances, Counters, diagnose, raw_csv};

pub fn check(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let launches = match raw_csv::parse(&text) {
        Ok(launches) => launches,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    assert!(!launches.is_empty());
    let around = Circumstances {
        flops: Some(1e12),
        bytes: Some(1e9),
        ..Circumstances::default()
    };
    for launch in launches.iter().take(100) {
        assert!(launch.metrics.values().all(|value| value.is_finite()));
        let counters = Counters::of(launch);
        let found = diagnose(&counters, &around);
        assert_eq!(found.class, found.cause.class());
        assert!(!found.evidence.is_empty());
        for advice in &found.advice {
            assert!(
                (1.0..=1000.0).contains(&advice.predicted_gain),
                "{advice:?}"
            );
            assert!(
                !advice.evidence.contains("NaN") && !advice.evidence.contains("inf "),
                "{advice:?}"
            );
        }
        let written = serde_json::to_string(&counters).expect("numbers");
        let again: Counters = serde_json::from_str(&written).expect("what was written");
        assert_eq!(again, counters);
    }
}
