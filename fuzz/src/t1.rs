//! T1 files: a space, or a message with its place.

use kiln_core::interchange::t1::Definition;

use super::{is_presentable, spaces};

pub fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let definition = match Definition::parse(text) {
        Ok(definition) => definition,
        Err(problem) => return is_presentable(&problem, text),
    };
    assert_eq!(definition.defaults.len(), definition.tunables.len());
    match definition.build(spaces::LIMITS) {
        Ok(space) => spaces::agree(&space, definition.rules(), &[]),
        Err(problem) => is_presentable(&problem, text),
    }
}
