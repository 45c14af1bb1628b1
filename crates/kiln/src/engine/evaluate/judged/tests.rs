use super::*;
use kiln_core::dtype::DType;
use kiln_core::manifest::{Fill, Tolerance};
use kiln_core::protocol::{DeviceError, MemoryFault};

fn buffer(name: &str, role: Role, dtype: DType, elements: u64) -> ArgumentSpec {
    ArgumentSpec::Buffer {
        name: name.into(),
        dtype,
        extents: vec![elements],
        role,
        fill: Fill::Iota,
        seen_as: dtype,
    }
}

/// An input, an output, scratch, and an inout buffer.
fn problem() -> Problem {
    Problem {
        shape: "test".into(),
        seed: 1,
        dimensions: Vec::new(),
        arguments: vec![
            buffer("x", Role::Input, DType::F32, 9),
            buffer("y", Role::Output, DType::U32, 3),
            buffer("s", Role::Scratch, DType::F32, 5),
            buffer("z", Role::InOut, DType::U16, 2),
        ],
        launch: None,
        variation: None,
    }
}

fn expected(name: &str, dtype: DType, values: &[f64], tolerance: f64) -> Expected {
    let tolerance = Tolerance {
        rtol: 0.0,
        atol: Some(tolerance),
    };
    let mut output = Expected::new(name, dtype, vec![values.len() as u64], tolerance);
    output.fill(bytes(dtype, values));
    output
}

fn bytes(dtype: DType, values: &[f64]) -> Vec<u8> {
    let mut bytes = Vec::new();
    values.iter().for_each(|v| dtype.push_f64(*v, &mut bytes));
    bytes
}

/// Right values are far from zero, so that the norm of the whole leaves a few units to each.
fn answers() -> [Expected; 2] {
    [
        expected("y", DType::U32, &[1e6, 2e6, 3e6], 4.0),
        expected("z", DType::U16, &[5e4, 6e4], 2.0),
    ]
}

fn compared(y: &[f64], z: &[f64]) -> Result<f64, Fault> {
    let outputs = [bytes(DType::U32, y), bytes(DType::U16, z)].concat();
    compare(&problem(), &answers(), &outputs, 7)
}

#[test]
fn every_output_is_compared_with_its_own_answer() {
    let (y, z) = ([1e6, 2e6, 3e6], [5e4, 6e4]);
    assert_eq!(compared(&y, &z), Ok(0.0));
    assert_eq!(compared(&[1e6 + 1.0, 2e6, 3e6], &z), Ok(0.25));
    // The largest error of all counts.
    assert_eq!(compared(&[1e6 + 1.0, 2e6, 3e6], &[5e4, 6e4 - 1.0]), Ok(0.5));
    assert_eq!(
        compared(&[1e6 + 3.0, 2e6, 3e6], &[5e4, 6e4 - 1.0]),
        Ok(0.75)
    );
    let wrong = |result: Result<f64, Fault>| match result {
        Err(Fault::Numerics(fault)) => (fault.argument, fault.worst.index[0]),
        other => panic!("{other:?}"),
    };
    assert_eq!(wrong(compared(&[1e6, 2e6, 3e6 + 9.0], &z)), ("y".into(), 2));
    assert_eq!(wrong(compared(&y, &[5e4, 6e4 + 3.0])), ("z".into(), 1));
    assert_eq!(wrong(compared(&y, &[5e4])), ("z".into(), 1));
    assert_eq!(wrong(compared(&[], &[])), ("y".into(), 0));
}

#[test]
fn poison_that_is_still_there_is_seen_in_outputs_only() {
    let of = |index: u64, bytes: usize| input::poison(input::mix(&[7, index]), bytes);
    let unwritten =
        |y: Vec<u8>, z: Vec<u8>| match compare(&problem(), &answers(), &[y, z].concat(), 7) {
            Err(Fault::Numerics(fault)) => (fault.argument, fault.unwritten),
            other => panic!("{other:?}"),
        };
    let right_y = bytes(DType::U32, &[1e6, 2e6, 3e6]);
    let right_z = bytes(DType::U16, &[5e4, 6e4]);
    assert_eq!(unwritten(of(1, 12), right_z), ("y".into(), 3));
    // An inout buffer is not poisoned: what it holds is what somebody wrote.
    assert_eq!(unwritten(right_y, of(3, 4)), ("z".into(), 0));
}

