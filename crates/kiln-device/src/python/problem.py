# The arguments of one call, how they meet a function's parameters, and what it returns.


def digest(payload):
    return hashlib.blake2b(payload, digest_size=16).digest()


class Buffer:
    def __init__(self, spec):
        self.name = spec["name"]
        self.dtype = spec["dtype"]
        self.extents = tuple(spec["extents"])
        self.role = spec["role"]
        self.is_float = self.dtype in FLOATS
        self.array = None
        self.original = None

    @property
    def byte_count(self):
        return math.prod(self.extents) * SIZES[self.dtype]

    @property
    def is_result(self):
        return self.role in ("output", "inout")


class Problem:
    """The arguments of one call, and what the last call left."""

    def __init__(self, spec, payload, library, wide):
        self.key = (spec["shape"], spec["seed"])
        self.arguments = spec["arguments"]
        self.digest = digest(payload)
        self.library = library
        self.wide = wide
        self.dimensions = spec.get("dimensions")
        self.values = dict((name, value) for name, value in self.dimensions or [])
        self.buffers = []
        self.graphs = {}
        # For every result, in argument order, what the last call returned or wrote into.
        self.left = None
        self._build(payload)

    def _build(self, payload):
        raw, at = memoryview(payload), 0
        index = -1
        for argument in self.arguments:
            index += 1
            (kind, spec), = argument.items()
            if kind == "Scalar":
                value = spec["value"]
                if value is None:
                    value = math.nan  # JSON has no other way to say it.
                self.values[spec["name"]] = float(value) if spec["dtype"] in FLOATS else int(value)
            elif kind == "Buffer":
                buffer = Buffer(spec)
                buffer.index = index
                contents = b""
                if buffer.role in ("input", "inout"):
                    contents = raw[at : at + buffer.byte_count]
                    if len(contents) < buffer.byte_count:
                        raise bad_task(
                            "the inputs of shape `%s` hold %d bytes, too few for `%s`"
                            % (self.key[0], len(raw), buffer.name)
                        )
                    at += buffer.byte_count
                buffer.array = self.library.make(buffer.dtype, buffer.extents, contents, self.wide)
                if buffer.role == "inout":
                    buffer.original = self.library.copy(buffer.array)
                if buffer.role == "input":
                    buffer.array = self.library.seal(buffer.array)
                self.buffers.append(buffer)
                self.values[buffer.name] = buffer.array
        if at != len(raw):
            raise bad_task(
                "the inputs of shape `%s` hold %d bytes, expected %d" % (self.key[0], len(raw), at)
            )
        self.results = [buffer for buffer in self.buffers if buffer.is_result]
        self.inputs = [buffer for buffer in self.buffers if buffer.role == "input"]
        self.inouts = [buffer for buffer in self.buffers if buffer.role == "inout"]

    def bind(self, function, name):
        """Positional and keyword arguments for the function, by the names of its parameters."""
        try:
            parameters = inspect.signature(function).parameters.values()
        except (TypeError, ValueError):
            raise bad_task("the parameters of `%s` cannot be read; wrap it in a function" % name)
        positional, named, taken = [], {}, set()
        for parameter in parameters:
            if parameter.kind == parameter.VAR_POSITIONAL:
                continue
            if parameter.kind == parameter.VAR_KEYWORD:
                rest = {key: value for key, value in self.values.items() if key not in taken}
                named.update(rest)
                taken.update(rest)
                continue
            wanted = parameter.name
            # A C argument may be called `in`, a Python parameter may not.
            if wanted not in self.values and keyword.iskeyword(wanted.rstrip("_")):
                wanted = wanted.rstrip("_")
            if wanted not in self.values:
                if parameter.default is not parameter.empty:
                    continue
                raise bad_task(
                    "`%s` has a parameter `%s`, which is neither an argument nor a dimension; available: %s"
                    % (name, parameter.name, ", ".join("`%s`" % key for key in self.values))
                )
            taken.add(wanted)
            if parameter.kind == parameter.POSITIONAL_ONLY:
                positional.append(self.values[wanted])
            else:
                named[parameter.name] = self.values[wanted]
        self.untaken = [buffer for buffer in self.results if buffer.name not in taken]
        self.function_name = name
        self.call = lambda: function(*positional, **named)

    def bind_kernel(self, kernel, name, launch):
        """A kernel takes everything, and writes its results in place."""
        self.untaken = []
        self.function_name = name
        self.call = kernel.bind(self, launch)

    def assign(self, returned):
        """Which returned value is which result. A result the function took and did not return was
        written in place."""
        names = [buffer.name for buffer in self.results]
        if returned is None and len(self.untaken) == len(names):
            raise bad_task(
                "`%s` returned nothing; return the outputs, or take them as parameters and write into them"
                % self.function_name
            )
        if returned is None:
            values = {}
        elif isinstance(returned, dict):
            unknown = [key for key in returned if key not in names]
            if unknown:
                raise self._mismatch("returned `%s`, which is no output" % unknown[0])
            values = dict(returned)
        else:
            # A list of plain numbers is one output, not several.
            several = isinstance(returned, tuple) or (
                isinstance(returned, list) and any(hasattr(value, "shape") for value in returned)
            )
            given = list(returned) if several else [returned]
            if len(given) == len(names):
                values = dict(zip(names, given))
            elif len(given) == len(self.untaken):
                values = dict(zip((buffer.name for buffer in self.untaken), given))
            else:
                raise self._mismatch("returned %d values" % len(given))
        missing = [buffer.name for buffer in self.untaken if values.get(buffer.name) is None]
        if missing:
            raise self._mismatch("returned nothing for `%s` and has no parameter of that name" % missing[0])
        self.left = [
            buffer.array if values.get(buffer.name) is None else values[buffer.name]
            for buffer in self.results
        ]

    def _mismatch(self, what):
        outputs = ", ".join("`%s`" % buffer.name for buffer in self.results)
        return bad_task("`%s` %s; the outputs are, in this order: %s" % (self.function_name, what, outputs))

    def poison(self, seed, left):
        """Fills outputs with garbage, so that what is not computed is noticed; gives inout buffers
        their contents back. What a reference returned may be its own cache and is left alone."""
        for buffer in self.buffers:
            if buffer.role in ("output", "scratch"):
                self.library.garble(buffer.array, seed + buffer.index)
            elif buffer.role == "zeroed":
                buffer.array[...] = 0
        if not self.wide:
            ours = [buffer.array for buffer in self.buffers]
            for position, value in enumerate(left or []):
                if not self.library.shares_memory(value, ours):
                    self.library.garble(value, seed + 1000 + position)
        self.restore()

    def is_for(self, spec, payload):
        """Whether this is the problem asked for, its inputs included if they were sent."""
        same = self.arguments == spec["arguments"] and self.dimensions == spec.get("dimensions")
        return same and (not payload or self.digest == digest(payload))

    def restore(self):
        for buffer in self.inouts:
            self.library.restore(buffer.array, buffer.original)

    def touch_inputs(self):
        """As before a burst of a kernel, so that both sides begin with the same in the caches."""
        for buffer in self.inputs:
            self.library.touch(buffer.array)

    def versions(self):
        return [self.library.version(buffer.array) for buffer in self.inputs]

    def verify_inputs(self, versions):
        for buffer, before in zip(self.inputs, versions):
            if self.library.version(buffer.array) != before:
                self.arguments = None  # Nobody comes back to a spoilt problem.
                raise Refused("InputModified", argument=buffer.index)

    def launch(self, poison):
        self.poison(poison, self.left)
        self.left = None
        versions = self.versions()
        with self.library.watched():
            returned = self.call()
            self.library.synchronize()
        self.verify_inputs(versions)
        self.assign(returned)

    def remember_sent(self):
        """Keeps a copy of what is sent, on the device, for `same_as_sent`."""
        if self.library.cuda:
            self.copies = [value.clone() for value in self.left]

    def same_as_sent(self):
        """Whether all outputs are, bit for bit, those sent last."""
        copies = getattr(self, "copies", None)
        if self.left is None or copies is None or len(copies) != len(self.left):
            return False
        return all(
            a.shape == b.shape and a.dtype == b.dtype and a.equal(b) for a, b in zip(copies, self.left)
        )

    def outputs(self):
        if self.left is None:
            raise bad_task("nothing was launched")
        return [self.library.result(v, b, self.wide) for v, b in zip(self.left, self.results)]


