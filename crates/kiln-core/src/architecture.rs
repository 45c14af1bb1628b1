//! What NVIDIA's architectures can hold and do, for reasoning without a device.
//!
//! Limits are from the CUDA programming guide's table of technical specifications per compute
//! capability, and agree with `cuda_occupancy.h` of CUDA 13.0. Floating-point rates are from the
//! programming guide's table of arithmetic throughput (`fp32`) and from NVIDIA's architecture white
//! papers: the dense `fp16` rate a product is sold with, divided by multiprocessors and boost clock.

use std::fmt;

use crate::protocol::CudaDevice;

pub const WARP_THREADS: u32 = 32;

/// Schedulers of a multiprocessor, each with a quarter of the registers.
pub const SUB_PARTITIONS: u32 = 4;

/// One architecture a kernel can be compiled for.
#[derive(Clone, Debug, PartialEq)]
pub struct Architecture {
    /// E.g. `sm_90a`.
    pub name: String,
    /// Major and minor, e.g. 9 and 0.
    pub capability: (u32, u32),
    pub threads_per_block: u32,
    pub threads_per_multiprocessor: u32,
    pub blocks_per_multiprocessor: u32,
    pub registers_per_multiprocessor: u32,
    pub registers_per_block: u32,
    pub registers_per_thread: u32,
    /// A warp gets a multiple of these.
    pub register_unit: u32,
    pub shared_per_multiprocessor: u32,
    /// Without opting in.
    pub shared_per_block: u32,
    /// Static and dynamic together.
    pub shared_per_block_optin: u32,
    /// Taken from every block by the driver.
    pub shared_reserved_per_block: u32,
    /// A block gets a multiple of these.
    pub shared_unit: u32,
    /// Named barriers of all resident blocks together, where they limit how many there are.
    pub barriers_per_multiprocessor: Option<u32>,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    /// Blocks of a cluster on every device; 1 where there are no clusters.
    pub cluster_blocks: u32,
    /// Blocks of a cluster for kernels that ask for a non-portable size.
    pub cluster_blocks_nonportable: u32,
    /// Operations per clock and multiprocessor; a fused multiply-add is two.
    pub fp32_flops_per_clock: u32,
    /// The same for dense matrix products of `f16`, accumulated in the faster way.
    pub tensor_fp16_flops_per_clock: u32,
}

struct Row {
    capability: (u32, u32),
    threads: u32,
    blocks: u32,
    shared_kib: u32,
    fp32: u32,
    tensor: u32,
    /// Letters of the targets beside the plain one: `a` is for this very device, `f` for its family.
    variants: &'static [&'static str],
}

const fn row(
    capability: (u32, u32),
    [threads, blocks, shared_kib]: [u32; 3],
    [fp32, tensor]: [u32; 2],
    variants: &'static [&'static str],
) -> Row {
    Row {
        capability,
        threads,
        blocks,
        shared_kib,
        fp32,
        tensor,
        variants,
    }
}

/// Per multiprocessor: threads, blocks, KiB of shared memory; `fp32` and `fp16` tensor operations
/// per clock.
const TABLE: &[Row] = &[
    row((7, 0), [2048, 32, 96], [128, 1024], &[]),
    row((7, 5), [1024, 16, 64], [128, 1024], &[]),
    row((8, 0), [2048, 32, 164], [128, 2048], &[]),
    row((8, 6), [1536, 16, 100], [256, 1024], &[]),
    row((8, 7), [1536, 16, 164], [256, 2048], &[]),
    row((8, 9), [1536, 24, 100], [256, 1024], &[]),
    row((9, 0), [2048, 32, 228], [256, 4096], &["a"]),
    row((10, 0), [2048, 32, 228], [256, 8192], &["a", "f"]),
    row((10, 3), [2048, 32, 228], [256, 8192], &["a", "f"]),
    row((11, 0), [1536, 24, 228], [256, 8192], &["a", "f"]),
    row((12, 0), [1536, 24, 100], [256, 1024], &["a", "f"]),
    row((12, 1), [1536, 24, 100], [256, 1024], &["a", "f"]),
];

