//! Where baseline and winner stand between the device's ceilings.

use kiln_core::roofline::{Floor, Peaks, Work};
use kiln_core::study::Study;
use serde_json::{Value, json};

pub struct Roofline {
    pub peaks: Peaks,
    pub flops: f64,
    pub bytes: f64,
    pub floor: Option<Floor>,
    pub baseline_ns: Option<f64>,
    pub winner_ns: Option<f64>,
    /// The fastest of the search, where nothing is confirmed.
    pub best_ns: Option<f64>,
}

/// Why there is no roofline, in a sentence.
pub struct Missing(pub String);

pub fn of(study: &Study) -> Result<Roofline, Missing> {
    let missing = |why: &str| Err(Missing(why.into()));
    let header = &study.header;
    let (flops, bytes) = match (header.flops, header.bytes) {
        (Some(flops), Some(bytes)) if flops > 0.0 && bytes > 0.0 => (flops, bytes),
        (Some(_), None) => {
            return missing("No roofline: the manifest's `[work]` has no `bytes`.");
        }
        (None, Some(_)) => {
            return missing("No roofline: the manifest's `[work]` has no `flops`.");
        }
        _ => {
            return missing(
                "No roofline: the manifest has no `[work]`. With `flops` and `bytes` of one launch there, this place \
                 shows how far baseline and winner are from what the device can do.",
            );
        }
    };
    let manifest = study.own_manifest().ok();
    let has_bytes = manifest.as_ref().is_some_and(|m| {
        let mut sizes = m.arguments.iter().map(|a| a.dtype.size_bytes());
        sizes.any(|size| size == 1)
    });
    let Some(peaks) = Peaks::of_device(&header.device, has_bytes) else {
        return missing(
            "No roofline: what this device can do at the most is not known to kiln. It knows the ceilings of NVIDIA GPUs; \
             a CPU does not say its own.",
        );
    };
    let work = Work {
        flops: Some(flops),
        bytes: Some(bytes),
    };
    let caches = manifest.map(|m| m.measure.caches).unwrap_or_default();
    let comparison = study.winner().map(|w| &w.comparison);
    Ok(Roofline {
        peaks,
        flops,
        bytes,
        floor: peaks.floor_ns(work, caches).filter(|(ns, _)| *ns > 0.0),
        baseline_ns: comparison.map(|c| c.baseline_ns).or(study.baseline_ns()),
        winner_ns: comparison.map(|c| c.candidate_ns),
        best_ns: study.best().map(|(_, ns)| ns),
    })
}

impl Roofline {
    /// The winner, or the best of a search that is not finished.
    pub fn found(&self) -> Option<(&'static str, f64)> {
        let winner = self.winner_ns.map(|ns| ("winner", ns));
        winner.or(self.best_ns.map(|ns| ("best so far", ns)))
    }

    pub fn document(&self) -> Value {
        let mut points = Vec::new();
        let baseline = self.baseline_ns.map(|ns| ("baseline", ns));
        let floor = self.floor.map(|(ns, _)| ("floor", ns));
        for (name, ns) in baseline.into_iter().chain(self.found()).chain(floor) {
            points.push(json!({"name": name, "ns": ns, "flops_per_second": self.flops / ns * 1e9}));
        }
        json!({
            "peak_flops": self.peaks.flops_per_second,
            "peak_bytes": self.peaks.bytes_per_second,
            "intensity": self.flops / self.bytes,
            "points": points,
        })
    }
}
