use std::os::fd::AsRawFd;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Command;

use super::*;
use crate::cpu::guarded::Access;
use kiln_core::protocol::Response;

fn fault(argument: usize, offset: i64, inside: bool) -> MemoryFault {
    MemoryFault {
        argument,
        offset,
        inside,
    }
}

#[test]
fn the_handlers_frame_is_one_the_supervisor_reads() {
    for fault in [fault(3, i64::MIN, false), fault(0, 12, true)] {
        let (response, _) = crate::frame::read_frame::<Response>(&mut message(fault).frame())
            .unwrap()
            .unwrap();
        assert_eq!(response, Response::Fault(fault));
    }
}

#[test]
fn an_address_is_told_by_the_mapping_it_lies_in() {
    let regions = Regions::none();
    let input = Addresses {
        mapping_start: 1000,
        mapping_end: 2000,
        data_start: 1400,
        data_end: 1500,
    };
    let output = Addresses {
        mapping_start: 2000,
        mapping_end: 3000,
        data_start: 2400,
        data_end: 2500,
    };
    regions.watch(2, input, true);
    regions.watch(5, output, false);
    for (address, found) in [
        (999, None),
        (1000, Some(fault(2, -400, false))),
        (1399, Some(fault(2, -1, false))),
        (1400, Some(fault(2, 0, true))),
        (1499, Some(fault(2, 99, true))),
        (1500, Some(fault(2, 100, false))),
        (1999, Some(fault(2, 599, false))),
        (2000, Some(fault(5, -400, false))),
        (2400, Some(fault(5, 0, false))),
        (2999, Some(fault(5, 599, false))),
        (3000, None),
    ] {
        assert_eq!(regions.find(address), found, "{address}");
    }
}

#[test]
fn more_buffers_than_the_table_has_are_not_told() {
    let regions = Regions::none();
    for argument in 0..MAX_REGIONS + 2 {
        let at = 1000 * argument;
        let addresses = Addresses {
            mapping_start: at,
            mapping_end: at + 1000,
            data_start: at + 10,
            data_end: at + 20,
        };
        regions.watch(argument, addresses, true);
    }
    let last = MAX_REGIONS - 1;
    assert_eq!(regions.find(1000 * last + 10), Some(fault(last, 0, true)));
    assert_eq!(regions.find(1000 * MAX_REGIONS + 10), None);
}

/// Where the process that is to crash writes its last words.
const LAST_WORDS: &str = "KILN_TEST_LAST_WORDS";

/// Not a test by itself: the crash that the next test looks at.
#[test]
fn crash_when_told() {
    let Some(path) = std::env::var_os(LAST_WORDS).map(PathBuf::from) else {
        return;
    };
    let file = std::fs::File::create(path).unwrap();
    crate::cpu::install_fault_handler(file.as_raw_fd()).unwrap();
    let mut output = GuardedBuffer::new(4096, 1).unwrap();
    let mut input = GuardedBuffer::new(4096, 1).unwrap();
    input.protect(Access::ReadOnly).unwrap();
    // Of an earlier problem.
    watch_region(9, &output, true);
    forget_regions();
    watch_region(1, &output, false);
    watch_region(4, &input, true);
    // SAFETY: none at all. The page is read-only, and the process dies of it.
    unsafe { std::ptr::write_volatile(input.as_mut_ptr().add(8), 1) };
    output.bytes_mut()[0] = 1;
}

#[test]
fn a_bad_access_is_told_and_then_ends_the_process() {
    let folder = tempfile::tempdir().unwrap();
    let words = folder.path().join("words");
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "cpu::fault::tests::crash_when_told"])
        .env(LAST_WORDS, &words)
        .output()
        .unwrap()
        .status;
    assert_eq!(status.signal(), Some(libc::SIGSEGV));
    let said = std::fs::read(words).unwrap();
    let (response, _) = crate::frame::read_frame::<Response>(&mut said.as_slice())
        .unwrap()
        .unwrap();
    assert_eq!(response, Response::Fault(fault(4, 8, true)));
}
