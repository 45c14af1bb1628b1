"""Worker processes for verify.py: jobs run where a crash or a hang of the GPU hurts nobody but themselves."""

import multiprocessing
import queue
from concurrent.futures import ThreadPoolExecutor


def serve(connection, open_device, run_job):
    """A worker: jobs come, results go. After an error of the driver nothing in the process is sure, so it ends."""
    try:
        device = open_device()
    except Exception as error:
        connection.send({"error": f"{type(error).__name__}: {error}"})
        return
    connection.send({})
    while True:
        try:
            job = connection.recv()
        except EOFError:
            return
        try:
            connection.send(run_job(device, job, lambda step: connection.send({"step": step})))
        except Exception as error:
            connection.send({"error": f"{type(error).__name__}: {error}"})
            return


class Worker:
    """One process at a time, replaced when it crashes or hangs.

    `open_device()` runs there first; `run_job(device, job, progress)` then returns a job's result. Each
    `progress(step)` begins the deadline anew; the last step before an error comes back in the result as `step`.
    """

    def __init__(self, open_device, run_job, start_s=60, step_s=60):
        self.target, self.start_s, self.step_s = (open_device, run_job), start_s, step_s
        self.process = None

    def start(self):
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(theirs, *self.target), daemon=True)
        self.process.start()
        theirs.close()
        answer = self.receive(self.start_s)
        if "error" in answer:
            raise OSError(answer["error"])

    def receive(self, seconds):
        if not self.connection.poll(seconds):
            raise TimeoutError(f"no answer in {seconds} s")
        return self.connection.recv()

    def run(self, job):
        step = None
        try:
            if self.process is None or not self.process.is_alive():
                self.start()
            self.connection.send(job)
            result = self.receive(self.step_s)
            while "step" in result:
                step = result["step"]
                result = self.receive(self.step_s)
        except (TimeoutError, EOFError, OSError) as error:
            result = {"error": f"the worker died or hung: {str(error) or 'no answer'}"}
        if "error" in result:
            self.stop()
            result = {**result, "step": step}
        return result

    def stop(self):
        if self.process is not None:
            self.process.kill()
            self.process.join()
        self.process = None


def run_all(jobs, workers, open_device, run_job, told=lambda job, result: None):
    """Results in the jobs' order; `told` hears each as it comes. A job that did not compile is its own result."""
    first = Worker(open_device, run_job)
    if any("cubin" in job for job in jobs):
        try:
            first.start()
        except (TimeoutError, EOFError, OSError) as error:
            first.stop()
            raise SystemExit(f"nothing to run on: {str(error) or 'the worker died'}") from None
    waiting = queue.SimpleQueue()
    for index in range(len(jobs)):
        waiting.put(index)
    results = [None] * len(jobs)

    def run_share(worker):
        while True:
            try:
                index = waiting.get_nowait()
            except queue.Empty:
                worker.stop()
                return
            job = jobs[index]
            results[index] = worker.run(job) if "cubin" in job else {"error": job["error"]}
            told(job, results[index])

    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(run_share, [first] + [Worker(open_device, run_job) for _ in range(workers - 1)]))
    return results
