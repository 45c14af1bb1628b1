"""One launch of a kernel: the driver through ctypes, images on a device, and everything about a kind of call that stays."""

import ctypes
import math

import torch

from ._expressions import Argument, KernelError

DTYPES = {
    "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64",
    "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64",
    "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64",
}
SIZES = {"f16": 2, "bf16": 2, "f32": 4, "f64": 8, "i8": 1, "i16": 2, "i32": 4, "i64": 8, "u8": 1, "u16": 2, "u32": 4, "u64": 8}
# As the driver numbers the element types and swizzles of a descriptor.
TENSOR_MAP_TYPES = {"u8": 0, "i8": 0, "u16": 1, "i16": 1, "u32": 2, "i32": 3, "u64": 4, "i64": 5, "f16": 6, "f32": 7, "f64": 8, "bf16": 9}
SWIZZLES = {"none": 0, "32B": 1, "64B": 2, "128B": 3}

# Descriptors kept per tensor and launch; beyond that the oldest go.
MOST_DESCRIPTORS = 1024

# Kernels were checked on buffers that begin at multiples of these, and may load whole vectors or cache lines.
ALIGNMENT = {"cuda": 16, "cpu": 64}

SHARED_WITHOUT_ASKING = 48 << 10
PORTABLE_CLUSTER = 8


def scalar_bytes(dtype, value):
    """A scalar as the kernel takes it."""
    if dtype in ("f16", "bf16", "f32", "f64"):
        tensor = torch.tensor([value], dtype=torch.float64).to(getattr(torch, DTYPES[dtype]))
        raw = tensor.view(torch.uint8).tolist()
        return bytes(raw)
    bits = 8 * SIZES[dtype]
    low, high = (0, 2**bits - 1) if dtype[0] == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    if not low <= value <= high:
        raise KernelError(f"a scalar of {value} does not fit `{dtype}`")
    return int(value).to_bytes(SIZES[dtype], "little", signed=dtype[0] != "u")


# Scalars that a call may set: kept as what C calls them, so that setting one is cheap.
C_TYPES = {
    "f32": ctypes.c_float, "f64": ctypes.c_double,
    "i8": ctypes.c_int8, "i16": ctypes.c_int16, "i32": ctypes.c_int32, "i64": ctypes.c_int64,
    "u8": ctypes.c_uint8, "u16": ctypes.c_uint16, "u32": ctypes.c_uint32, "u64": ctypes.c_uint64,
}


def set_scalar(cell, argument, value):
    try:
        cell.value = value
    except TypeError:
        raise KernelError(f"`{argument.name}` is a {type(value).__name__}, expected a number of type {argument.dtype}") from None
    # Whole numbers would wrap.
    if argument.dtype[0] != "f" and cell.value != value:
        raise KernelError(f"`{argument.name}` is {value}, which does not fit `{argument.dtype}`")


def numbers(values):
    return "[" + ", ".join(str(int(v)) for v in values) + "]"


# The driver.


class LaunchAttribute(ctypes.Structure):
    _fields_ = [("id", ctypes.c_uint), ("pad", ctypes.c_char * 4), ("value", ctypes.c_uint * 16)]


class LaunchConfig(ctypes.Structure):
    _fields_ = [
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(LaunchAttribute)),
        ("attribute_count", ctypes.c_uint),
    ]


class Driver:
    """libcuda, with the calls that are made here."""

    def __init__(self):
        try:
            library = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise KernelError(f"no NVIDIA driver: libcuda.so.1 cannot be loaded ({error})") from None
        pointer, uint, integer = ctypes.c_void_p, ctypes.c_uint, ctypes.c_int
        functions = {
            "cuGetErrorName": [integer, ctypes.POINTER(ctypes.c_char_p)],
            "cuCtxGetCurrent": [ctypes.POINTER(pointer)],
            "cuCtxSetCurrent": [pointer],
            "cuDeviceGet": [ctypes.POINTER(integer), integer],
            "cuDevicePrimaryCtxRetain": [ctypes.POINTER(pointer), integer],
            "cuModuleLoadData": [ctypes.POINTER(pointer), ctypes.c_char_p],
            "cuModuleGetFunction": [ctypes.POINTER(pointer), pointer, ctypes.c_char_p],
            "cuFuncSetAttribute": [pointer, integer, integer],
            "cuLaunchKernelEx": [pointer, pointer, pointer, pointer],
            "cuTensorMapEncodeTiled": [pointer, integer, uint, pointer, pointer, pointer, pointer, pointer, integer, integer, integer, integer],
        }
        for name, types in functions.items():
            function = getattr(library, name, None)
            if function is None:
                raise KernelError(f"the NVIDIA driver is too old: it has no {name} (CUDA 12.0 has)")
            function.argtypes = types
            function.restype = integer
            setattr(self, name, function)

    def check(self, code, what):
        if code:
            name = ctypes.c_char_p()
            known = self.cuGetErrorName(code, ctypes.byref(name)) == 0 and name.value
            raise KernelError(f"{what}: {name.value.decode() if known else 'CUDA_ERROR_UNKNOWN'} ({code})")

    def enter(self, index):
        """Makes the device's primary context, which is PyTorch's, current in this thread, unless one is."""
        current = ctypes.c_void_p()
        self.check(self.cuCtxGetCurrent(ctypes.byref(current)), "the driver does not answer")
        if not current.value:
            device, context = ctypes.c_int(), ctypes.c_void_p()
            self.check(self.cuDeviceGet(ctypes.byref(device), index), "there is no such GPU")
            self.check(self.cuDevicePrimaryCtxRetain(ctypes.byref(context), device), "the GPU refuses a context")
            self.check(self.cuCtxSetCurrent(context), "the context cannot be made current")