/// Names people know, from NVIDIA's list of compute capabilities.
const PRODUCTS: [(&str, &str); 24] = [
    ("v100", "sm_70"),
    ("t4", "sm_75"),
    ("2080", "sm_75"),
    ("a100", "sm_80"),
    ("a800", "sm_80"),
    ("a30", "sm_80"),
    ("a10", "sm_86"),
    ("a40", "sm_86"),
    ("a6000", "sm_86"),
    ("3080", "sm_86"),
    ("3090", "sm_86"),
    ("l4", "sm_89"),
    ("l40", "sm_89"),
    ("4080", "sm_89"),
    ("4090", "sm_89"),
    ("h20", "sm_90"),
    ("h100", "sm_90"),
    ("h200", "sm_90"),
    ("h800", "sm_90"),
    ("b100", "sm_100"),
    ("b200", "sm_100"),
    ("b300", "sm_103"),
    ("5080", "sm_120"),
    ("5090", "sm_120"),
];

impl Architecture {
    /// An architecture of the table, by name.
    pub fn parse(name: &str) -> Option<Architecture> {
        let (capability, variant) = split(name)?;
        let row = TABLE.iter().find(|row| row.capability == capability)?;
        (variant.is_empty() || row.variants.contains(&variant))
            .then(|| Architecture::from_row(row, name))
    }

    /// Every name [`Architecture::parse`] takes, oldest first.
    pub fn known() -> Vec<String> {
        let names = |row: &Row| {
            let (major, minor) = row.capability;
            let plain = format!("sm_{major}{minor}");
            let variants = row.variants.iter().map(|letter| format!("{plain}{letter}"));
            std::iter::once(plain.clone())
                .chain(variants)
                .collect::<Vec<String>>()
        };
        TABLE.iter().flat_map(names).collect()
    }

