//! Arrays from `.npy` files: inputs for a kernel, expected outputs for the supervisor.

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
    if found.trim_matches(['\'', '"']) != wanted {
        return Err(format!(
            "`{path}` holds {found}, {dtype} ({wanted}) is needed"
        ));
    }
    let mut bytes = std::fs::read(path).map_err(|e| format!("cannot read `{path}`: {e}"))?;
    let start = data_start(&bytes);
    if bytes.len() < start + elements * dtype.size_bytes() {
        return Err(format!("`{path}` is shorter than its header says"));
    }
    bytes.truncate(start + elements * dtype.size_bytes());
    Ok(bytes.split_off(start))
}

/// Where the elements begin: behind magic, version, header length and header. The header itself
/// was read by the crate; only its length matters here, so that elements stay raw bytes.
fn data_start(bytes: &[u8]) -> usize {
    match bytes.get(6) {
        Some(1) => 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]])),
        _ => 12 + u32::from_le_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]) as usize,
    }
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

/// Expected values: `f64` bytes for a floating output (from a file of `f64` or of the output's own
/// type), the output's own type for integers.
pub fn read_expected(path: &str, dtype: DType, elements: usize) -> Result<Vec<u8>, String> {
    if !dtype.is_float() {
        return read(path, dtype, elements);
    }
    read(path, DType::F64, elements).or_else(|wide_error| {
        let own = read(path, dtype, elements).map_err(|_| wide_error)?;
        let mut wide = Vec::with_capacity(elements * 8);
        for element in own.chunks_exact(dtype.size_bytes()) {
            DType::F64.push_f64(dtype.read_f64(element), &mut wide);
        }
        Ok(wide)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &std::path::Path, descr: &str, count: usize, data: &[u8]) {
        let mut header =
            format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({count},), }}");
        while (10 + header.len() + 1) % 64 != 0 {
            header.push(' ');
        }
        header.push('\n');
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.as_bytes());
        bytes.extend(data);
        std::fs::write(path, bytes).unwrap();
    }

    #[test]
    fn reads_what_matches_and_names_what_does_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.npy");
        let shown = path.display().to_string();
        let data: Vec<u8> = [1.5f32, -2.0]
            .iter()
            .flat_map(|v| v.to_le_bytes())
            .collect();
        write(&path, "<f4", 2, &data);
        assert_eq!(read(&shown, DType::F32, 2).unwrap(), data);
        assert!(
            read(&shown, DType::F32, 3)
                .unwrap_err()
                .contains("2 elements")
        );
        assert!(read(&shown, DType::F64, 2).unwrap_err().contains("f64"));
        let wide = read_expected(&shown, DType::F32, 2).unwrap();
        assert_eq!(DType::F64.read_f64(&wide[8..]), -2.0);
        write(&path, "<f4", 2, &data[..5]);
        assert!(read(&shown, DType::F32, 2).is_err());
        std::fs::write(&path, b"junk").unwrap();
        assert!(read(&shown, DType::F32, 2).unwrap_err().contains(".npy"));
    }

    /// A file with a header of our own, in version 1 or 2 of the format.
    fn file(
        version: u8,
        fortran: &str,
        shape: &str,
        descr: &str,
        data: &[u8],
    ) -> tempfile::TempPath {
        let header = format!(
            "{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}{:300}\n",
            ""
        );
        let mut bytes = b"\x93NUMPY".to_vec();
        bytes.extend([version, 0]);
        match version {
            1 => bytes.extend((header.len() as u16).to_le_bytes()),
            _ => bytes.extend((header.len() as u32).to_le_bytes()),
        }
        bytes.extend(header.as_bytes());
        bytes.extend(data);
        let path = tempfile::NamedTempFile::new().unwrap().into_temp_path();
        std::fs::write(&path, bytes).unwrap();
        path
    }

    #[test]
    fn elements_are_taken_as_they_lie_in_the_file() {
        for dtype in DType::ALL {
            let mut data = Vec::new();
            for value in [1.0, 2.0, 3.0] {
                dtype.push_f64(value, &mut data);
            }
            // What follows the last element is none of them.
            let longer = [&data[..], &[7; 5]].concat();
            for version in [1, 2] {
                let path = file(version, "False", "(3,)", descriptor(dtype), &longer);
                let path = path.display().to_string();
                assert_eq!(read(&path, dtype, 3).unwrap(), data, "{dtype}");
                let expected = read_expected(&path, dtype, 3);
                match dtype.is_float() {
                    true => assert_eq!(DType::F64.read_f64(&expected.unwrap()[16..]), 3.0),
                    false => assert_eq!(expected.unwrap(), data),
                }
            }
            let short = file(1, "False", "(3,)", descriptor(dtype), &data[1..]);
            let why = read(&short.display().to_string(), dtype, 3).unwrap_err();
            assert!(why.contains("shorter"), "{why}");
        }
    }

    #[test]
    fn columns_first_is_refused_where_it_matters() {
        let data = [0; 48];
        let read = |fortran, shape| {
            let path = file(1, fortran, shape, "<f8", &data);
            read(&path.display().to_string(), DType::F64, 6)
        };
        assert!(read("True", "(2, 3)").unwrap_err().contains("Fortran"));
        assert!(read("True", "(6,)").is_ok() && read("False", "(2, 3)").is_ok());
    }
}
