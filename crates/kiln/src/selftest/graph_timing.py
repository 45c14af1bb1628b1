# Times kernels by PyTorch's means: one JSON line in (an image and a launch), one JSON line out.
import ctypes, json, os, statistics, sys

try:
    os.setsid()  # Ctrl-C is the supervisor's affair; it kills this whole session.
except OSError:
    pass
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # What libraries print must not look like an answer.


def say(**answer):
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


try:
    import torch

    if not torch.cuda.is_available():
        raise RuntimeError("this PyTorch cannot use the GPU")
    torch.zeros(1, device="cuda")  # Makes the context.
    driver = ctypes.CDLL("libcuda.so.1")
except Exception as error:
    say(error=f"{type(error).__name__}: {error}"[:300])
    sys.exit(0)

SHORTEST_REPLAY_NS = 1e6
WARM_UPS = 3
REPLAYS = 15
MAX_DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES


def check(code, what):
    if code != 0:
        raise RuntimeError(f"{what} returned {code}")


class Kernel:
    def __init__(self, job):
        self.module, self.function = ctypes.c_void_p(), ctypes.c_void_p()
        image = job["image"].encode()
        check(driver.cuModuleLoad(ctypes.byref(self.module), image), "cuModuleLoad")
        found = driver.cuModuleGetFunction(ctypes.byref(self.function), self.module, job["symbol"].encode())
        check(found, "cuModuleGetFunction")
        self.shared = job["shared"]
        if self.shared > 48 << 10:
            check(driver.cuFuncSetAttribute(self.function, MAX_DYNAMIC_SHARED, self.shared), "cuFuncSetAttribute")
        self.geometry = [ctypes.c_uint(n) for n in job["grid"] + job["block"] + [self.shared]]
        self.kept, self.buffers = [], []
        for argument in job["arguments"]:
            if "scalar" in argument:
                self.kept.append(ctypes.create_string_buffer(bytes.fromhex(argument["scalar"]), 8))
                continue
            words = (argument["buffer"] + 3) // 4
            buffer = torch.zeros(max(words, 1), dtype=torch.int32, device="cuda")
            if argument["drawn"]:
                buffer.random_(0, 1000000)
            self.buffers.append(buffer)
            self.kept.append(ctypes.c_uint64(buffer.data_ptr()))
        pointers = [ctypes.cast(ctypes.byref(value), ctypes.c_void_p) for value in self.kept]
        self.parameters = (ctypes.c_void_p * len(pointers))(*pointers)

    def launch(self):
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        check(driver.cuLaunchKernel(self.function, *self.geometry, stream, self.parameters, None), "cuLaunchKernel")

    def graph(self, launches):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(launches):
                self.launch()
        return graph

    def close(self):
        torch.cuda.synchronize()
        driver.cuModuleUnload(self.module)


def replay_ns(graph, count):
    """Replays follow each other without a gap, so that only the first one waits for the host."""
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
    graph.replay()
    marks[0].record()
    for mark in marks[1:]:
        graph.replay()
        mark.record()
    torch.cuda.synchronize()
    return [a.elapsed_time(b) * 1e6 for a, b in zip(marks, marks[1:])]


def measure(job):
    kernel = Kernel(job)
    try:
        kernel.launch()  # Loads the code: not possible while a graph is captured.
        torch.cuda.synchronize()
        launches = 1
        while True:
            graph = kernel.graph(launches)
            taken = statistics.median(replay_ns(graph, WARM_UPS))
            if taken >= SHORTEST_REPLAY_NS or launches >= 4096:
                break
            # A short graph is mostly overhead, so the first guess is too low.
            launches = min(4096, max(launches + 1, int(launches * 1.2 * SHORTEST_REPLAY_NS / taken)))
        replays = [ns / launches for ns in replay_ns(graph, REPLAYS)]
        graph.reset()  # Before its kernel goes.
        return dict(median_ns=statistics.median(replays), launches=launches, replays_ns=replays)
    finally:
        kernel.close()


say(torch=torch.__version__, device=torch.cuda.get_device_name(0))
for line in sys.stdin:
    try:
        say(**measure(json.loads(line)))
    except Exception as error:
        say(error=f"{type(error).__name__}: {error}"[:300])
