# Frames on pipes, and a life tied to the supervisor's.


class Pipes:
    """The protocol, moved away from the standard streams: what user code prints goes to stderr."""

    def __init__(self):
        try:
            os.setsid()
        except OSError:
            pass  # Already the leader of a group.
        self.input = fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 64)
        self.output = fcntl.fcntl(1, fcntl.F_DUPFD_CLOEXEC, 64)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)
        os.dup2(2, 1)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL, 0, 0, 0)
        watchdog = threading.Thread(target=self._die_with_supervisor, args=(os.getpid(),), daemon=True)
        watchdog.start()

    def _die_with_supervisor(self, family):
        """Kills the whole process group when the other end of the request pipe is closed."""
        hang_up = select.poll()
        hang_up.register(self.input, 0)
        while not hang_up.poll():
            pass
        os.killpg(family, signal.SIGKILL)

    def _read_exactly(self, count):
        data = bytearray(count)
        view, have = memoryview(data), 0
        while have < count:
            got = os.readv(self.input, [view[have : have + (1 << 26)]])
            if got == 0:
                return data[:have]
            have += got
        return data

    def read(self):
        """The next request and its payload; `None` at the end."""
        prefix = self._read_exactly(12)
        if not prefix:
            return None
        if len(prefix) < 12:
            raise EOFError("torn frame")
        header_length, payload_length = struct.unpack("<IQ", prefix)
        if header_length > MAX_HEADER_BYTES or payload_length > MAX_PAYLOAD_BYTES:
            raise ValueError("frame of %d + %d bytes is over the limit" % (header_length, payload_length))
        header = self._read_exactly(header_length)
        payload = self._read_exactly(payload_length)
        if len(header) < header_length or len(payload) < payload_length:
            raise EOFError("torn frame")
        return json.loads(header), payload

    def write(self, header, chunks=()):
        text = json.dumps(header).encode()
        chunks = [memoryview(chunk) for chunk in chunks if len(chunk)]
        length = sum(len(chunk) for chunk in chunks)
        self._write_all(memoryview(struct.pack("<IQ", len(text), length) + text))
        for chunk in chunks:
            self._write_all(chunk)

    def _write_all(self, view):
        while len(view):
            view = view[os.write(self.output, view[: 1 << 26]) :]


