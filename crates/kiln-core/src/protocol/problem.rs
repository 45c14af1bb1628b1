//! What a kernel is launched on: arguments, how their contents are made, and the geometry of a GPU launch.

use serde::{Deserialize, Serialize};

use crate::dtype::DType;
use crate::input;
use crate::manifest::{Fill, Role, Swizzle};
use crate::precision::Coarser;
use crate::value::Value;

/// Arguments of one launch, with everything needed to make their contents.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Problem {
    pub shape: String,
    pub seed: u64,
    /// The shape's dimensions, for Python functions that ask for them by name.
    #[serde(default)]
    pub dimensions: Vec<(String, i64)>,
    pub arguments: Vec<ArgumentSpec>,
    /// Geometry of a GPU launch.
    #[serde(default)]
    pub launch: Option<LaunchSpec>,
    /// Inputs that are not the ones the seed stands for, to find out what a task can tell apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variation: Option<Variation>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Variation {
    /// Every floating input rounded to a coarser format.
    Rounded(Coarser),
    /// One input drawn from another seed.
    Redrawn { argument: usize, seed: u64 },
    /// A few elements of every input that is drawn element by element take the values of others.
    Nudged { seed: u64 },
}

impl Problem {
    /// Whether `Variation::Nudged` makes a difference, and launches can follow each other at once.
    pub fn can_be_nudged(&self) -> bool {
        let is_inout = |spec: &ArgumentSpec| matches!(spec, ArgumentSpec::Buffer { role, .. } if *role == Role::InOut);
        let nudged = |spec: &ArgumentSpec| {
            spec.is_nudged()
                && spec
                    .elements()
                    .is_some_and(|n| n >= input::LEAST_NUDGED as u64)
        };
        !self.arguments.iter().any(is_inout) && self.arguments.iter().any(nudged)
    }
}

impl std::fmt::Display for Variation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Variation::Rounded(format) => write!(f, "inputs rounded to {}", format.name()),
            Variation::Redrawn { argument, .. } => write!(f, "input {argument} drawn again"),
            Variation::Nudged { seed } => write!(f, "some elements moved ({seed})"),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaunchSpec {
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub cluster: Option<[u32; 3]>,
    /// Dynamic shared memory per block.
    pub shared_bytes: u32,
    pub cooperative: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ArgumentSpec {
    /// A descriptor of another argument's buffer, for the tensor memory accelerator; 128 bytes,
    /// passed by value.
    Tma {
        name: String,
        /// The buffer, as a position among the arguments.
        tensor: usize,
        dtype: DType,
        /// Outermost first, like the buffer's own extents.
        extents: Vec<u64>,
        tile: Vec<u32>,
        swizzle: Swizzle,
    },
    Scalar {
        name: String,
        dtype: DType,
        value: Value,
    },
    Buffer {
        name: String,
        dtype: DType,
        extents: Vec<u64>,
        role: Role,
        fill: Fill,
        /// The kernel sees this type instead: the reference computes in `f64`.
        seen_as: DType,
    },
}

impl ArgumentSpec {
    pub fn name(&self) -> &str {
        match self {
            ArgumentSpec::Scalar { name, .. }
            | ArgumentSpec::Buffer { name, .. }
            | ArgumentSpec::Tma { name, .. } => name,
        }
    }

    /// Whether elements may take each other's values: what is drawn element by element stays what it was said to be.
    pub fn is_nudged(&self) -> bool {
        matches!(
            self,
            ArgumentSpec::Buffer {
                role: Role::Input,
                fill: Fill::Normal { .. } | Fill::Uniform { .. } | Fill::Integers { .. },
                ..
            }
        )
    }

    /// Whether the worker sends this argument back after a launch.
    pub fn is_result(&self) -> bool {
        matches!(
            self,
            ArgumentSpec::Buffer {
                role: Role::Output | Role::InOut,
                ..
            }
        )
    }

    /// Elements of a buffer; 1 for anything else. `None` on overflow.
    pub fn elements(&self) -> Option<u64> {
        match self {
            ArgumentSpec::Scalar { .. } | ArgumentSpec::Tma { .. } => Some(1),
            ArgumentSpec::Buffer { extents, .. } => {
                extents.iter().try_fold(1u64, |n, e| n.checked_mul(*e))
            }
        }
    }

    /// Bytes the kernel sees. `None` on overflow.
    pub fn bytes(&self) -> Option<u64> {
        let size = match self {
            ArgumentSpec::Scalar { dtype, .. } => dtype.size_bytes(),
            ArgumentSpec::Buffer { seen_as, .. } => seen_as.size_bytes(),
            ArgumentSpec::Tma { .. } => 128,
        };
        self.elements()?.checked_mul(size as u64)
    }
}
