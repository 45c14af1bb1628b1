//! Where brackets and strings begin and end.

/// Brackets and quotes while walking over a text byte by byte.
#[derive(Default)]
pub(super) struct Scan {
    pub(super) depth: usize,
    pub(super) quote: Option<u8>,
    escaped: bool,
}

impl Scan {
    /// False when a bracket closes that was not opened.
    pub(super) fn step(&mut self, byte: u8) -> bool {
        if let Some(quote) = self.quote {
            if self.escaped {
                self.escaped = false;
            } else if byte == b'\\' {
                self.escaped = true;
            } else if byte == quote {
                self.quote = None;
            }
            return true;
        }
        match byte {
            b'\'' | b'"' => self.quote = Some(byte),
            b'(' | b'[' | b'{' => self.depth += 1,
            b')' | b']' | b'}' => match self.depth.checked_sub(1) {
                Some(depth) => self.depth = depth,
                None => return false,
            },
            _ => {}
        }
        true
    }
}
