//! `.npy` files: exactly the elements that are wanted, or a message. The first two bytes of an input
//! choose what is wanted.

use kiln_core::dtype::DType;
use kiln_device::npy;

const TYPES: [DType; 6] = [
    DType::F32,
    DType::F16,
    DType::Bf16,
    DType::F64,
    DType::I8,
    DType::U64,
];

pub fn check(data: &[u8]) {
    let [kind, count, file @ ..] = data else {
        return;
    };
    let dtype = TYPES[usize::from(*kind) % TYPES.len()];
    let elements = usize::from(*count);
    match npy::elements(file, dtype, elements) {
        Ok(bytes) => assert_eq!(bytes.len(), elements * dtype.size_bytes()),
        Err(message) => assert!(!message.is_empty()),
    }
    // Nothing is read that is not there, whatever is asked for.
    assert!(npy::elements(file, dtype, usize::MAX / 4).is_err());
    if let Ok(wide) = npy::expected(file, dtype, elements) {
        let size = if dtype.is_float() {
            8
        } else {
            dtype.size_bytes()
        };
        assert_eq!(wide.len(), elements * size);
    }
}
