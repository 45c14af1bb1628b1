//! What comes out of a worker's pipe: frames, or an error; a frame that was read is written as the same.

use kiln_core::protocol::{ArgumentSpec, Request, Response};
use kiln_device::frame::{read_frame, write_frame};
use serde::Serialize;
use serde::de::DeserializeOwned;

pub fn check(data: &[u8]) {
    stream::<Request>(data);
    stream::<Response>(data);
    // With lengths that are right, so that a mutation reaches the header: it ends at the first zero.
    let end = data.iter().position(|b| *b == 0).unwrap_or(data.len());
    let payload = data.get(end + 1..).unwrap_or_default();
    let mut framed = (end as u32).to_le_bytes().to_vec();
    framed.extend((payload.len() as u64).to_le_bytes());
    framed.extend(&data[..end]);
    framed.extend(payload);
    if let Some(request) = stream::<Request>(&framed) {
        sizes_are_known_or_not(&request);
    }
    stream::<Response>(&framed);
}

/// The last header of a stream of frames.
fn stream<H: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(
    bytes: &[u8],
) -> Option<H> {
    let mut input = bytes;
    let mut last = None;
    while let Ok(Some((header, payload))) = read_frame::<H>(&mut input) {
        let mut written = Vec::new();
        write_frame(&mut written, &header, &payload).expect("memory takes everything");
        let again = read_frame::<H>(&mut written.as_slice());
        let (same, rest) = again.expect("it was written").expect("one frame");
        assert_eq!((&same, &rest), (&header, &payload));
        last = Some(header);
    }
    last
}

fn sizes_are_known_or_not(request: &Request) {
    let problem = match request {
        Request::Prepare(problem) => problem,
        Request::PlainTrial(trial) => &trial.problem,
        _ => return,
    };
    for argument in &problem.arguments {
        assert!(argument.bytes().is_none() || argument.elements().is_some());
        assert!(!argument.is_result() || matches!(argument, ArgumentSpec::Buffer { .. }));
    }
}
