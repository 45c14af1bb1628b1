# The two array libraries behind one set of methods: contents in, results out.


class Torch:
    def __init__(self):
        import torch

        self.torch = torch
        self.cuda = torch.cuda.is_available()
        self.device = torch.device("cuda", torch.cuda.current_device()) if self.cuda else torch.device("cpu")
        self.garbler = torch.Generator(device=self.device)
        self.calls = 0

    def dtype(self, name):
        found = getattr(self.torch, TORCH_NAMES[name], None)
        if found is None:
            raise bad_task("torch %s has no type for `%s`" % (self.torch.__version__, name))
        return found

    def make(self, name, extents, raw, wide):
        """A tensor with these contents; `wide` makes float64 of every floating type."""
        target = self.dtype("f64" if wide and name in FLOATS else name)
        if not raw:
            return self.torch.empty(extents, dtype=target, device=self.device)
        # A copy, for `raw` may start anywhere and belongs to the request.
        narrow = self.torch.frombuffer(bytearray(raw), dtype=self.dtype(name))
        return narrow.reshape(extents).to(device=self.device, dtype=target)

    def copy(self, source):
        return source.clone()

    def restore(self, target, source):
        target.copy_(source)

    def version(self, array):
        """Changes whenever the tensor is written through torch."""
        return array._version

    def seal(self, array):
        return array

    def garble(self, array, seed):
        """Fills a tensor with random bytes, where that can be done."""
        torch = self.torch
        if not isinstance(array, torch.Tensor) or array.numel() == 0:
            return
        try:
            with torch.no_grad():
                if array.is_contiguous() and array.device == self.device:
                    self.garbler.manual_seed(seed % (1 << 63))
                    array.reshape(-1).view(torch.uint8).random_(0, 256, generator=self.garbler)
                else:
                    array.fill_(math.nan if array.is_floating_point() else 85)
        except RuntimeError as error:
            if is_fatal(error):
                raise
            # E.g. an expanded view: several elements share one place.

    def touch(self, array):
        """Reads every byte of a contiguous tensor."""
        if array.numel() > 0:
            array.detach().reshape(-1).view(self.torch.uint8).sum()

    def shares_memory(self, array, others):
        if not isinstance(array, self.torch.Tensor):
            return True
        start = array.untyped_storage().data_ptr()
        return any(start == other.untyped_storage().data_ptr() for other in others)

    def result(self, value, buffer, wide):
        """A returned value as a contiguous tensor in host memory, of the type kiln expects."""
        torch = self.torch
        if not isinstance(value, torch.Tensor):
            value = torch.as_tensor(value)
        check_shape(value.shape, buffer)
        value = value.detach()
        floating = value.dtype.is_floating_point
        is_integer = not floating and not value.dtype.is_complex
        check_kind(str(value.dtype), floating, is_integer, buffer)
        target = self.dtype("f64" if wide and buffer.is_float else buffer.dtype)
        if wide and floating and value.dtype != torch.float64:
            note_precision(str(value.dtype))
        if is_integer and not buffer.is_float and value.dtype != target and value.numel():
            whole = value.to(torch.int64)
            check_range(int(whole.min()), int(whole.max()), buffer)
        return value.to(device="cpu", dtype=target).contiguous()

    def bytes(self, tensor):
        count = tensor.numel() * tensor.element_size()
        if count == 0:
            return b""
        return (ctypes.c_char * count).from_address(tensor.data_ptr())

    def synchronize(self):
        if self.cuda:
            self.torch.cuda.synchronize()

    @contextlib.contextmanager
    def watched(self):
        """What happens inside is for the profiler to see, where one watches. Not the first time, when libraries
        load and choose their kernels."""
        self.calls += 1
        if sys.argv[1] != "profiled" or not self.cuda or self.calls == 1:
            yield
            return
        self.synchronize()
        runtime = self.torch.cuda.cudart()
        runtime.cudaProfilerStart()
        try:
            yield
        finally:
            runtime.cudaProfilerStop()

    def release(self):
        gc.collect()
        if self.cuda:
            self.torch.cuda.empty_cache()

    def verify(self):
        """Says with an exception whether the device is still of use."""
        ones = self.torch.ones(256, device=self.device)
        if float(ones.sum()) != 256.0:
            raise bad_task("the device no longer adds up")


