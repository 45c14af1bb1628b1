//! The gates a manifest may set, and what holds where it does not.

use super::settings::{table, whole};
use super::{Key, Kind, Table};
use crate::manifest::{GateAction, GatePolicy};

/// Every gate; each has a line in the user's reference.
pub const GATES: [&str; 9] = [
    "threads",
    "memory",
    "threads_per_block",
    "shared_memory",
    "grid",
    "cluster",
    "registers",
    "spills",
    "occupancy",
];

/// Warps that hide latency by taking turns need about half of the places there are.
const LEAST_OCCUPANCY: i64 = 50;

/// What holds for a gate that the manifest does not mention. Its limit also holds where the
/// manifest gives none; without one it is the device's.
pub fn default_gate_policy(name: &str) -> GatePolicy {
    let is_off = GATE_TABLE.key(name).and_then(|k| k.default) == Some(OFF);
    GatePolicy {
        action: match is_off {
            true => GateAction::Off,
            false => GateAction::Reject,
        },
        limit: match name {
            "spills" => Some(0),
            "occupancy" => Some(LEAST_OCCUPANCY),
            _ => None,
        },
    }
}

const OFF: &str = "\"off\"";
const REJECT: &str = "\"reject\"";
const ACTION: Kind = Kind::Word(&["reject", "warn", "off"]);

const AT_MOST: &[Kind] = &[ACTION, Kind::Table(&GATE)];

const fn gate(name: &'static str, doc: &'static str, example: &'static str) -> Key {
    Key::optional(name, AT_MOST, doc, example).or(REJECT)
}

pub(super) static GATE_TABLE: Table = table(
    "What happens to a config that exceeds a limit.",
    &[
        gate(
            GATES[0],
            "Threads a C kernel starts, against the processor's.",
            "threads = \"warn\"",
        ),
        gate(
            GATES[1],
            "Bytes of all buffers on the target shape, against the memory there is.",
            "memory = { limit = 8_000_000_000 }",
        ),
        gate(
            GATES[2],
            "Threads per block (CUDA).",
            "threads_per_block = { limit = 512 }",
        ),
        gate(
            GATES[3],
            "Shared memory per block in bytes: `shared` of `[launch]`, and with what the source declares after compiling (CUDA).",
            "shared_memory = { limit = 49152 }",
        ),
        gate(GATES[4], "Blocks per grid (CUDA).", "grid = \"off\""),
        gate(
            GATES[5],
            "Blocks per cluster; the limit is 8, which every device with clusters can run, and 1 on the others. The grid must be a multiple (CUDA).",
            "cluster = { limit = 16 }",
        ),
        gate(
            GATES[6],
            "Registers of one block as they are allocated, warp by warp; the limit is the most a block can have. Known after compiling (CUDA).",
            "registers = { limit = 32768 }",
        ),
        gate(
            GATES[7],
            "Bytes of registers spilled per thread; the limit is 0. Known after compiling (CUDA).",
            "spills = { limit = 64 }",
        )
        .or(OFF),
        Key::optional(
            GATES[8],
            &[ACTION, Kind::Table(&LEAST)],
            "Part of a multiprocessor's warps that can be active, in percent; at least 50. Known after compiling (CUDA).",
            "occupancy = { action = \"warn\", limit = 25 }",
        )
        .or(OFF),
    ],
);

static GATE: Table = table(
    "A gate with its own limit.",
    &[
        Key::optional(
            "action",
            &[ACTION],
            "What happens to a config over the limit.",
            "action = \"warn\"",
        )
        .or(REJECT),
        Key::optional(
            "limit",
            &[whole(0, i64::MAX)],
            "Replaces the gate's limit, which is the device's where the gate has none of its own.",
            "limit = 8",
        ),
    ],
);

static LEAST: Table = table(
    "A gate with its own least value.",
    &[
        Key::optional(
            "action",
            &[ACTION],
            "What happens to a config below the limit.",
            "action = \"warn\"",
        )
        .or(REJECT),
        Key::optional(
            "limit",
            &[whole(0, 100)],
            "The least percentage that passes.",
            "limit = 25",
        )
        .or("50"),
    ],
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_holds_where_nothing_is_written() {
        let policy = |name: &str| {
            let GatePolicy { action, limit } = default_gate_policy(name);
            (action, limit)
        };
        assert_eq!(policy("threads"), (GateAction::Reject, None));
        assert_eq!(policy("registers"), (GateAction::Reject, None));
        assert_eq!(policy("cluster"), (GateAction::Reject, None));
        assert_eq!(policy("spills"), (GateAction::Off, Some(0)));
        assert_eq!(policy("occupancy"), (GateAction::Off, Some(50)));
    }

    #[test]
    fn every_gate_has_its_key() {
        assert_eq!(
            GATE_TABLE.keys.iter().map(|k| k.name).collect::<Vec<_>>(),
            GATES
        );
    }
}