    /// The architecture of a GPU that is called by the name it is sold under: `h100`, `RTX 4090`.
    pub fn of_product(name: &str) -> Option<&'static str> {
        let name: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
        let name = name.to_ascii_lowercase();
        // `a10` is in `a100`: the longest name is meant.
        let named = PRODUCTS
            .iter()
            .filter(|(product, _)| name.contains(product));
        let longest = named.max_by_key(|(product, _)| product.len());
        longest.map(|(_, architecture)| *architecture)
    }

    /// The named architecture, or for one that is newer than the table, its closest relative:
    /// the newest row that is not newer. Nothing for a name that is none, or too old.
    pub fn nearest(name: &str) -> Option<Architecture> {
        let (capability, _) = split(name)?;
        let older = TABLE.iter().rev().find(|row| row.capability <= capability);
        older.map(|row| Architecture::from_row(row, name))
    }

    /// What a device says of itself, and the table for the rest.
    pub fn of_device(device: &CudaDevice) -> Option<Architecture> {
        let known = Architecture::nearest(&device.architecture)?;
        Some(Architecture {
            threads_per_multiprocessor: device.threads_per_multiprocessor,
            blocks_per_multiprocessor: device.blocks_per_multiprocessor,
            registers_per_multiprocessor: device.registers_per_multiprocessor,
            shared_per_multiprocessor: device.shared_per_multiprocessor,
            shared_per_block: device.shared_per_block,
            shared_per_block_optin: device.shared_per_block_optin,
            ..known
        })
    }

    pub fn warps_per_multiprocessor(&self) -> u32 {
        self.threads_per_multiprocessor / WARP_THREADS
    }

    fn from_row(row: &Row, name: &str) -> Architecture {
        const KIB: u32 = 1024;
        let (major, minor) = row.capability;
        let reserved = if major >= 8 { KIB } else { 0 };
        let (cluster, nonportable) = match row.capability {
            (9 | 10, _) => (8, 16),
            (11.., _) => (8, 8),
            _ => (1, 1),
        };
        Architecture {
            name: name.to_string(),
            capability: row.capability,
            threads_per_block: 1024,
            threads_per_multiprocessor: row.threads,
            blocks_per_multiprocessor: row.blocks,
            registers_per_multiprocessor: 65_536,
            registers_per_block: 65_536,
            registers_per_thread: 255,
            register_unit: 256,
            shared_per_multiprocessor: row.shared_kib * KIB,
            shared_per_block: 48 * KIB,
            shared_per_block_optin: row.shared_kib * KIB - reserved,
            shared_reserved_per_block: reserved,
            shared_unit: if major >= 8 { 128 } else { 256 },
            barriers_per_multiprocessor: match (major, minor) {
                (9 | 10, _) => Some(2 * row.blocks),
                (11.., _) => Some(row.blocks),
                _ => None,
            },
            grid: [i32::MAX as u32, 65_535, 65_535],
            block: [1024, 1024, 64],
            cluster_blocks: cluster,
            cluster_blocks_nonportable: nonportable,
            fp32_flops_per_clock: row.fp32,
            tensor_fp16_flops_per_clock: row.tensor,
        }
    }
}

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// `sm_120a` is capability 12.0, variant `a`: the last digit is the minor version.
fn split(name: &str) -> Option<((u32, u32), &str)> {
    let text = name.strip_prefix("sm_")?;
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, variant) = text.split_at(digits);
    let number: u32 = number.parse().ok().filter(|_| digits >= 2)?;
    matches!(variant, "" | "a" | "f").then_some(((number / 10, number % 10), variant))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_are_known_by_name() {
        for (product, architecture) in [
            ("h100", "sm_90"),
            ("H200", "sm_90"),
            ("h20", "sm_90"),
            ("A100", "sm_80"),
            ("a10", "sm_86"),
            ("l40s", "sm_89"),
            ("RTX 4090", "sm_89"),
            ("b200", "sm_100"),
            ("Tesla T4", "sm_75"),
            ("v100-sxm2", "sm_70"),
        ] {
            assert_eq!(Architecture::of_product(product), Some(architecture));
        }
        for name in ["sm_100", "89", "8.9", "sm90", "compute_80", "", "gfx942"] {
            assert_eq!(Architecture::of_product(name), None, "{name}");
        }
        for (_, architecture) in PRODUCTS {
            assert!(
                Architecture::parse(architecture).is_some(),
                "{architecture}"
            );
        }
    }

    #[test]
    fn every_known_name_parses_to_itself() {
        let known = Architecture::known();
        assert!(known.len() > 15 && known.contains(&"sm_90a".to_string()));
        for name in known {
            let architecture = Architecture::parse(&name).unwrap();
            assert_eq!(architecture.name, name);
            assert_eq!(Architecture::nearest(&name).unwrap(), architecture);
        }
    }

    #[test]
    fn names_that_are_none() {
        for name in [
            "",
            "sm_",
            "sm_9",
            "90",
            "sm_90b",
            "compute_90",
            "sm_80a",
            "sm_999999999999",
            "sm_aa",
        ] {
            assert!(Architecture::parse(name).is_none(), "{name}");
        }
        assert!(Architecture::nearest("sm_61").is_none());
        assert_eq!(Architecture::nearest("sm_88").unwrap().capability, (8, 7));
        assert_eq!(
            Architecture::nearest("sm_130a").unwrap().capability,
            (12, 1)
        );
        assert_eq!(Architecture::nearest("sm_130a").unwrap().name, "sm_130a");
    }

    #[test]
    fn well_known_limits() {
        let h200 = Architecture::parse("sm_90a").unwrap();
        assert_eq!(h200.shared_per_block_optin, 232_448);
        assert_eq!(h200.shared_per_multiprocessor, 233_472);
        assert_eq!(h200.warps_per_multiprocessor(), 64);
        assert_eq!(h200.cluster_blocks_nonportable, 16);
        let turing = Architecture::parse("sm_75").unwrap();
        assert_eq!(turing.shared_per_block_optin, 65_536);
        assert_eq!(turing.cluster_blocks, 1);
        let ada = Architecture::parse("sm_89").unwrap();
        assert_eq!(
            (ada.shared_per_block_optin, ada.blocks_per_multiprocessor),
            (101_376, 24)
        );
        // 132 multiprocessors at 1.83 GHz: the 989 TFLOPS an H100 is sold with.
        let tflops = f64::from(h200.tensor_fp16_flops_per_clock) * 132.0 * 1.83e9 / 1e12;
        assert!((tflops - 989.0).abs() < 1.0, "{tflops}");
    }
}
