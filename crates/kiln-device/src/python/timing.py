# CUDA events around graphs of calls.


class Launcher:
    """So many calls of a function, as one CUDA graph if they can be captured."""

    def __init__(self, problem, torch, launches):
        self.torch = torch
        self.problem = problem
        self.launches = launches
        self.graph = None
        self.left = None
        versions = problem.versions()
        self._warm_up()
        problem.verify_inputs(versions)
        try:
            for _ in range(GRAPHS_MADE):
                self._capture()
        except Refused:
            raise
        except Exception as error:
            if is_fatal(error) or bytes_wanted(error) is not None:
                raise
            self.graph = None
            torch.cuda.synchronize()
            note_once(
                "the calls of `%s` cannot be captured in a CUDA graph (%s); they are launched one by one, "
                "and short ones are timed with launch overhead" % (problem.function_name, first_line(error))
            )
            self.replay()
            torch.cuda.synchronize()

    def _warm_up(self):
        """On a side stream, as capturing needs it: libraries load, choose algorithms, allocate."""
        cuda = self.torch.cuda
        side = cuda.Stream()
        side.wait_stream(cuda.current_stream())
        with cuda.stream(side):
            for _ in range(3):
                self.problem.restore()
                started = time.perf_counter_ns()
                self.problem.call()
                self.host_nanos = time.perf_counter_ns() - started
        cuda.current_stream().wait_stream(side)
        cuda.synchronize()

    def _capture(self):
        graph = self.torch.cuda.CUDAGraph()
        with self.torch.cuda.graph(graph):
            for _ in range(self.launches):
                returned = self.problem.call()
        self.problem.assign(returned)
        # A value that is no device tensor was computed once, while capturing, and never again.
        if not all(isinstance(v, self.torch.Tensor) and v.is_cuda for v in self.problem.left):
            raise RuntimeError("an output is not a tensor on the GPU")
        self.left = self.problem.left
        self.graph = graph
        # At once, and nothing else is queued: as a program runs what it has captured.
        graph.replay()
        self.torch.cuda.synchronize()

    def replay(self):
        if self.graph is not None:
            self.graph.replay()
            self.problem.left = self.left
        else:
            for _ in range(self.launches):
                returned = self.problem.call()
            self.problem.assign(returned)
            self.left = self.problem.left

    def spin_nanos(self):
        if self.graph is not None:
            return SPIN_NANOS + 500 * self.launches
        return SPIN_NANOS + 3 * self.launches * self.host_nanos // 2


class Clock:
    """CUDA events around launches, with work queued in front of them."""

    def __init__(self, torch):
        self.torch = torch
        self.flushed = None
        self.overhead_nanos = None

    def spin(self, nanos):
        self.torch.cuda._sleep(min(int(nanos), MAX_SPIN_NANOS) * SPIN_CLOCKS_PER_NANO)

    def flush(self):
        """Writes twice the L2 cache's size."""
        if self.flushed is None:
            properties = self.torch.cuda.get_device_properties(self.torch.cuda.current_device())
            size = 2 * (getattr(properties, "L2_cache_size", 0) or 64 << 20)
            self.flushed = self.torch.empty(size, dtype=self.torch.uint8, device="cuda")
        self.flushed.zero_()

    def pair(self):
        return [self.torch.cuda.Event(enable_timing=True) for _ in range(2)]

    def elapsed(self, pair):
        return pair[0].elapsed_time(pair[1]) * 1e6

    def overhead(self):
        """What two events with nothing between them measure."""
        if self.overhead_nanos is None:
            found = []
            for _ in range(50):
                pair = self.pair()
                self.spin(SPIN_NANOS)
                pair[0].record()
                pair[1].record()
                self.torch.cuda.synchronize()
                found.append(self.elapsed(pair))
            self.overhead_nanos = sorted(found)[len(found) // 2]
        return self.overhead_nanos

    def together(self, launcher):
        """Nanoseconds of one burst, launched back to back."""
        pair = self.pair()
        self.spin(launcher.spin_nanos())
        pair[0].record()
        launcher.replay()
        pair[1].record()
        self.torch.cuda.synchronize()
        return max(self.elapsed(pair) - self.overhead(), 0.0)

    def singly(self, launcher, launches, before):
        """The sum of launches that are each timed alone, because something has to happen before
        every one of them."""
        pairs = []
        for _ in range(launches):
            pair = self.pair()
            self.spin(launcher.spin_nanos())
            before()
            pair[0].record()
            launcher.replay()
            pair[1].record()
            pairs.append(pair)
        self.torch.cuda.synchronize()
        return sum(max(self.elapsed(pair) - self.overhead(), 0.0) for pair in pairs)


class Nvml:
    """NVIDIA's management library, as far as it answers."""

    def __init__(self, torch):
        self.library = ctypes.CDLL("libnvidia-ml.so.1")
        self._ask("nvmlInit_v2")
        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        self.device = ctypes.c_void_p()
        identity = getattr(properties, "uuid", None)
        if identity is not None:
            name = str(identity)
            name = name if name.startswith("GPU-") else "GPU-" + name
            self._ask("nvmlDeviceGetHandleByUUID", name.encode(), ctypes.byref(self.device))
        else:
            count = ctypes.c_uint()
            self._ask("nvmlDeviceGetCount_v2", ctypes.byref(count))
            if count.value != 1:
                raise OSError("which of the GPUs torch uses is not known")
            self._ask("nvmlDeviceGetHandleByIndex_v2", 0, ctypes.byref(self.device))

    def _ask(self, name, *arguments):
        status = getattr(self.library, name)(*arguments)
        if status != 0:
            raise OSError("%s answers %d" % (name, status))

    def _number(self, kind, name, *arguments):
        value = kind()
        try:
            self._ask(name, self.device, *arguments, ctypes.byref(value))
        except (OSError, AttributeError):
            return None
        return value.value

    def energy_mj(self):
        return self._number(ctypes.c_ulonglong, "nvmlDeviceGetTotalEnergyConsumption")

    def temperature_c(self):
        gpu_sensor = 0
        return self._number(ctypes.c_uint, "nvmlDeviceGetTemperature", gpu_sensor)

    def throttle(self):
        return self._number(ctypes.c_ulonglong, "nvmlDeviceGetCurrentClocksThrottleReasons") or 0


def energy_conditions(torch, launcher, has_inout):
    """Energy of a launch, from the device's own counter over half a second of launches."""
    conditions = {
        "clocks_mhz": [], "throttle": 0, "temperature_c": None, "discarded": 0, "energy_mj": None,
    }
    try:
        nvml = Nvml(torch)
    except (OSError, AttributeError) as error:
        note_once("no energy: %s" % error)
        return conditions
    conditions["temperature_c"] = nvml.temperature_c()
    conditions["throttle"] = nvml.throttle()
    # Launches that feed on their own results would soon compute with infinities.
    before = None if has_inout else nvml.energy_mj()
    if before is None:
        return conditions
    count, started = 0, time.perf_counter()
    while time.perf_counter() - started < ENERGY_SECONDS:
        for _ in range(8):
            launcher.replay()
        torch.cuda.synchronize()
        count += 8 * launcher.launches
    after = nvml.energy_mj()
    if after is not None and after > before:
        conditions["energy_mj"] = (after - before) / count
    conditions["throttle"] |= nvml.throttle()
    return conditions