class LoadedImage:
    """A function in a module on one GPU."""

    def __init__(self, driver, path, symbol, image):
        self.driver = driver
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        driver.check(driver.cuModuleLoadData(ctypes.byref(module), image), f"the driver does not take `{path}`")
        driver.check(driver.cuModuleGetFunction(ctypes.byref(function), module, symbol.encode()), f"no kernel `{symbol}` in `{path}`")
        self.function = function
        self.granted = SHARED_WITHOUT_ASKING

    def grant(self, shared):
        if shared > self.granted:
            self.driver.check(self.driver.cuFuncSetAttribute(self.function, 8, shared), f"{shared} bytes of shared memory")
            self.granted = shared

    def allow_large_clusters(self):
        self.driver.check(self.driver.cuFuncSetAttribute(self.function, 14, 1), "a large cluster")


def fits(architecture, capability):
    """Whether an image made for an architecture, such as `sm_90a`, runs on a device."""
    digits = architecture[3:].rstrip("abcdefghijklmnopqrstuvwxyz")
    if not architecture.startswith("sm_") or not digits.isdigit():
        return False
    own = divmod(int(digits), 10)
    if architecture.endswith("a"):
        return own == tuple(capability)
    return own[0] == capability[0] and own[1] <= capability[1]


class Descriptors:
    """Descriptors of one tensor argument in one launch, by address."""

    def __init__(self, driver, argument, extents, box):
        self.driver = driver
        self.name = argument.name
        self.kept = {}
        rank = len(box)
        merged = max(1, len(extents) + 1 - rank)
        seen = [math.prod(extents[:merged]), *extents[merged:]]
        # The driver counts dimensions from the innermost.
        dims = [int(e) for e in reversed(seen)]
        strides, stride = [], SIZES[argument.dtype]
        for extent in dims[:-1]:
            stride *= extent
            strides.append(stride)
        self.fixed = (
            TENSOR_MAP_TYPES[argument.dtype], rank,
            (ctypes.c_uint64 * rank)(*dims), (ctypes.c_uint64 * max(1, rank - 1))(*strides),
            (ctypes.c_uint32 * rank)(*[int(e) for e in reversed(box)]), (ctypes.c_uint32 * rank)(*[1] * rank),
            SWIZZLES[argument.swizzle],
        )

    def make(self, address):
        if len(self.kept) >= MOST_DESCRIPTORS:
            for oldest in list(self.kept)[: MOST_DESCRIPTORS // 2]:
                del self.kept[oldest]
        # 128 bytes that begin at a multiple of 64.
        memory = ctypes.create_string_buffer(128 + 64)
        start = -(-ctypes.addressof(memory) // 64) * 64
        kind, rank, dims, strides, box, steps, swizzle = self.fixed
        code = self.driver.cuTensorMapEncodeTiled(start, kind, rank, address, dims, strides, box, steps, 0, swizzle, 2, 0)
        self.driver.check(code, f"a descriptor for `{self.name}`: {list(dims)} in boxes of {list(box)}, innermost first")
        self.kept[address] = (start, memory)
        return start


class Launch:
    """Everything about one kind of call that does not change between calls."""

    def __init__(self, kernel, choice, dims, device):
        self.choice = choice
        config = choice.config
        values = config.arguments(*dims)
        count = len(kernel.arguments)
        self.parameters = (ctypes.c_void_p * count)()
        self.keep = []
        self.inputs, self.made, self.descriptors = [], [], []
        buffers = (ctypes.c_uint64 * count)()
        self.buffers = buffers
        on_gpu = device.type == "cuda"
        place = {}
        self.scalars = [(C_TYPES[kernel.arguments[at].dtype](default), kernel.arguments[at]) for at, default in kernel.table.SCALARS]
        for (at, _), (cell, _) in zip(kernel.table.SCALARS, self.scalars):
            self.parameters[at] = ctypes.addressof(cell)
        for at, argument in enumerate(kernel.arguments):
            if argument.kind == "scalar":
                if self.parameters[at]:
                    continue
                raw = ctypes.create_string_buffer(scalar_bytes(argument.dtype, values[at]), 8)
                self.keep.append(raw)
                self.parameters[at] = ctypes.addressof(raw)
            elif argument.kind == "buffer":
                # A kernel on the GPU takes the address of an address.
                self.parameters[at] = ctypes.addressof(buffers) + 8 * at if on_gpu else None
                place[at] = values[at]
                if argument.role in ("input", "inout"):
                    self.inputs.append(at)
                else:
                    like = None
                    for number, other in enumerate(self.inputs):
                        same = tuple(place[other]) == tuple(values[at]) and kernel.arguments[other].dtype == argument.dtype
                        like = number if same and like is None else like
                    dtype = getattr(torch, DTYPES[argument.dtype])
                    self.made.append((at, argument.role, tuple(int(e) for e in values[at]), dtype, like))
        self.outputs = [number for number, made in enumerate(self.made) if made[1] == "output"]
        self.on_gpu = on_gpu
        self.device = device
        self.misaligned = ALIGNMENT[device.type] - 1
        self.names = [argument.name for argument in kernel.takes]
        if not on_gpu:
            self.function = kernel.loaded(config, choice.image, device)
            return
        self.index = device.index
        driver = kernel.driver()
        self.driver = driver
        driver.enter(self.index)
        for at, argument in enumerate(kernel.arguments):
            if argument.kind == "tma":
                tensor = kernel.arguments[argument.tensor]
                named = Argument(tensor.name, "tma", tensor.dtype, swizzle=argument.swizzle)
                made = Descriptors(driver, named, place[argument.tensor], values[at])
                self.descriptors.append((at, argument.tensor, made.kept, made))
        image = kernel.loaded(config, choice.image, device)
        grid, block, cluster, shared, cooperative = config.launch(*dims)
        image.grant(shared)
        attributes = []
        if cluster:
            if math.prod(cluster) > PORTABLE_CLUSTER:
                image.allow_large_clusters()
            attributes.append(LaunchAttribute(4, b"", (ctypes.c_uint * 16)(*three(cluster))))
        if cooperative:
            attributes.append(LaunchAttribute(2, b"", (ctypes.c_uint * 16)(1)))
        made = (LaunchAttribute * max(1, len(attributes)))(*attributes)
        self.keep.append(made)
        self.config = LaunchConfig(
            (ctypes.c_uint * 3)(*three(grid)), (ctypes.c_uint * 3)(*three(block)), shared, None,
            ctypes.cast(made, ctypes.POINTER(LaunchAttribute)), len(attributes),
        )
        self.config_address = ctypes.addressof(self.config)
        self.parameters_address = ctypes.addressof(self.parameters)
        self.function = image.function
        self.call = driver.cuLaunchKernelEx

    def run(self, tensors, scalars):
        """Launches on tensors that were found fit, on PyTorch's current stream; returns the outputs."""
        for (cell, argument), value in zip(self.scalars, scalars):
            set_scalar(cell, argument, value)
        buffers = self.buffers
        number = 0
        for at in self.inputs:
            address = tensors[number].data_ptr()
            if address & self.misaligned:
                raise KernelError(
                    f"`{self.names[number]}` begins at an address that is no multiple of {self.misaligned + 1} bytes; pass it as `.clone()`"
                )
            buffers[at] = address
            number += 1
        made = []
        for at, role, extents, dtype, like in self.made:
            if role == "zeroed":
                tensor = torch.zeros(extents, dtype=dtype, device=self.device)
            elif like is not None:
                tensor = torch.empty_like(tensors[like])
            else:
                tensor = torch.empty(extents, dtype=dtype, device=self.device)
            buffers[at] = tensor.data_ptr()
            made.append(tensor)
        if self.on_gpu:
            parameters = self.parameters
            for at, tensor, kept, descriptors in self.descriptors:
                address = buffers[tensor]
                found = kept.get(address)
                parameters[at] = descriptors.make(address) if found is None else found[0]
            self.config.stream = raw_stream(self.index)
            code = self.call(self.config_address, self.function, self.parameters_address, None)
            if code:
                self.driver.check(code, "the launch")
        else:
            parameters = self.parameters
            for at in self.inputs:
                parameters[at] = buffers[at]
            for entry in self.made:
                parameters[entry[0]] = buffers[entry[0]]
            self.function(parameters)
        return [made[number] for number in self.outputs]


def three(extents):
    extents = [int(e) for e in extents]
    if any(e < 1 or e > 0xFFFFFFFF for e in extents):
        raise KernelError(f"{numbers(extents)} cannot be launched")
    return extents + [1] * (3 - len(extents))


# PyTorch's own generated code takes the raw stream so; the public way is slower by a microsecond.
raw_stream = getattr(torch._C, "_cuda_getCurrentRawStream", None) or (lambda index: torch.cuda.current_stream(index).cuda_stream)
