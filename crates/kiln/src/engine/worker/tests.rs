#![allow(clippy::unwrap_used)]

use std::process::{Command, Stdio};

use kiln_core::dtype::DType;
use kiln_core::manifest::{Fill, Role};
use kiln_core::protocol::ArgumentSpec;
use kiln_device::python::Mode;

use super::*;
use crate::settings;

fn vector(name: &str, role: Role) -> ArgumentSpec {
    ArgumentSpec::Buffer {
        name: name.into(),
        dtype: DType::F32,
        extents: vec![3],
        role,
        fill: Fill::Integers { low: 0, high: 0 },
        seen_as: DType::F32,
    }
}

#[test]
fn python_that_forgot_its_program_is_given_it_again() {
    let python = settings::python();
    let numpy = Command::new(&python)
        .args(["-c", "import numpy"])
        .stderr(Stdio::null())
        .status();
    if !numpy.is_ok_and(|status| status.success()) {
        println!("skipped: no {python} with numpy");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("plain.py");
    std::fs::write(&file, "import numpy\ndef f(x):\n    return x + 1\n").unwrap();
    let image = file.display().to_string();
    let deadline = Duration::from_secs(60);
    let mut worker = Worker::spawn(&WorkerKind::Python(Mode::Baseline)).unwrap();
    let problem = Problem {
        shape: "target".into(),
        seed: 1,
        dimensions: Vec::new(),
        arguments: vec![vector("x", Role::Input), vector("y", Role::Output)],
        launch: None,
        variation: None,
    };
    let check = Request::Check {
        cores: kiln_core::protocol::Cores::Any,
        poison: 0,
    };
    for _ in 0..2 {
        worker.load(&image, "f", deadline).unwrap();
        // The inputs are sent again, too: they went with the program.
        worker.prepare(&problem, deadline).unwrap();
        let (_, outputs) = worker.request(&check, deadline).unwrap();
        assert_eq!(outputs, [1.0f32.to_le_bytes(); 3].concat());
        worker.unload(deadline).unwrap();
    }
}
