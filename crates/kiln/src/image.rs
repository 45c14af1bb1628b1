//! What a compiled image does, as bytes: two images with the same code and data are one program.

use std::path::Path;

use crate::exit::Failure;

/// Sections that are loaded or, in a cubin, say how code is launched. Names, symbols and the
/// compiler's notes are left out.
pub fn code(path: &Path) -> Result<Vec<u8>, Failure> {
    let bytes = std::fs::read(path)
        .map_err(|e| Failure::io(format!("cannot read `{}`", path.display()), &e))?;
    // What is no ELF file of 64 bits is compared as a whole.
    Ok(sections(&bytes).unwrap_or(bytes))
}

fn sections(bytes: &[u8]) -> Option<Vec<u8>> {
    const ALLOCATED: u64 = 2;
    const NO_BITS: u64 = 8;
    const NOTE: u64 = 7;
    if !bytes.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let number = |at: usize, length: usize| -> Option<u64> {
        let mut buffer = [0; 8];
        buffer[..length].copy_from_slice(bytes.get(at..at.checked_add(length)?)?);
        Some(u64::from_le_bytes(buffer))
    };
    let table = usize::try_from(number(0x28, 8)?).ok()?;
    let size = usize::try_from(number(0x3a, 2)?).ok()?;
    let count = usize::try_from(number(0x3c, 2)?).ok()?;
    let mut code = Vec::new();
    for section in 0..count {
        let header = table.checked_add(section.checked_mul(size)?)?;
        let kind = number(header + 4, 4)?;
        let flags = number(header + 8, 8)?;
        let start = usize::try_from(number(header + 0x18, 8)?).ok()?;
        let length = usize::try_from(number(header + 0x20, 8)?).ok()?;
        if flags & ALLOCATED == 0 || kind == NOTE {
            continue;
        }
        code.extend((length as u64).to_le_bytes());
        if kind != NO_BITS {
            code.extend(bytes.get(start..start.checked_add(length)?)?);
        }
    }
    (!code.is_empty()).then_some(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_elf_file_has_no_sections() {
        assert_eq!(sections(b"MZ"), None);
        assert_eq!(sections(b"\x7fELF\x02\x01"), None);
        let own = std::fs::read("/proc/self/exe").expect("this test");
        assert!(sections(&own).is_some_and(|code| code.len() > 1000));
    }
}
