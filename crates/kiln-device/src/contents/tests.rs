use super::*;

fn problem(arguments: Vec<ArgumentSpec>) -> Problem {
    Problem {
        shape: "test".into(),
        seed: 5,
        dimensions: Vec::new(),
        arguments,
        launch: None,
        variation: None,
    }
}

fn buffer(role: Role, dtype: DType, seen_as: DType, elements: u64) -> ArgumentSpec {
    ArgumentSpec::Buffer {
        name: "x".into(),
        dtype,
        extents: vec![elements],
        role,
        fill: Fill::Uniform {
            low: 1.0,
            high: 2.0,
        },
        seen_as,
    }
}

fn values(bytes: &[u8], dtype: DType) -> Vec<f64> {
    let elements = bytes.chunks_exact(dtype.size_bytes());
    elements.map(|element| dtype.read_f64(element)).collect()
}

#[test]
fn the_reference_sees_what_the_kernel_sees() {
    // More than one piece, and a last one that is short.
    let elements = 2 * (1 << 16) + 3;
    for role in [Role::Input, Role::InOut] {
        let narrow = buffer(role, DType::F16, DType::F16, elements);
        let wide = buffer(role, DType::F16, DType::F64, elements);
        let seen = of_buffer(&problem(vec![]), 1, &narrow).unwrap();
        let by_reference = of_buffer(&problem(vec![]), 1, &wide).unwrap();
        assert_eq!(seen.len() as u64, 2 * elements);
        let same = values(&seen, DType::F16) == values(&by_reference, DType::F64);
        assert!(same, "{role:?}");
        assert_eq!(of_input(&problem(vec![]), 1, &wide).unwrap(), seen);
    }
    let output = buffer(Role::Output, DType::F16, DType::F64, 9);
    assert_eq!(of_buffer(&problem(vec![]), 1, &output), Ok(Vec::new()));
}

#[test]
fn every_argument_has_a_stream_of_its_own() {
    let mut task = problem(Vec::new());
    let plain: Vec<u64> = (0..3).map(|at| stream(&task, at)).collect();
    assert_eq!(plain[1], input::mix(&[5, 1]));
    assert_ne!(plain[0], plain[1]);
    task.variation = Some(Variation::Redrawn {
        argument: 1,
        seed: 77,
    });
    let varied: Vec<u64> = (0..3).map(|at| stream(&task, at)).collect();
    assert_eq!(varied, [plain[0], input::mix(&[77, 1]), plain[2]]);
}

#[test]
fn rounding_is_for_types_with_more_bits() {
    let mut task = problem(Vec::new());
    let f32s = buffer(Role::Input, DType::F32, DType::F32, 50);
    let bf16s = buffer(Role::Input, DType::Bf16, DType::Bf16, 50);
    let exact = values(&of_input(&task, 0, &f32s).unwrap(), DType::F32);
    let narrow = of_input(&task, 0, &bf16s).unwrap();
    task.variation = Some(Variation::Rounded(Coarser::F8));
    let rounded = values(&of_input(&task, 0, &f32s).unwrap(), DType::F32);
    let wanted: Vec<f64> = exact.iter().map(|v| Coarser::F8.round(*v)).collect();
    assert_eq!(rounded, wanted);
    assert_ne!(rounded, exact);
    task.variation = Some(Variation::Rounded(Coarser::Tf32));
    assert_eq!(of_input(&task, 0, &bf16s).unwrap(), narrow);
    // Integers are no approximations.
    let integers = ArgumentSpec::Buffer {
        name: "i".into(),
        dtype: DType::I32,
        extents: vec![40],
        role: Role::Input,
        fill: Fill::Iota,
        seen_as: DType::I32,
    };
    task.variation = Some(Variation::Rounded(Coarser::F8));
    let kept = values(&of_input(&task, 0, &integers).unwrap(), DType::I32);
    assert_eq!(kept, (0..40).map(f64::from).collect::<Vec<_>>());
}

#[test]
fn inputs_follow_each_other_and_outputs_are_left_out() {
    let arguments = vec![
        buffer(Role::Input, DType::F32, DType::F32, 3),
        buffer(Role::Output, DType::F32, DType::F32, 3),
        buffer(Role::InOut, DType::F16, DType::F64, 2),
    ];
    let task = problem(arguments.clone());
    let first = of_input(&task, 0, &arguments[0]).unwrap();
    let last = of_input(&task, 2, &arguments[2]).unwrap();
    assert_eq!((first.len(), last.len()), (12, 4));
    assert_eq!(inputs(&task).unwrap(), [first, last].concat());
}

#[test]
fn scalars_are_exact() {
    let large = (1i64 << 60) + 1;
    assert_eq!(
        of_scalar(DType::I64, &Value::Int(large)),
        large.to_le_bytes()
    );
    assert_eq!(
        of_scalar(DType::F32, &Value::Float(1.5))[..4],
        1.5f32.to_le_bytes()
    );
    assert_eq!(
        of_scalar(DType::I32, &Value::Int(-2))[..4],
        (-2i32).to_le_bytes()
    );
}

#[test]
fn a_file_that_is_missing_is_named() {
    let from_file = ArgumentSpec::Buffer {
        name: "x".into(),
        dtype: DType::F32,
        extents: vec![3],
        role: Role::Input,
        fill: Fill::File {
            path: "/nowhere/x.npy".into(),
        },
        seen_as: DType::F32,
    };
    let refused = of_buffer(&problem(vec![]), 0, &from_file);
    assert!(matches!(refused, Err(Refusal::BadTask { message }) if message.contains("input `x`")));
}