class NumPy:
    cuda = False

    def __init__(self):
        import numpy

        self.numpy = numpy

    def dtype(self, name):
        # NumPy has no bfloat16; float32 holds every one of its values.
        return self.numpy.dtype("float32" if name == "bf16" else TORCH_NAMES[name])

    def make(self, name, extents, raw, wide):
        numpy = self.numpy
        target = self.dtype("f64" if wide and name in FLOATS else name)
        if not raw:
            return numpy.empty(extents, dtype=target)
        if name == "bf16":
            bits = numpy.frombuffer(raw, dtype="<u2").astype(numpy.uint32) << 16
            narrow = bits.view(numpy.float32)
        else:
            narrow = numpy.frombuffer(raw, dtype=self.dtype(name))
        return narrow.reshape(extents).astype(target)

    def copy(self, source):
        return source.copy()

    def restore(self, target, source):
        target[...] = source

    def version(self, array):
        return 0  # Inputs cannot be written at all.

    def seal(self, array):
        array.flags.writeable = False
        return array

    def garble(self, array, seed):
        if isinstance(array, self.numpy.ndarray) and array.flags.writeable and array.flags.c_contiguous:
            random = self.numpy.random.default_rng(seed)
            flat = array.reshape(-1).view(self.numpy.uint8)
            flat[...] = random.integers(0, 256, flat.size, dtype=self.numpy.uint8)

    def shares_memory(self, array, others):
        if not isinstance(array, self.numpy.ndarray):
            return True
        return any(self.numpy.may_share_memory(array, other) for other in others)

    def result(self, value, buffer, wide):
        numpy = self.numpy
        value = numpy.asarray(value)
        check_shape(value.shape, buffer)
        floating, is_integer = value.dtype.kind == "f", value.dtype.kind in "iub"
        check_kind(str(value.dtype), floating, is_integer, buffer)
        if wide and buffer.is_float:
            if floating and value.dtype.itemsize < 8:
                note_precision(str(value.dtype))
            return numpy.ascontiguousarray(value, dtype=numpy.float64)
        if buffer.dtype == "bf16":
            return self.to_bf16(numpy.ascontiguousarray(value, dtype=numpy.float32))
        target = self.dtype(buffer.dtype)
        if is_integer and not buffer.is_float and value.dtype != target and value.size:
            check_range(int(value.min()), int(value.max()), buffer)
        return numpy.ascontiguousarray(value, dtype=target)

    def to_bf16(self, value):
        """The upper halves, rounded to nearest even; a NaN stays one."""
        bits = value.view(self.numpy.uint32)
        rounded = (bits + (((bits >> 16) & 1) + 0x7FFF).astype(self.numpy.uint32)) >> 16
        rounded = self.numpy.where(self.numpy.isnan(value), 0x7FC0, rounded)
        return rounded.astype("<u2")

    def bytes(self, array):
        return array.tobytes()

    def synchronize(self):
        pass

    def watched(self):
        return contextlib.nullcontext()

    def release(self):
        gc.collect()

    def verify(self):
        pass


def check_shape(shape, buffer):
    shape = tuple(int(extent) for extent in shape)
    is_single = shape == () and math.prod(buffer.extents) == 1
    if shape != buffer.extents and not is_single:
        raise bad_task(
            "output `%s` has the shape %s, expected %s" % (buffer.name, list(shape), list(buffer.extents))
        )


def check_kind(found, floating, is_integer, buffer):
    fits = (floating or is_integer) if buffer.is_float else is_integer
    if not fits:
        raise bad_task("output `%s` has the type %s, expected `%s`" % (buffer.name, found, buffer.dtype))


def check_range(low, high, buffer):
    bits = 8 * SIZES[buffer.dtype]
    bottom, top = (0, 2**bits - 1) if buffer.dtype[0] == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    if low < bottom or high > top:
        worst = low if low < bottom else high
        raise bad_task("output `%s` holds %d, which is no `%s`" % (buffer.name, worst, buffer.dtype))


NOTED = set()


def note_once(text):
    if text not in NOTED:
        NOTED.add(text)
        note(text)


def note_precision(dtype):
    note_once("the reference returned %s; its own rounding is part of every comparison" % dtype)


