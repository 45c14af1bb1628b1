# The requests, one method each.


def import_or_none(kind, environment):
    """An array library, or what is wrong with it; a missing one is nothing wrong."""
    try:
        return kind()
    except ImportError as error:
        if not isinstance(error, ModuleNotFoundError):
            environment.append([kind.__name__.lower() + "_error", first_line(error)])
    except Exception as error:
        environment.append([kind.__name__.lower() + "_error", first_line(error)])
    return None


class Child:
    def __init__(self, mode):
        self.wide = mode == "reference"
        self.environment = [["python", sys.version.split()[0]], ["executable", sys.executable]]
        self.torch = import_or_none(Torch, self.environment)
        self.numpy = import_or_none(NumPy, self.environment)
        self.library = None
        self.function = None
        self.function_name = None
        self.folder = None
        self.problems = {}
        self.current = None
        self.clock = None
        # How long calls took on the device since the function was loaded, as far as they are timed.
        self.device_nanos = 0

    def device(self):
        libraries, place = [], ""
        cores = len(os.sched_getaffinity(0))
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        if self.torch:
            torch = self.torch.torch
            libraries.append("torch " + torch.__version__)
            self.environment.append(["torch", torch.__version__])
            if torch.version.cuda:
                self.environment.append(["torch_cuda", torch.version.cuda])
            if self.torch.cuda:
                properties = torch.cuda.get_device_properties(self.torch.device)
                place = " on " + properties.name
                cores, memory = properties.multi_processor_count, properties.total_memory
                self.environment.append(["gpu", properties.name])
                if torch.backends.cudnn.is_available():
                    self.environment.append(["cudnn", str(torch.backends.cudnn.version())])
        if self.numpy:
            version = self.numpy.numpy.__version__
            self.environment.append(["numpy", version])
            if not libraries:
                libraries.append("numpy " + version)
        return {
            "kind": "python",
            "name": (libraries[0] if libraries else "python without torch and numpy") + place,
            "cores": cores,
            "memory_bytes": memory,
            "environment": self.environment,
        }

    def serve(self, request, payload):
        """The answer to a request: a header, and chunks of payload."""
        if isinstance(request, str):
            kind, fields = request, {}
        else:
            (kind, fields), = request.items()
        if kind == "Load":
            self.load(fields["image"], fields["symbol"])
            return "Done", []
        if kind == "Unload":
            self.unload()
            return {"Unloaded": {"device_nanos": self.device_nanos}}, []
        if kind == "Prepare":
            self.prepare(fields, payload)
            return "Done", []
        if kind == "Check":
            problem = self.ready()
            started = time.perf_counter_ns()
            problem.launch(fields["poison"])
            if problem.library.cuda:
                self.device_nanos += time.perf_counter_ns() - started
            return self.outputs(problem)
        if kind == "Inspect":
            problem = self.ready()
            if fields["same_will_do"] and problem.same_as_sent():
                return "Same", []
            return self.outputs(problem)
        if kind == "Sample":
            return {"Sampled": self.sample(fields["plan"], fields["poison"])}, []
        raise bad_task("this worker does not serve %s" % kind)

    def load(self, path, symbol):
        self.forget()
        self.device_nanos = 0
        path = os.path.realpath(path)
        self.folder = os.path.dirname(path)
        if is_image(path):
            if not (self.torch and self.torch.cuda):
                raise self.without("has no torch that finds a GPU")
            self.library = self.torch
            self.function, self.function_name = Kernel(self.torch.torch, path, symbol), symbol
            return
        if self.folder not in sys.path:
            sys.path.insert(0, self.folder)
        if not self.torch and not self.numpy:
            wrong = ["%s: %s" % (k, v) for k, v in self.environment if k.endswith("_error")]
            raise self.without("can import neither torch nor numpy", wrong)
        module = self.execute(path)
        found = module
        for part in symbol.split("."):
            found = getattr(found, part, None)
        if not callable(found):
            functions = [
                "`%s`" % name
                for name, value in vars(module).items()
                if inspect.isfunction(value) and value.__module__ == module.__name__
            ]
            has = ", ".join(functions) or "none"
            message = "`%s` has no function `%s`; it has: %s" % (os.path.basename(path), symbol, has)
            raise Refused("NotLoadable", message=message[:MESSAGE_CHARS])
        self.function, self.function_name = found, symbol

    def without(self, what, details=()):
        """The refusal for a library that this machine does not have."""
        advice = "install it there, or set KILN_PYTHON to a Python that has it"
        message = "`%s` %s; %s" % (sys.executable, what, advice)
        return Refused("NoDevice", message="\n  ".join([message, *details])[:MESSAGE_CHARS])

    def execute(self, path):
        """The user's file as a module. Always from its source: a stale or new `__pycache__` beside
        it would be a surprise."""
        name = "kiln_" + re.sub(r"\W", "_", os.path.splitext(os.path.basename(path))[0])
        sys.dont_write_bytecode = True
        try:
            with open(path, "rb") as file:
                tree = ast.parse(file.read(), path)
            self.library = self.library_for(tree)
            code = compile(tree, path, "exec", dont_inherit=True)
            spec = importlib.util.spec_from_file_location(name, path)
            module = importlib.util.module_from_spec(spec)
            sys.modules[name] = module
            exec(code, module.__dict__)
            return module
        except BaseException as error:
            if is_fatal(error) or bytes_wanted(error) is not None:
                raise
            if isinstance(error, ModuleNotFoundError) and error.name in ("torch", "numpy"):
                raise self.without("cannot import %s, which `%s` asks for" % (error.name, os.path.basename(path)))
            raise Refused("NotLoadable", message=describe(error, self.folder))
        finally:
            sys.dont_write_bytecode = False

    def library_for(self, tree):
        """torch, unless the file imports NumPy and not torch."""
        imported = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                imported.update(alias.name.split(".")[0] for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                imported.add(node.module.split(".")[0])
        if self.numpy and "numpy" in imported and "torch" not in imported:
            return self.numpy
        return self.torch or self.numpy

    def forget(self):
        function, self.function = self.function, None
        self.current = None
        self.problems.clear()
        # Behind the graphs that launch it.
        if isinstance(function, Kernel):
            function.unload()
        if self.library:
            self.library.release()

    def unload(self):
        self.forget()
        if self.library:
            self.library.verify()

    def prepare(self, spec, payload):
        if self.function is None:
            raise bad_task("no function is loaded")
        self.current = None
        key = (spec["shape"], spec["seed"])
        known = self.problems.pop(key, None)
        inputs = [
            Buffer(argument["Buffer"])
            for argument in spec["arguments"]
            if argument.get("Buffer", {}).get("role") in ("input", "inout")
        ]
        if known is not None and known.is_for(spec, payload):
            problem = known
        elif not payload and any(buffer.byte_count for buffer in inputs):
            raise bad_task("shape `%s` with seed %d is not remembered; its inputs are needed" % key)
        else:
            known = None
            problem = self.build(spec, payload)
        self.problems[key] = problem
        while len(self.problems) > REMEMBERED_PROBLEMS:
            del self.problems[next(iter(self.problems))]
        self.current = problem

    def build(self, spec, payload):
        try:
            problem = Problem(spec, payload, self.library, self.wide)
        except Exception as error:
            if bytes_wanted(error) is None or not self.problems:
                raise
            problem = None
        if problem is None:
            # What is remembered is a convenience; it makes room.
            self.problems.clear()
            self.library.release()
            problem = Problem(spec, payload, self.library, self.wide)
        if isinstance(self.function, Kernel):
            problem.bind_kernel(self.function, self.function_name, spec["launch"])
        else:
            problem.bind(self.function, self.function_name)
        return problem

    def ready(self):
        if self.current is None:
            raise bad_task("nothing is prepared")
        return self.current

    def outputs(self, problem):
        results = problem.outputs()
        # The tensors stay alive until the frame is written: chunks are views of their memory.
        self.sent = results
        problem.remember_sent()
        return "Outputs", [problem.library.bytes(result) for result in results]

    def sample(self, plan, poison):
        problem = self.ready()
        if self.wide:
            raise bad_task("a reference is not timed")
        if not problem.library.cuda:
            message = "a Python baseline is timed on a CUDA device only, and "
            if self.torch and self.torch.cuda:
                raise bad_task(message + "the file imports NumPy and not torch")
            raise Refused("NoDevice", message=message + "torch finds no GPU")
        torch = self.torch.torch
        if self.clock is None:
            self.clock = Clock(torch)
        clock, launches = self.clock, plan["launches"]
        cold = plan["caches"] == "cold"
        singly = cold or bool(problem.inouts)
        launcher = self.launcher(problem, torch, 1 if singly else launches)
        problem.poison(poison, launcher.left)
        warm_until = time.perf_counter_ns() + plan["warm_nanos"]
        while True:
            problem.restore()
            launcher.replay()
            torch.cuda.synchronize()
            if time.perf_counter_ns() >= warm_until:
                break

        def before():
            problem.restore()
            if cold:
                clock.flush()

        if singly:
            before()
        clock.overhead()
        nanos = []
        for _ in range(plan["bursts"]):
            if singly:
                burst = clock.singly(launcher, launches, before)
            else:
                problem.touch_inputs()
                burst = clock.together(launcher)
            nanos.append(max(int(round(burst)), 1))
        self.device_nanos += sum(nanos)
        conditions = None
        if plan.get("energy"):
            # The results of the timed launches are what `Inspect` shows: the extra launches write
            # the same ones again.
            conditions = energy_conditions(torch, launcher, bool(problem.inouts))
        return {"nanos": nanos, "conditions": conditions}

    def launcher(self, problem, torch, launches):
        if launches not in problem.graphs:
            while len(problem.graphs) >= REMEMBERED_GRAPHS:
                del problem.graphs[next(iter(problem.graphs))]
            problem.graphs[launches] = Launcher(problem, torch, launches)
        return problem.graphs[launches]


def main():
    home = os.getpid()
    pipes = Pipes()
    child = Child(sys.argv[1])
    pipes.write({"Hello": {"protocol": PROTOCOL, "device": child.device()}})
    while True:
        frame = pipes.read()
        if frame is None:
            return
        request, payload = frame
        del frame
        if request == "Finish":
            # In the ordinary way, so that a profiler writes its report.
            pipes.write("Done")
            return
        ended = False
        try:
            header, chunks = child.serve(request, payload)
        except Refused as refusal:
            header, chunks = refusal.answer, []
        except BaseException as error:
            wanted = bytes_wanted(error)
            if wanted is None:
                header, chunks = bad_task(describe(error, child.folder)).answer, []
                ended = is_fatal(error)
            else:
                header, chunks = {"Refused": {"OutOfMemory": {"bytes": wanted}}}, []
                # The traceback holds the frames, and these the tensors.
                error.__traceback__ = None
                child.library and child.library.release()
        del payload
        if os.getpid() != home:
            # A copy the user's code made of this process: the pipe is not its own.
            os._exit(0)
        pipes.write(header, chunks)
        child.sent = None
        if ended:
            # No exit handlers: they would wait for the device.
            os._exit(1)


main()
