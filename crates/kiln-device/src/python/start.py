"""A long-lived Python process that serves kiln's worker protocol for a function in a user's file.

Started by kiln as `python3 -u -c TEXT-OF-THIS-FILE MODE`; nothing is written to disk. MODE is

  reference  the right answer: floating inputs arrive as float64 (holding the values the declared
             type could hold), floating outputs leave as float64
  baseline   the thing to beat: every buffer has its declared type, and calls can be timed
  profiled   the same under a profiler, which is switched on for the function's own calls only

Frames are those of `frame.rs`: header length (u32), payload length (u64), JSON header, payload.
Headers are the `Request` and `Response` enums of kiln-core as serde writes them.

`Load` names a file and a function. `Prepare` brings the raw bytes of all input and inout buffers in
argument order; the last few problems are remembered by shape and seed, and an empty payload, or the
same one again, comes back to one of them with its captured calls. The function is called by keyword
with whatever its parameters name: arguments of the kernel, or dimensions of the shape. It returns
its outputs (one value, a tuple in argument order, or a dictionary), or writes into the outputs it
takes as parameters. Where the file is a kernel's image, it is launched instead, as a package in Python
would: captured and timed by the very code that times a baseline.

Buffers are torch tensors, on the GPU if torch can use one. They are NumPy arrays if torch is
missing or if the user's file imports NumPy and not torch. Needs Python 3.8.

The parts of this program are joined into one text, in this order: start, pipes, arrays, problem,
kernel, timing, child.
"""

import sys

# `-c` puts the current folder first on the path; a `json.py` there must not become ours.
sys.path[:] = [entry for entry in sys.path if entry != ""]

import ast
import contextlib
import ctypes
import fcntl
import gc
import hashlib
import importlib.util
import inspect
import json
import keyword
import math
import os
import re
import resource
import select
import signal
import struct
import threading
import time
import traceback

PROTOCOL = 6
MAX_HEADER_BYTES = 64 << 20
MAX_PAYLOAD_BYTES = 16 << 30
REMEMBERED_PROBLEMS = 4
REMEMBERED_GRAPHS = 4
MESSAGE_CHARS = 2000
# Work queued in front of a timed launch, so that the clock does not see Python submitting it.
# `torch.cuda._sleep` counts SM clocks; 2 GHz is near the top of today's GPUs, and a slower clock
# only makes the wait longer. A kernel's burst waits as long: a device that stood still is slower at first.
SPIN_NANOS = 100_000
SPIN_CLOCKS_PER_NANO = 2
MAX_SPIN_NANOS = 100_000_000
ENERGY_SECONDS = 0.5
# The first graph of more than some 20 launches that a process runs right after it captured it is faster than all later ones,
# on an H200 by 0.17 us to 0.35 us of each launch, and no longer so once there is another. Programs have several.
GRAPHS_MADE = 3

SIZES = {
    "f16": 2, "bf16": 2, "f32": 4, "f64": 8,
    "i8": 1, "i16": 2, "i32": 4, "i64": 8,
    "u8": 1, "u16": 2, "u32": 4, "u64": 8,
}
FLOATS = ("f16", "bf16", "f32", "f64")
TORCH_NAMES = {
    "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64",
    "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64",
    "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64",
}


class Refused(Exception):
    """An answer that says no; the child goes on."""

    def __init__(self, kind, **fields):
        super().__init__(kind)
        self.answer = {"Refused": {kind: fields}}


def bad_task(message):
    return Refused("BadTask", message=message[:MESSAGE_CHARS])


def note(text):
    print("note: " + text, file=sys.stderr, flush=True)


def first_line(error):
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


def is_fatal(error):
    """After such an error the process's CUDA context is of no more use."""
    text = str(error)
    from_driver = type(error).__name__ == "AcceleratorError" or (
        isinstance(error, RuntimeError) and "CUDA error: " in text
    )
    return from_driver and "captur" not in text


def bytes_wanted(error):
    """How much memory was asked for, if that is what went wrong."""
    text = str(error)
    is_memory = isinstance(error, MemoryError) or "OutOfMemoryError" in type(error).__name__
    is_memory = is_memory or "DefaultCPUAllocator" in text or "CUDA error: out of memory" in text
    if not is_memory:
        return None
    asked = re.search(r"(?:allocate|allocate:)\s+([\d.]+)\s*([KMGTP]i?B|bytes)", text)
    if not asked:
        return 0
    unit = asked.group(2)[0].upper()
    return int(float(asked.group(1)) * 1024 ** "BKMGTP".index(unit))


def describe(error, folder):
    """The exception and the places that led to it: the user's own last ones, then the innermost."""
    lines = ["".join(traceback.format_exception_only(type(error), error)).strip()[:1200]]
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename != "<string>"]
    own = [f for f in frames if folder and f.filename.startswith(folder + os.sep)]
    chosen = own[-3:]
    if frames and frames[-1] not in chosen:
        chosen.append(frames[-1])
    for frame in reversed(chosen):
        name = frame.filename
        if folder and name.startswith(folder + os.sep):
            name = name[len(folder) + 1 :]
        code = ": " + frame.line if frame.line else ""
        lines.append("  at %s:%d in `%s`%s" % (name, frame.lineno or 0, frame.name, code))
    return "\n".join(lines)[:MESSAGE_CHARS]


