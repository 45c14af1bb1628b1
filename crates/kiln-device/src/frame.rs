//! Length-prefixed frames: header length (u32), payload length (u64), JSON header, raw payload.

use std::io::{self, Read, Write};

use kiln_core::protocol::{MAX_HEADER_BYTES, MAX_PAYLOAD_BYTES};
use serde::Serialize;
use serde::de::DeserializeOwned;

const RESERVED_BYTES: u64 = 1 << 30;

/// Writes one frame and flushes it.
pub fn write_frame<H: Serialize>(
    out: &mut impl Write,
    header: &H,
    payload: &[u8],
) -> io::Result<()> {
    let header = serde_json::to_vec(header)?;
    let mut prefix = Vec::with_capacity(12 + header.len());
    prefix.extend((header.len() as u32).to_le_bytes());
    prefix.extend((payload.len() as u64).to_le_bytes());
    prefix.extend(header);
    out.write_all(&prefix)?;
    out.write_all(payload)?;
    out.flush()
}

/// Reads one frame; `None` at a clean end of the stream. A torn, oversized or unreadable frame is
/// an error: nothing after it can be trusted.
pub fn read_frame<H: DeserializeOwned>(input: &mut impl Read) -> io::Result<Option<(H, Vec<u8>)>> {
    let mut prefix = [0u8; 12];
    let mut have = 0;
    while have < prefix.len() {
        match input.read(&mut prefix[have..]) {
            Ok(0) if have == 0 => return Ok(None),
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => have += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    let header_len = u32::from_le_bytes(prefix[..4].try_into().expect("four bytes"));
    let payload_len = u64::from_le_bytes(prefix[4..].try_into().expect("eight bytes"));
    if header_len > MAX_HEADER_BYTES || payload_len > MAX_PAYLOAD_BYTES {
        return Err(invalid(format!(
            "frame of {header_len} + {payload_len} bytes is over the limit"
        )));
    }
    let header = read_exactly(input, u64::from(header_len))?;
    let payload = read_exactly(input, payload_len)?;
    let header = serde_json::from_slice(&header).map_err(|e| invalid(e.to_string()))?;
    Ok(Some((header, payload)))
}

/// Grows as bytes arrive, so a lying length costs no memory.
fn read_exactly(input: &mut impl Read, wanted: u64) -> io::Result<Vec<u8>> {
    // Address space only; memory is taken as bytes arrive. Where there is none to be had, the bytes may
    // still fit.
    let mut bytes = Vec::new();
    let _ = bytes.try_reserve_exact(wanted.min(RESERVED_BYTES) as usize);
    input.take(wanted).read_to_end(&mut bytes)?;
    if bytes.len() as u64 != wanted {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(bytes)
}

fn invalid(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}

/// A short frame built without allocating, for signal handlers: 12 bytes of prefix, then the header.
pub(crate) struct Text {
    bytes: [u8; 160],
    length: usize,
}

impl Text {
    pub(crate) fn new() -> Text {
        Text {
            bytes: [0; 160],
            length: 12,
        }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        for byte in bytes {
            if let Some(place) = self.bytes.get_mut(self.length) {
                *place = *byte;
                self.length += 1;
            }
        }
    }

    pub(crate) fn push_integer(&mut self, value: i64) {
        if value < 0 {
            self.push(b"-");
        }
        let mut digits = [0u8; 20];
        let mut at = digits.len();
        let mut rest = value.unsigned_abs();
        loop {
            at -= 1;
            digits[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        self.push(&digits[at..]);
    }

    pub(crate) fn frame(&mut self) -> &[u8] {
        let header = (self.length - 12) as u32;
        self.bytes[..4].copy_from_slice(&header.to_le_bytes());
        &self.bytes[..self.length]
    }

    /// For signal handlers: write(2) is async-signal-safe.
    pub(crate) fn send(&mut self, descriptor: i32) {
        let frame = self.frame();
        // SAFETY: writes initialised bytes of a local array to a descriptor.
        unsafe { libc::write(descriptor, frame.as_ptr().cast(), frame.len()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kiln_core::protocol::{Cores, Request};

    const INSPECT: Request = Request::Inspect {
        same_will_do: false,
    };
    const SECOND: Request = Request::Check {
        cores: Cores::Pinned(2),
        poison: u64::MAX,
    };

    #[test]
    fn frames_round_trip() {
        let mut pipe = Vec::new();
        write_frame(&mut pipe, &INSPECT, b"abc").unwrap();
        write_frame(&mut pipe, &SECOND, b"").unwrap();
        let mut input = pipe.as_slice();
        let (first, payload) = read_frame::<Request>(&mut input).unwrap().unwrap();
        assert_eq!((first, payload.as_slice()), (INSPECT, &b"abc"[..]));
        let (second, _) = read_frame::<Request>(&mut input).unwrap().unwrap();
        assert_eq!(second, SECOND);
        assert!(read_frame::<Request>(&mut input).unwrap().is_none());
    }

    #[test]
    fn every_truncation_and_every_flipped_byte_is_an_error_or_a_frame_never_a_panic() {
        let mut pipe = Vec::new();
        write_frame(&mut pipe, &INSPECT, b"payload").unwrap();
        for cut in 1..pipe.len() {
            assert!(read_frame::<Request>(&mut &pipe[..cut]).is_err());
        }
        for at in 0..pipe.len() {
            let mut bent = pipe.clone();
            bent[at] ^= 0xff;
            let _ = read_frame::<Request>(&mut bent.as_slice());
        }
    }
}
