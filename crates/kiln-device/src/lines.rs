//! From an instruction of an image to the line of source it comes from.
//!
//! Runs in a compile worker. An image is a candidate's own work, so the supervisor never parses one.

use addr2line::Loader;
use kiln_core::protocol::SourcePlace;

/// A hostile image could name a file with all its bytes.
const LONGEST_NAME: usize = 4096;

/// `None` where the image has no line numbers, or none for that place.
pub(crate) fn source_place(image: &str, offset: u64) -> Option<SourcePlace> {
    let loader = Loader::new(image).ok()?;
    let mut frames = loader.find_frames(offset).ok()?;
    // The innermost of what was inlined there comes first.
    while let Ok(Some(frame)) = frames.next() {
        let Some((file, line)) = frame.location.and_then(|l| Some((l.file?, l.line?))) else {
            continue;
        };
        let function = frame
            .function
            .and_then(|f| Some(f.raw_name().ok()?.into_owned()));
        return Some(SourcePlace {
            function: function.map(|name| name.chars().take(LONGEST_NAME).collect()),
            file: file.chars().take(LONGEST_NAME).collect(),
            line,
        });
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_very_line_is_found() {
        let program = std::env::current_exe().unwrap();
        let here = this_very_line_is_found as *const () as usize;
        let code = crate::cpu::code_offset(here);
        let found = source_place(program.to_str().unwrap(), code.unwrap()).unwrap();
        assert!(found.file.ends_with("lines.rs"), "{found:?}");
        assert!(found.function.unwrap().contains("this_very_line_is_found"));
    }

    #[test]
    fn what_is_no_image_says_nothing() {
        assert_eq!(source_place("/proc/self/status", 0), None);
        assert_eq!(source_place("/nowhere", 0), None);
    }
}
