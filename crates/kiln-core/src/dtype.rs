//! Element types of buffers and scalars: names, sizes, and conversion to and from `f64`.

use std::fmt;

use half::{bf16, f16};
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DType {
    F16,
    Bf16,
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
}

impl DType {
    pub const ALL: [DType; 12] = [
        DType::F16,
        DType::Bf16,
        DType::F32,
        DType::F64,
        DType::I8,
        DType::I16,
        DType::I32,
        DType::I64,
        DType::U8,
        DType::U16,
        DType::U32,
        DType::U64,
    ];

    pub fn name(self) -> &'static str {
        match self {
            DType::F16 => "f16",
            DType::Bf16 => "bf16",
            DType::F32 => "f32",
            DType::F64 => "f64",
            DType::I8 => "i8",
            DType::I16 => "i16",
            DType::I32 => "i32",
            DType::I64 => "i64",
            DType::U8 => "u8",
            DType::U16 => "u16",
            DType::U32 => "u32",
            DType::U64 => "u64",
        }
    }

    pub fn from_name(name: &str) -> Option<DType> {
        DType::ALL.into_iter().find(|d| d.name() == name)
    }

    /// The type that C, CUDA or NumPy call this, on a 64-bit Unix; white space is single blanks.
    pub fn from_foreign_name(name: &str) -> Option<DType> {
        Some(match name {
            "half" | "__half" | "_Float16" | "__fp16" | "float16" => DType::F16,
            "__nv_bfloat16" | "__bf16" | "bfloat16" => DType::Bf16,
            "float" | "float32" => DType::F32,
            "double" | "float64" => DType::F64,
            "char" | "signed char" | "int8_t" | "int8" => DType::I8,
            "unsigned char" | "uint8_t" | "uint8" | "bool" | "_Bool" => DType::U8,
            "short" | "short int" | "signed short" | "int16_t" | "int16" => DType::I16,
            "unsigned short" | "unsigned short int" | "uint16_t" | "uint16" => DType::U16,
            "int" | "signed" | "signed int" | "int32_t" | "int32" => DType::I32,
            "unsigned" | "unsigned int" | "uint" | "uint32_t" | "uint32" => DType::U32,
            "long" | "long int" | "long long" | "long long int" | "signed long" | "int64_t"
            | "int64" | "ssize_t" | "ptrdiff_t" | "intptr_t" => DType::I64,
            "unsigned long"
            | "unsigned long int"
            | "unsigned long long"
            | "unsigned long long int"
            | "uint64_t"
            | "uint64"
            | "size_t"
            | "uintptr_t" => DType::U64,
            _ => return None,
        })
    }

    pub fn size_bytes(self) -> usize {
        match self {
            DType::I8 | DType::U8 => 1,
            DType::F16 | DType::Bf16 | DType::I16 | DType::U16 => 2,
            DType::F32 | DType::I32 | DType::U32 => 4,
            DType::F64 | DType::I64 | DType::U64 => 8,
        }
    }

    pub fn is_float(self) -> bool {
        matches!(self, DType::F16 | DType::Bf16 | DType::F32 | DType::F64)
    }

    /// The C spelling, or `None` where C has no portable type and a pointer passes as `void *`.
    pub fn c_type(self) -> Option<&'static str> {
        Some(match self {
            DType::F16 | DType::Bf16 => return None,
            DType::F32 => "float",
            DType::F64 => "double",
            DType::I8 => "int8_t",
            DType::I16 => "int16_t",
            DType::I32 => "int32_t",
            DType::I64 => "int64_t",
            DType::U8 => "uint8_t",
            DType::U16 => "uint16_t",
            DType::U32 => "uint32_t",
            DType::U64 => "uint64_t",
        })
    }

    /// Reads the element that starts at `bytes[0]`. Integers beyond 2^53 round: comparison of
    /// 64-bit integers goes through [`DType::read_i128`] instead.
    pub fn read_f64(self, bytes: &[u8]) -> f64 {
        match self {
            DType::F16 => f16::from_le_bytes(first(bytes)).to_f64(),
            DType::Bf16 => bf16::from_le_bytes(first(bytes)).to_f64(),
            DType::F32 => f64::from(f32::from_le_bytes(first(bytes))),
            DType::F64 => f64::from_le_bytes(first(bytes)),
            integer => integer.read_i128(bytes).unwrap_or(0) as f64,
        }
    }

    /// The exact integer that starts at `bytes[0]`; `None` for floating types.
    pub fn read_i128(self, bytes: &[u8]) -> Option<i128> {
        Some(match self {
            DType::F16 | DType::Bf16 | DType::F32 | DType::F64 => return None,
            DType::I8 => i128::from(i8::from_le_bytes(first(bytes))),
            DType::I16 => i128::from(i16::from_le_bytes(first(bytes))),
            DType::I32 => i128::from(i32::from_le_bytes(first(bytes))),
            DType::I64 => i128::from(i64::from_le_bytes(first(bytes))),
            DType::U8 => i128::from(bytes[0]),
            DType::U16 => i128::from(u16::from_le_bytes(first(bytes))),
            DType::U32 => i128::from(u32::from_le_bytes(first(bytes))),
            DType::U64 => i128::from(u64::from_le_bytes(first(bytes))),
        })
    }

    /// Appends `value`, rounded to this type; integers saturate at their range.
    pub fn push_f64(self, value: f64, out: &mut Vec<u8>) {
        match self {
            DType::F16 => out.extend(f16::from_f64(value).to_le_bytes()),
            DType::Bf16 => out.extend(bf16::from_f64(value).to_le_bytes()),
            DType::F32 => out.extend((value as f32).to_le_bytes()),
            DType::F64 => out.extend(value.to_le_bytes()),
            DType::I8 => out.extend((value as i8).to_le_bytes()),
            DType::I16 => out.extend((value as i16).to_le_bytes()),
            DType::I32 => out.extend((value as i32).to_le_bytes()),
            DType::I64 => out.extend((value as i64).to_le_bytes()),
            DType::U8 => out.extend((value as u8).to_le_bytes()),
            DType::U16 => out.extend((value as u16).to_le_bytes()),
            DType::U32 => out.extend((value as u32).to_le_bytes()),
            DType::U64 => out.extend((value as u64).to_le_bytes()),
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

fn first<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes[..N].try_into().expect("slice of length N")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dtype_round_trips_small_values() {
        for dtype in DType::ALL {
            let mut bytes = Vec::new();
            dtype.push_f64(3.0, &mut bytes);
            assert_eq!(bytes.len(), dtype.size_bytes());
            assert_eq!(dtype.read_f64(&bytes), 3.0, "{dtype}");
            assert_eq!(DType::from_name(dtype.name()), Some(dtype));
        }
    }

    #[test]
    fn u64_keeps_all_bits() {
        let bytes = u64::MAX.to_le_bytes();
        assert_eq!(DType::U64.read_i128(&bytes), Some(i128::from(u64::MAX)));
    }
}
