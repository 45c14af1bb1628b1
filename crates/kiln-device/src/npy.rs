//! Arrays from `.npy` files: inputs for a kernel, expected outputs for the supervisor.

use std::fs::File;
use std::io::Read;

use kiln_core::dtype::DType;

mod header;

use header::Header;

/// A header is a line of text; NumPy itself refuses to read one of more than 10 000 bytes.
const MOST_HEADER_BYTES: usize = 1 << 20;

/// The file's elements as bytes of `dtype`. Element type and count must match; nothing is cast.
pub fn read(path: &str, dtype: DType, count: usize) -> Result<Vec<u8>, String> {
    elements(&contents(path, dtype, count)?, dtype, count).map_err(|e| format!("`{path}` {e}"))
}

/// Expected values: `f64` bytes for a floating output (from a file of `f64` or of the output's own
/// type), the output's own type for integers.
pub fn read_expected(path: &str, dtype: DType, count: usize) -> Result<Vec<u8>, String> {
    expected(&contents(path, DType::F64, count)?, dtype, count).map_err(|e| format!("`{path}` {e}"))
}

/// As much of a file as could matter: one that is far too long is not read to its end.
fn contents(path: &str, dtype: DType, count: usize) -> Result<Vec<u8>, String> {
    let cannot = |e: std::io::Error| format!("cannot open `{path}`: {e}");
    let file = File::open(path).map_err(cannot)?;
    if !file.metadata().map_err(cannot)?.is_file() {
        return Err(format!("`{path}` is not a regular file"));
    }
    let most = count
        .saturating_mul(dtype.size_bytes())
        .saturating_add(MOST_HEADER_BYTES);
    let mut bytes = Vec::new();
    file.take(most as u64)
        .read_to_end(&mut bytes)
        .map_err(|e| format!("cannot read `{path}`: {e}"))?;
    Ok(bytes)
}

/// `read`, given what is in the file; an error is what is to be said about it.
pub fn elements(file: &[u8], dtype: DType, count: usize) -> Result<Vec<u8>, String> {
    let header = Header::read(file).map_err(|e| format!("is not a .npy file: {e}"))?;
    if header.elements() != Some(count as u64) {
        let found = header
            .elements()
            .map_or("too many".to_string(), |n| n.to_string());
        return Err(format!("holds {found} elements, {count} are needed"));
    }
    if header.fortran_order && header.shape.len() > 1 {
        return Err("is in Fortran order; save it in C order".to_string());
    }
    let (found, wanted) = (&header.descriptor, descriptor(dtype));
    if found != wanted {
        return Err(format!("holds '{found}', {dtype} ({wanted}) is needed"));
    }
    let data = &file[header.length..];
    let wanted = count.checked_mul(dtype.size_bytes());
    match wanted.and_then(|bytes| data.get(..bytes)) {
        Some(data) => Ok(data.to_vec()),
        None => Err("is shorter than its header says".to_string()),
    }
}

/// `read_expected`, given what is in the file.
pub fn expected(file: &[u8], dtype: DType, count: usize) -> Result<Vec<u8>, String> {
    if !dtype.is_float() {
        return elements(file, dtype, count);
    }
    elements(file, DType::F64, count).or_else(|wide_error| {
        let own = elements(file, dtype, count).map_err(|_| wide_error)?;
        let mut wide = Vec::with_capacity(count * 8);
        for element in own.chunks_exact(dtype.size_bytes()) {
            DType::F64.push_f64(dtype.read_f64(element), &mut wide);
        }
        Ok(wide)
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    fn file(descr: &str, shape: &str, data: &[u8]) -> Vec<u8> {
        let mut header =
            format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
        while (10 + header.len() + 1) % 64 != 0 {
            header.push(' ');
        }
        header.push('\n');
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.as_bytes());
        bytes.extend(data);
        bytes
    }

    fn two_floats() -> Vec<u8> {
        let floats = [1.5f32, -2.0];
        floats.iter().flat_map(|v| v.to_le_bytes()).collect()
    }

    #[test]
    fn reads_what_matches_and_names_what_does_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.npy");
        let shown = path.display().to_string();
        let data = two_floats();
        std::fs::write(&path, file("<f4", "(2,)", &data)).unwrap();
        assert_eq!(read(&shown, DType::F32, 2).unwrap(), data);
        assert!(
            read(&shown, DType::F32, 3)
                .unwrap_err()
                .contains("2 elements")
        );
        assert!(read(&shown, DType::F64, 2).unwrap_err().contains("f64"));
        let wide = read_expected(&shown, DType::F32, 2).unwrap();
        assert_eq!(DType::F64.read_f64(&wide[8..]), -2.0);
        std::fs::write(&path, file("<f4", "(2,)", &data[..5])).unwrap();
        assert!(read(&shown, DType::F32, 2).is_err());
        std::fs::write(&path, b"junk").unwrap();
        assert!(read(&shown, DType::F32, 2).unwrap_err().contains(".npy"));
        let folder = dir.path().display().to_string();
        assert!(read(&folder, DType::F32, 2).is_err());
    }

    #[test]
    fn a_file_longer_than_needed_is_read_as_far_as_needed() {
        let mut data = two_floats();
        data.extend([7; 9]);
        let read = elements(&file("<f4", "(1, 2)", &data), DType::F32, 2).unwrap();
        assert_eq!(read, two_floats());
    }

    #[test]
    fn sizes_that_no_memory_holds_are_refused() {
        for shape in ["(4294967296, 4294967297)", "(18446744073709551615,)"] {
            let bent = file("<f4", shape, &two_floats());
            assert!(elements(&bent, DType::F32, 2).is_err(), "{shape}");
        }
        let most = elements(&file("<f4", "(2,)", &[]), DType::F32, usize::MAX);
        assert!(most.is_err());
    }

    /// A file with a header of our own, in version 1 or 2 of the format.
    fn stored(
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
                let path = stored(version, "False", "(3,)", descriptor(dtype), &longer);
                let path = path.display().to_string();
                assert_eq!(read(&path, dtype, 3).unwrap(), data, "{dtype}");
                let expected = read_expected(&path, dtype, 3);
                match dtype.is_float() {
                    true => assert_eq!(DType::F64.read_f64(&expected.unwrap()[16..]), 3.0),
                    false => assert_eq!(expected.unwrap(), data),
                }
            }
            let short = stored(1, "False", "(3,)", descriptor(dtype), &data[1..]);
            let why = read(&short.display().to_string(), dtype, 3).unwrap_err();
            assert!(why.contains("shorter"), "{why}");
        }
    }

    #[test]
    fn columns_first_is_refused_where_it_matters() {
        let data = [0; 48];
        let read = |fortran, shape| {
            let path = stored(1, fortran, shape, "<f8", &data);
            read(&path.display().to_string(), DType::F64, 6)
        };
        assert!(read("True", "(2, 3)").unwrap_err().contains("Fortran"));
        assert!(read("True", "(6,)").is_ok() && read("False", "(2, 3)").is_ok());
    }
}
