"""Launches an exported kernel from PyTorch: the driver through ctypes, no compiler, no build step.

What is tuned, for which shapes and how it is launched is in `_table.py`; this file is the same in every package.
A call finds its launch by the shapes, types and device of its tensors. The first of a kind works it out (which
config, which geometry, which scalars) and keeps it; from then on a call only fills in addresses and the stream.
"""

import ctypes
import hashlib
import importlib.util
import inspect
import math
import os
import sys
import threading
import warnings

import torch


class KernelError(RuntimeError):
    """A call that cannot be made, with the reason."""


class NearestShape(UserWarning):
    """A shape that was not tuned runs with the config of the nearest one."""


class FallsBack(UserWarning):
    """No exported config fits, so the fallback computes the answer."""


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
# Launches kept per thread; beyond that all are worked out anew, as dynamic shapes may be without end.
MOST_LAUNCHES = 4096

# Kernels were checked on buffers that begin at multiples of these, and may load whole vectors or cache lines.
ALIGNMENT = {"cuda": 16, "cpu": 64}

SHARED_WITHOUT_ASKING = 48 << 10
PORTABLE_CLUSTER = 8


# Functions of kiln's expressions that Python has no word for.


def _ceil_div(a, b):
    return -(-a // b)


def _align_up(a, b):
    return _ceil_div(a, b) * b


def _gcd(a, b):
    return math.gcd(a, b)


def _lcm(a, b):
    return abs(a * b) // math.gcd(a, b) if a and b else 0


def _is_pow2(a):
    return a > 0 and a & (a - 1) == 0


def _whole_abs(a):
    return abs(a)


def _real_abs(a):
    return abs(a)


def _real_log2(a):
    if a > 0:
        return math.log2(a)
    return -math.inf if a == 0 else math.nan


def _real_sqrt(a):
    return math.sqrt(a) if a >= 0 else math.nan


def _whole_floor(a):
    return math.floor(a)


def _whole_ceil(a):
    return math.ceil(a)


def _whole_trunc(a):
    return math.trunc(a)


def _whole_round(a):
    return math.floor(a + 0.5) if a >= 0 else -math.floor(0.5 - a)


class Config:
    """One config: what its images are, where it is legal, how it is launched."""

    def __init__(self, id, values, images, legal, launch, arguments):
        self.id = id
        self.values = values
        self.images = images
        self.legal = legal
        self.launch = launch
        self.arguments = arguments


class Argument:
    def __init__(self, name, kind, dtype, role=None, tensor=None, swizzle=None):
        self.name = name
        self.kind = kind
        self.dtype = dtype
        self.role = role
        self.tensor = tensor
        self.swizzle = swizzle


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
current_device = getattr(torch._C, "_cuda_getDevice", None) or torch.cuda.current_device
is_compiling = torch.compiler.is_compiling
PLAIN = (torch.Tensor, torch.nn.Parameter)


class Choice:
    """What runs on a problem, and why."""

    def __init__(self, config, image, entry, exact):
        self.config = config
        self.image = image
        self.entry = entry
        self.exact = exact


class Kernel:
    def __init__(self, table, folder):
        self.table = table
        self.folder = folder
        self.name = table.KERNEL
        self.arguments = table.ARGUMENTS
        self.takes = [a for a in self.arguments if a.kind == "buffer" and a.role in ("input", "inout")]
        self.gives = [a for a in self.arguments if a.kind == "buffer" and a.role == "output"]
        self.mutates = [a.name for a in self.takes if a.role == "inout"]
        self.dtypes = [getattr(torch, DTYPES[a.dtype]) for a in self.takes]
        self.configs = {config.id: config for config in table.CONFIGS}
        self.local = threading.local()
        self.lock = threading.Lock()
        self.images = {}
        self.the_driver = None
        self.fallback_function = None
        self.warned = set()
        self.use_nearest = True

    # The call.

    def __call__(self, tensors, parameters, scalars):
        """Tensors in the manifest's order, parameters and scalars in the table's."""
        key = (parameters, *[(t.shape, t.dtype, t.device) for t in tensors])
        try:
            launch = self.local.launches[key]
        except (AttributeError, KeyError):
            launch = self.find(key, tensors, parameters)
        for tensor in tensors:
            if not tensor.is_contiguous():
                raise self.not_contiguous(tensors)
        if launch is None or torch.is_grad_enabled() and any([t.requires_grad for t in tensors]):
            return self.fall_back(tensors, parameters, scalars, launch is not None)
        if launch.on_gpu and current_device() != launch.index:
            with torch.cuda.device(launch.index):
                made = launch.run(tensors, scalars)
        else:
            made = launch.run(tensors, scalars)
        if len(made) == 1:
            return made[0]
        return tuple(made) if made else None

    def find(self, key, tensors, parameters):
        """The launch for a kind of call, worked out once per thread; nothing where no config fits."""
        dims = self.check(tensors, parameters)
        device = tensors[0].device
        choice, why = self.choose(dims, device)
        launch = None
        if choice is not None:
            if device.type == "cuda":
                with torch.cuda.device(device):
                    launch = Launch(self, choice, dims, device)
            else:
                launch = Launch(self, choice, dims, device)
            if not choice.exact:
                self.warn(
                    NearestShape,
                    f"{self.name}: {self.in_words(dims)} was not tuned; the config of shape `{choice.entry['shape']}` is used, "
                    "the nearest where it is legal (said once; `explain` tells for any call)",
                )
        elif self.table.FALLBACK is None:
            raise KernelError(f"{self.name}: {why}, and the package has no fallback")
        else:
            self.warn(FallsBack, f"{self.name}: {why}; `{self.table.FALLBACK[1]}` computes the answer (said once)")
        launches = self.local.__dict__.setdefault("launches", {})
        if len(launches) >= MOST_LAUNCHES:
            launches.clear()
        launches[key] = launch
        return launch

    def warn(self, kind, text):
        if kind not in self.warned:
            self.warned.add(kind)
            warnings.warn(text, kind, stacklevel=5)

    # What is asked of arguments.

    def check(self, tensors, parameters):
        """The dimensions of a call; an error where the tensors do not belong together."""
        for argument, tensor, dtype in zip(self.takes, tensors, self.dtypes):
            if not isinstance(tensor, torch.Tensor):
                raise KernelError(f"{self.name}: `{argument.name}` is a {type(tensor).__name__}, not a tensor")
            if tensor.dtype != dtype:
                raise KernelError(f"{self.name}: `{argument.name}` has the type {tensor.dtype}, expected {dtype}")
            if tensor.device != tensors[0].device:
                raise KernelError(
                    f"{self.name}: `{argument.name}` is on {tensor.device}, `{self.takes[0].name}` on {tensors[0].device}"
                )
        dims = self.dimensions(tensors, parameters)
        expected = self.table.extents(*dims)
        for argument, tensor, extents in zip(self.takes, tensors, expected):
            if tuple(tensor.shape) != tuple(extents):
                raise KernelError(
                    f"{self.name}: `{argument.name}` has the shape {numbers(tensor.shape)}, expected {numbers(extents)} "
                    f"for {self.in_words(dims)}"
                )
        return dims

    def dimensions(self, tensors, parameters):
        for argument, tensor, rank in zip(self.takes, tensors, self.table.RANKS):
            if tensor.dim() != rank:
                raise KernelError(f"{self.name}: `{argument.name}` has {tensor.dim()} dimensions, expected {rank}")
        return self.table.dimensions([t.shape for t in tensors], parameters)

    def in_words(self, dims):
        return " ".join(f"{name}={int(value)}" for name, value in zip(self.table.DIMENSIONS, dims))

    def not_contiguous(self, tensors):
        names = [a.name for a, t in zip(self.takes, tensors) if not t.is_contiguous()]
        return KernelError(
            f"{self.name}: `{names[0]}` is not contiguous (strides {numbers(tensors[[a.name for a in self.takes].index(names[0])].stride())}); "
            "pass it as `.contiguous()`"
        )

    # Which config.

    def choose(self, dims, device):
        """A choice, or why there is none."""
        if any(d < 1 for d in dims):
            return None, f"{self.in_words(dims)} is empty"
        usable = {config.id: self.image_for(config, device) for config in self.table.CONFIGS}
        if not any(usable.values()):
            made_for = sorted({image["architecture"] for config in self.table.CONFIGS for image in config.images})
            return None, f"nothing in the package is for {self.device_in_words(device)}; it has images for {', '.join(made_for)}"
        best, least = None, math.inf
        for entry in self.table.DISPATCH:
            away = sum(abs(math.log(a) - math.log(b)) for a, b in zip(dims, entry["dimensions"]))
            exact = tuple(entry["dimensions"]) == tuple(dims)
            if away >= least or usable[entry["config"]] is None or not (exact or self.use_nearest):
                continue
            if self.legal(self.configs[entry["config"]], dims):
                config = self.configs[entry["config"]]
                best, least = Choice(config, usable[config.id], entry, exact), away
        if best is None:
            return None, f"no exported config is legal for {self.in_words(dims)}"
        return best, None

    def legal(self, config, dims):
        """Whether a config may run. Where a constraint or the launch cannot be worked out, it may not."""
        try:
            if not config.legal(*dims):
                return False
            if config.launch:
                config.launch(*dims)
            return True
        # The last where a root of a negative number is compared: Python makes a complex one of it.
        except (ArithmeticError, ValueError, TypeError):
            return False

    def image_for(self, config, device):
        for image in config.images:
            if device.type == "cuda" and fits(image["architecture"], torch.cuda.get_device_capability(device)):
                return image
            if device.type == "cpu" and image["architecture"] == os.uname().machine:
                return image
        return None

    def device_in_words(self, device):
        if device.type != "cuda":
            return f"the device `{device.type}`"
        major, minor = torch.cuda.get_device_capability(device)
        return f"{torch.cuda.get_device_name(device)} (sm_{major}{minor})"

    # Images.

    def driver(self):
        with self.lock:
            if self.the_driver is None:
                self.the_driver = Driver()
            return self.the_driver

    def loaded(self, config, image, device):
        key = (config.id, image["architecture"], device.type, device.index)
        driver = self.driver() if device.type == "cuda" else None
        with self.lock:
            if key not in self.images:
                path = os.path.join(self.folder, *image["file"].split("/"))
                with open(path, "rb") as file:
                    contents = file.read()
                if hashlib.sha256(contents).hexdigest() != image["sha256"]:
                    raise KernelError(f"`{path}` is not as it was exported: its checksum differs")
                if device.type == "cuda":
                    self.images[key] = LoadedImage(driver, path, image["symbol"], contents)
                else:
                    function = getattr(ctypes.CDLL(path), image["symbol"])
                    function.argtypes, function.restype = [ctypes.c_void_p], None
                    self.images[key] = function
            return self.images[key]

    def prepare(self, device=None):
        """Loads every image that fits a device, so that no call has to; returns how many there are."""
        device = torch.device(device if device is not None else "cuda" if torch.cuda.is_available() else "cpu")
        if device.type == "cuda" and device.index is None:
            device = torch.device("cuda", torch.cuda.current_device())
        found = [(config, self.image_for(config, device)) for config in self.table.CONFIGS]
        found = [(config, image) for config, image in found if image is not None]
        if device.type == "cuda":
            with torch.cuda.device(device):
                torch.empty(1, device=device)
                self.driver().enter(device.index)
                for config, image in found:
                    self.loaded(config, image, device)
        else:
            for config, image in found:
                self.loaded(config, image, device)
        return len(found)

    # Where no kernel fits.

    def fall_back(self, tensors, parameters, scalars, needs_gradient):
        if self.table.FALLBACK is None:
            raise KernelError(f"{self.name}: it has no gradient, and the package has no fallback")
        if needs_gradient:
            self.warn(FallsBack, f"{self.name}: gradients are asked for, which it has not; `{self.table.FALLBACK[1]}` computes the answer (said once)")
        dims = self.dimensions(tensors, parameters)
        values = dict(zip(self.table.DIMENSIONS, dims))
        file, function, wide = self.table.FALLBACK
        if self.fallback_function is None:
            self.fallback_function = load_function(os.path.join(self.folder, *file.split("/")), function)
        given = dict(zip([a.name for a in self.takes], tensors))
        if wide:
            given = {name: t.double() if t.is_floating_point() else t for name, t in given.items()}
        said = {}
        for (at, default), value in zip(self.table.SCALARS, scalars):
            name = self.arguments[at].name
            if value != default and not takes(self.fallback_function, name):
                raise KernelError(
                    f"{self.name}: no kernel runs here, and the fallback `{function}` takes no `{name}`: it computes with {default}, not with {value}"
                )
            said[name] = value
        # Tensors come last: an argument may have a dimension's name.
        returned = call_by_name(self.fallback_function, {**said, **values, **given})
        return self.returned(returned, tensors, dims)

    def returned(self, returned, tensors, dims):
        if isinstance(returned, dict):
            returned = [returned[a.name] for a in self.gives]
        if not isinstance(returned, (tuple, list)):
            returned = [returned]
        results = []
        for argument, value in zip(self.gives, returned):
            value = value.to(getattr(torch, DTYPES[argument.dtype])).contiguous()
            shares = any(value.data_ptr() == t.data_ptr() for t in tensors) if value.numel() and not is_compiling() else False
            results.append(value.clone() if shares else value)
        if len(results) == 1:
            return results[0]
        return tuple(results) if results else None

    # For people and tests.

    def explain(self, tensors, parameters, scalars):
        """What a call would run, and why."""
        dims = self.check(tensors, parameters)
        choice, why = self.choose(dims, tensors[0].device)
        told = {"dimensions": dict(zip(self.table.DIMENSIONS, map(int, dims)))}
        told["scalars"] = {self.arguments[at].name: value for (at, _), value in zip(self.table.SCALARS, scalars)}
        if choice is None:
            return {**told, "runs": "fallback" if self.table.FALLBACK else None, "why": why}
        grid, block, cluster, shared, _ = choice.config.launch(*dims) if choice.config.launch else (None,) * 5
        return {
            **told, "runs": "kernel", "config": choice.config.id, "values": choice.config.values, "exact": choice.exact,
            "shape": choice.entry["shape"], "confirmed": choice.entry["confirmed"], "evidence": choice.entry["evidence"],
            "image": choice.image["file"], "grid": grid, "block": block, "shared": shared,
        }

    # PyTorch's registration.

    def register(self, parameters, scalars):
        """The kernel as an operator that `torch.compile` and fake tensors know."""
        given = [f"Tensor{'(a%d!)' % n if a.role == 'inout' else ''} {a.name}" for n, a in enumerate(self.takes)]
        given += [f"{kind} {name}" for name, kind in [*parameters, *scalars]]
        gives = ["Tensor"] * len(self.gives)
        results = gives[0] if len(gives) == 1 else "(" + ", ".join(gives) + ")"
        count = len(self.takes)
        before_scalars = count + len(parameters)
        defaults = tuple(default for _, default in self.table.SCALARS)

        def launch(*arguments):
            # PyTorch leaves out what is the default, from the end.
            scalars = tuple(arguments[before_scalars:])
            scalars += defaults[len(scalars):]
            with torch.no_grad():
                return self(arguments[:count], tuple(arguments[count:before_scalars]), scalars)

        def fake(*arguments):
            tensors = arguments[:count]
            dims = self.dimensions(tensors, tuple(arguments[count:before_scalars]))
            made = [
                tensors[0].new_empty(extents, dtype=getattr(torch, DTYPES[a.dtype]))
                for a, extents in zip(self.gives, self.table.extents(*dims)[count:])
            ]
            return made[0] if len(made) == 1 else tuple(made) if made else None

        operator = torch.library.custom_op(
            f"kiln::{self.table.OPERATOR}", launch, mutates_args=tuple(self.mutates), schema=f"({', '.join(given)}) -> {results}"
        )
        operator.register_fake(fake)
        return operator


def call_by_name(function, values):
    """A function with those values that its parameters name."""
    positional, named = [], {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind == parameter.VAR_POSITIONAL:
            continue
        if parameter.kind == parameter.VAR_KEYWORD:
            named.update({key: value for key, value in values.items() if key not in named})
            continue
        wanted = parameter.name if parameter.name in values else parameter.name.rstrip("_")
        if wanted not in values:
            if parameter.default is parameter.empty:
                raise KernelError(f"`{function.__name__}` wants `{parameter.name}`, which is neither a tensor nor a dimension")
            continue
        if parameter.kind == parameter.POSITIONAL_ONLY:
            positional.append(values[wanted])
        else:
            named[parameter.name] = values[wanted]
    return function(*positional, **named)


def takes(function, name):
    """Whether a function has a parameter of that name, or takes any."""
    parameters = inspect.signature(function).parameters
    return any(p.kind == p.VAR_KEYWORD or p.name.rstrip("_") == name.rstrip("_") for p in parameters.values())


def load_function(path, name):
    """A function of a Python file, whose own neighbours it may import."""
    spec = importlib.util.spec_from_file_location(f"{__name__}_{os.path.basename(path)[:-3]}", path)
    module = importlib.util.module_from_spec(spec)
    folder = os.path.dirname(path)
    sys.path.insert(0, folder)
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(folder)
    return getattr(module, name)
