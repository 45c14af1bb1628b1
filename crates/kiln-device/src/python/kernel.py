# A compiled kernel in the place of a function: in a process like a baseline's, captured and timed by the same code.

# As the driver numbers them.
TENSOR_MAP_TYPES = {
    "u8": 0, "i8": 0, "u16": 1, "i16": 1, "u32": 2, "i32": 3, "u64": 4, "i64": 5, "f16": 6, "f32": 7, "f64": 8, "bf16": 9,
}
TENSOR_MAP_SWIZZLES = {"none": 0, "32B": 1, "64B": 2, "128B": 3}
NO_INTERLEAVE, PROMOTE_128_BYTES, OUTSIDE_IS_ZERO = 0, 2, 0
COOPERATIVE, CLUSTER_DIMENSION = 2, 4
MAX_DYNAMIC_SHARED, NON_PORTABLE_CLUSTER = 8, 14
SHARED_WITHOUT_ASKING = 48 << 10
PORTABLE_CLUSTER = 8
SCALAR_FORMATS = {
    "f16": "e", "f32": "f", "f64": "d", "i8": "b", "i16": "h", "i32": "i", "i64": "q", "u8": "B", "u16": "H", "u32": "I", "u64": "Q",
}


def is_image(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


class LaunchAttribute(ctypes.Structure):
    _fields_ = [("id", ctypes.c_uint), ("pad", ctypes.c_char * 4), ("value", ctypes.c_uint * 16)]


class LaunchConfig(ctypes.Structure):
    _fields_ = [
        ("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("shared", ctypes.c_uint), ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(LaunchAttribute)), ("attribute_count", ctypes.c_uint),
    ]


def scalar_bytes(dtype, value):
    """Eight bytes that begin with the value as the kernel takes it."""
    if dtype == "bf16":
        bits = struct.unpack("<I", struct.pack("<f", value))[0]
        raw = struct.pack("<H", (bits + 0x7FFF + (bits >> 16 & 1)) >> 16 if value == value else 0x7FC0)
    else:
        raw = struct.pack("<" + SCALAR_FORMATS[dtype], value)
    return raw.ljust(8, b"\0")


class Kernel:
    """An image that was loaded through the driver, into torch's context."""

    def __init__(self, torch, path, symbol):
        self.torch = torch
        self.driver = ctypes.CDLL("libcuda.so.1")
        # The driver uses the context that is current in this thread: torch's, once it has done something.
        torch.zeros(1, device="cuda")
        self.module, self.function = ctypes.c_void_p(), ctypes.c_void_p()
        with open(path, "rb") as file:
            image = file.read()
        self._ask("cuModuleLoadData", ctypes.byref(self.module), image)
        self._ask("cuModuleGetFunction", ctypes.byref(self.function), self.module, symbol.encode())

    def unload(self):
        self.torch.cuda.synchronize()
        self._ask("cuModuleUnload", self.module)

    def _ask(self, name, *arguments):
        self._check(getattr(self.driver, name)(*arguments), name)

    def _check(self, code, name):
        if code:
            found = ctypes.c_char_p()
            self.driver.cuGetErrorName(code, ctypes.byref(found))
            raise Refused("Device", code=code, name="%s from %s" % ((found.value or b"CUDA_ERROR_UNKNOWN").decode(), name))

    def bind(self, problem, launch):
        """A call without arguments that queues one launch on torch's current stream."""
        addresses = {buffer.index: buffer.array.data_ptr() for buffer in problem.buffers}
        values = []
        for index, argument in enumerate(problem.arguments):
            (kind, spec), = argument.items()
            if kind == "Buffer":
                values.append(ctypes.c_uint64(addresses[index]))
            elif kind == "Scalar":
                values.append(ctypes.create_string_buffer(scalar_bytes(spec["dtype"], problem.values[spec["name"]]), 8))
            elif spec["tile"]:
                values.append(self._tensor_map(spec, addresses[spec["tensor"]]))
        parameters = (ctypes.c_void_p * max(1, len(values)))(*[ctypes.addressof(value) for value in values])
        config = self._config(launch)
        start, current = self.driver.cuLaunchKernelEx, self.torch.cuda.current_stream

        def call():
            config.stream = current().cuda_stream
            self._check(start(ctypes.byref(config), self.function, parameters, None), "cuLaunchKernelEx")

        # Everything the driver reads lives as long as the call.
        call.kept = (values, parameters, config)
        return call

    def _config(self, launch):
        if launch["shared_bytes"] > SHARED_WITHOUT_ASKING:
            self._ask("cuFuncSetAttribute", self.function, MAX_DYNAMIC_SHARED, launch["shared_bytes"])
        attributes = []
        if launch["cluster"]:
            if math.prod(launch["cluster"]) > PORTABLE_CLUSTER:
                self._ask("cuFuncSetAttribute", self.function, NON_PORTABLE_CLUSTER, 1)
            attributes.append(LaunchAttribute(CLUSTER_DIMENSION, b"", (ctypes.c_uint * 16)(*launch["cluster"])))
        if launch["cooperative"]:
            attributes.append(LaunchAttribute(COOPERATIVE, b"", (ctypes.c_uint * 16)(1)))
        return LaunchConfig(
            (ctypes.c_uint * 3)(*launch["grid"]), (ctypes.c_uint * 3)(*launch["block"]), launch["shared_bytes"], None,
            (LaunchAttribute * max(1, len(attributes)))(*attributes), len(attributes),
        )

    def _tensor_map(self, spec, address):
        # The driver counts dimensions from the innermost.
        dims, tile = spec["extents"][::-1], spec["tile"][::-1]
        strides, stride = [], SIZES[spec["dtype"]]
        for extent in dims[:-1]:
            stride *= extent
            strides.append(stride)
        rank = len(dims)
        # 128 bytes that begin at a multiple of 64.
        memory = ctypes.create_string_buffer(128 + 64)
        start = -(-ctypes.addressof(memory) // 64) * 64
        self._ask(
            "cuTensorMapEncodeTiled", ctypes.c_void_p(start), TENSOR_MAP_TYPES[spec["dtype"]], rank, ctypes.c_void_p(address),
            (ctypes.c_uint64 * rank)(*dims), (ctypes.c_uint64 * max(1, rank - 1))(*strides), (ctypes.c_uint32 * rank)(*tile),
            (ctypes.c_uint32 * rank)(*[1] * rank), NO_INTERLEAVE, TENSOR_MAP_SWIZZLES[spec["swizzle"]], PROMOTE_128_BYTES, OUTSIDE_IS_ZERO,
        )
        return (ctypes.c_char * 128).from_buffer(memory, start - ctypes.addressof(memory))


