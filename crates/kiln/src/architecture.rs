//! Launch limits of CUDA architectures, for gating without a device.

/// From the CUDA programming guide's table of technical specifications per compute capability.
pub struct Limits {
    pub threads_per_block: i64,
    /// Dynamic shared memory a block can opt in to.
    pub shared_bytes_per_block: i64,
    pub grid_y_and_z: i64,
}

const SHARED_KIB: &[(&str, i64)] = &[
    ("sm_70", 96),
    ("sm_75", 64),
    ("sm_80", 163),
    ("sm_86", 99),
    ("sm_87", 163),
    ("sm_89", 99),
    ("sm_90", 227),
    ("sm_90a", 227),
    ("sm_100", 227),
    ("sm_103", 227),
    ("sm_120", 99),
];

pub fn known() -> Vec<&'static str> {
    SHARED_KIB.iter().map(|(name, _)| *name).collect()
}

/// Limits of an architecture; of `sm_80` for a name that is not in the table.
pub fn limits_of(architecture: &str) -> Limits {
    let kib = SHARED_KIB.iter().find(|(name, _)| *name == architecture);
    Limits {
        threads_per_block: 1024,
        shared_bytes_per_block: kib.map_or(163, |(_, k)| *k) * 1024,
        grid_y_and_z: 65_535,
    }
}
