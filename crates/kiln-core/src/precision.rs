//! Coarser number formats than a task asks for: what a kernel that cuts corners computes in.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::dtype::DType;

/// A format by its significand alone. Its range is left out on purpose: whoever computes in few
/// bits scales the values to fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Coarser {
    F32,
    /// Also `f16`: both have eleven bits.
    Tf32,
    Bf16,
    /// With three stored bits (e4m3).
    F8,
}

impl Coarser {
    /// From the finest on.
    pub const ALL: [Coarser; 4] = [Coarser::F32, Coarser::Tf32, Coarser::Bf16, Coarser::F8];

    pub fn name(self) -> &'static str {
        match self {
            Coarser::F32 => "f32",
            Coarser::Tf32 => "tf32",
            Coarser::Bf16 => "bf16",
            Coarser::F8 => "f8",
        }
    }

    /// Formats with fewer bits than a type's own, the finest first; none for integers.
    pub fn than(dtype: DType) -> &'static [Coarser] {
        match dtype {
            DType::F64 => &Coarser::ALL,
            DType::F32 => &Coarser::ALL[1..],
            DType::F16 => &Coarser::ALL[2..],
            DType::Bf16 => &Coarser::ALL[3..],
            _ => &[],
        }
    }

    /// Bits of the significand, the leading one included.
    fn significand_bits(self) -> i32 {
        match self {
            Coarser::F32 => 24,
            Coarser::Tf32 => 11,
            Coarser::Bf16 => 8,
            Coarser::F8 => 4,
        }
    }

    /// The nearest value of this format.
    pub fn round(self, value: f64) -> f64 {
        if value == 0.0 || !value.is_finite() {
            return value;
        }
        // Veltkamp's split: a product so large that its last bit is the last one kept. Scaled down
        // first where that would overflow.
        let scale = match value.abs() > 1e280 {
            true => 2f64.powi(-200),
            false => 1.0,
        };
        let scaled = value * scale;
        let large = scaled * (2f64.powi(53 - self.significand_bits()) + 1.0);
        (large - (large - scaled)) / scale
    }
}

impl fmt::Display for Coarser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Coarser::Tf32 => "tf32 (or f16)",
            other => other.name(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::{bf16, f16};

    /// A value of the format, and none is nearer.
    #[test]
    fn rounding_gives_the_nearest_value_of_the_format() {
        for step in 1..20_000 {
            let value = (f64::from(step) * 0.377_123).sin() * 10f64.powi(step % 7 - 3);
            assert_eq!(Coarser::F32.round(value), f64::from(value as f32));
            let mut nearest = vec![(Coarser::Bf16, bf16::from_f64(value).to_f64())];
            if value.abs() > 1e-4 {
                nearest.push((Coarser::Tf32, f16::from_f64(value).to_f64()));
            }
            for (format, theirs) in nearest {
                let ours = format.round(value);
                assert_eq!(format.round(ours), ours);
                assert!((ours - value).abs() <= (theirs - value).abs(), "{value}");
            }
        }
    }

    #[test]
    fn whatever_is_short_enough_stays_as_it_is() {
        for format in Coarser::ALL {
            for value in [0.0, -0.0, 1.0, -1.5, 13.0, 240.0, f64::INFINITY] {
                assert_eq!(format.round(value), value);
            }
            assert!(format.round(f64::NAN).is_nan());
            assert!(format.round(1e308).is_finite());
        }
        assert_eq!(Coarser::F8.round(16.9), 16.0);
    }

    #[test]
    fn only_formats_with_fewer_bits_are_coarser() {
        assert_eq!(Coarser::than(DType::F16), [Coarser::Bf16, Coarser::F8]);
        assert_eq!(Coarser::than(DType::F64), Coarser::ALL);
        assert_eq!(Coarser::than(DType::F32), &Coarser::ALL[1..]);
        assert_eq!(Coarser::than(DType::Bf16), [Coarser::F8]);
        assert!(Coarser::than(DType::I64).is_empty());
    }

    #[test]
    fn the_size_of_a_value_does_not_matter() {
        for power in [-300, -200, 0, 200, 300] {
            let scale = 10f64.powi(power);
            for value in [1.1, 1.7, 3.3, 9.9] {
                let rounded = Coarser::Bf16.round(value * scale);
                let off = (rounded - value * scale).abs();
                assert!(off > 0.0 && off <= value * scale / 256.0, "{value}e{power}");
            }
        }
    }

    #[test]
    fn a_format_is_called_by_its_name() {
        for (format, name) in Coarser::ALL.into_iter().zip(["f32", "tf32", "bf16", "f8"]) {
            assert_eq!(format.name(), name);
            assert!(format.to_string().starts_with(name));
        }
    }
}
