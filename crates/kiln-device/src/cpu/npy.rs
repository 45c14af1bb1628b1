//! Input arrays from `.npy` files.

use std::fs::File;
use std::io::BufReader;

use kiln_core::dtype::DType;
use npyz::NpyFile;

/// The file's elements as bytes of `dtype`. Element type and count must match; nothing is cast.
pub fn read(path: &str, dtype: DType, elements: usize) -> Result<Vec<u8>, String> {
    let file = File::open(path).map_err(|e| format!("cannot open `{path}`: {e}"))?;
    let npy = NpyFile::new(BufReader::new(file))
        .map_err(|e| format!("`{path}` is not a .npy file: {e}"))?;
    if npy.len() != elements as u64 {
        return Err(format!(
            "`{path}` holds {} elements, {elements} are needed",
            npy.len()
        ));
    }
    if npy.order() != npyz::Order::C && npy.shape().len() > 1 {
        return Err(format!("`{path}` is in Fortran order; save it in C order"));
    }
    let found = npy.dtype().descr();
    let wanted = descriptor(dtype);
    if !found.contains(wanted) {
        return Err(format!(
            "`{path}` holds {found}, {dtype} ({wanted}) is needed"
        ));
    }
    let width = dtype.size_bytes();
    let mut bytes = Vec::with_capacity(elements * width);
    let file = File::open(path).map_err(|e| format!("cannot open `{path}`: {e}"))?;
    let mut reader = BufReader::new(file);
    std::io::Read::read_to_end(&mut reader, &mut bytes)
        .map_err(|e| format!("cannot read `{path}`: {e}"))?;
    let data = bytes.len().checked_sub(elements * width);
    data.map(|start| bytes.split_off(start))
        .ok_or_else(|| format!("`{path}` is shorter than its header says"))
}

/// NumPy's code for little-endian elements; bfloat16 has none and is stored as 16-bit words.
fn descriptor(dtype: DType) -> &'static str {
    match dtype {
        DType::F16 => "<f2",
        DType::Bf16 => "<u2",
        DType::F32 => "<f4",
        DType::F64 => "<f8",
        DType::I8 => "|i1",
        DType::I16 => "<i2",
        DType::I32 => "<i4",
        DType::I64 => "<i8",
        DType::U8 => "|u1",
        DType::U16 => "<u2",
        DType::U32 => "<u4",
        DType::U64 => "<u8",
    }
}
