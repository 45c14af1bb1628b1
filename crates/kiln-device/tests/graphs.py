"""Which graphs are made for a burst, with a stand-in for torch that writes down: `graphs.py TEXT-OF-THE-CHILD`."""

import contextlib
import sys

child = {}
exec(sys.argv[1].rsplit("\nmain()\n", 1)[0], child)
made = []


class Tensor:
    is_cuda = True


class cuda:
    class Stream:
        def wait_stream(self, other):
            pass

    class CUDAGraph:
        def replay(self):
            made.append("run")

    current_stream = Stream
    stream = contextlib.nullcontext

    @staticmethod
    def synchronize():
        made.append("waited")

    @staticmethod
    @contextlib.contextmanager
    def graph(graph):
        made.append("captured")
        yield


class torch:
    Tensor = Tensor
    cuda = cuda


class Problem:
    function_name = "f"
    calls = 0

    def versions(self):
        return []

    def verify_inputs(self, versions):
        pass

    def restore(self):
        pass

    def call(self):
        self.calls += 1
        return Tensor()

    def assign(self, returned):
        self.left = [returned]


problem = Problem()
launcher = child["Launcher"](problem, torch, 4)
# Warmed up, then each graph captured, and run with nothing in front of it.
assert made == ["waited"] + ["captured", "run", "waited"] * 3, made
assert problem.calls == 3 + 3 * 4, problem.calls
assert launcher.left == problem.left and launcher.graph is not None
made.clear()
launcher.replay()
assert made == ["run"], made