#[test]
fn only_outputs_are_taken_for_outputs() {
    assert!(matches!(answer_outputs((Response::Outputs, vec![1, 2])), Ok(b) if b == [1, 2]));
    for other in [Response::Done, Response::Same] {
        assert!(matches!(
            answer_outputs((other, vec![1])),
            Err(WorkerEnd::Garbled(_))
        ));
    }
    assert!(matches!(
        inspected((Response::Same, Vec::new()), true),
        Ok(None)
    ));
    assert!(inspected((Response::Same, Vec::new()), false).is_err());
    assert!(matches!(inspected((Response::Outputs, vec![3]), true), Ok(Some(b)) if b == [3]));
    assert!(inspected((Response::Done, Vec::new()), true).is_err());
}

#[test]
fn nothing_is_faster_than_its_floor() {
    let floor = (100.0, "memory");
    let below = |samples: &[f64]| faster_than(floor, samples).is_some();
    assert!(below(&[99.0]) && below(&[50.0, 99.0, 500.0]));
    assert!(!below(&[100.0]) && !below(&[1.0, 101.0, 102.0]));
}

/// In one word, with what it is about.
fn meaning(end: WorkerEnd) -> String {
    match judge(end, &|argument| format!("#{argument}")) {
        Judged::Crash(cause) => format!("crash {cause:?}"),
        Judged::Fault(Fault::Canary {
            argument,
            offset,
            access,
        }) => format!("canary {argument} {offset} {access:?}"),
        Judged::Fault(Fault::InputModified { argument }) => format!("modified {argument}"),
        Judged::Fault(other) => format!("fault {other:?}"),
        Judged::TimedOut(after) => format!("timed out {}", after.as_secs()),
        Judged::Kiln(failure) => format!("kiln {}", failure.message),
    }
}

#[test]
fn every_end_of_a_worker_is_somebodys_doing() {
    let fault = |inside| {
        WorkerEnd::Fault(MemoryFault {
            argument: 2,
            offset: -4,
            inside,
        })
    };
    assert_eq!(meaning(fault(true)), "modified #2");
    assert_eq!(meaning(fault(false)), "canary #2 -4 PageHit");
    let refused = WorkerEnd::Refused;
    let zone = Refusal::GuardZone {
        argument: 1,
        offset: 12,
    };
    assert_eq!(meaning(refused(zone)), "canary #1 12 ZoneOverwritten");
    let modified = Refusal::InputModified { argument: 3 };
    assert_eq!(meaning(refused(modified)), "modified #3");
    for (end, word) in [
        (WorkerEnd::Signal(11), "crash Signal"),
        (WorkerEnd::Exited(0), "crash Exited"),
        (WorkerEnd::OutputFlood(9), "crash OutputFlood"),
        (WorkerEnd::Forbidden("fork".into()), "crash Forbidden"),
        (WorkerEnd::Garbled("?".into()), "crash Garbled"),
        (WorkerEnd::TimedOut(Duration::from_secs(3)), "timed out 3"),
        (
            refused(Refusal::NotLoadable {
                message: "?".into(),
            }),
            "crash NotLoadable",
        ),
        (
            refused(Refusal::OutOfMemory { bytes: 1 }),
            "crash OutOfMemory",
        ),
        (
            refused(Refusal::LeftProcesses { count: 1 }),
            "crash LeftProcesses",
        ),
        (
            refused(Refusal::Device(DeviceError {
                code: 700,
                name: "CUDA_ERROR_ILLEGAL_ADDRESS".into(),
            })),
            "crash Device",
        ),
        (
            refused(Refusal::NoDevice {
                message: "none".into(),
            }),
            "kiln none",
        ),
        (
            refused(Refusal::BadTask {
                message: "no file".into(),
            }),
            "kiln no file",
        ),
        (WorkerEnd::Interrupted, "kiln interrupted"),
    ] {
        let found = meaning(end);
        assert!(found.starts_with(word), "{found} is not {word}");
    }
}
