"""Starts Python processes that have torch, TRL and the collector imported: forks of one interpreter.

Importing torch, its compiler and TRL takes ten seconds of a core, and some sixty processes of the tests need them. The
workers of pytest-xdist share one such interpreter, which listens on a Unix socket. It has imported our collector, and
no package that trainers import. Each process has its own environment, folder, arguments and output, and ends as an
interpreter ends, with its exit handlers. Linux only: elsewhere each process starts from nothing.
"""

import atexit
import contextlib
import functools
import gc
import importlib
import json
import os
import runpy
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

ROOT: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH120, PTH100 - pathlib is slow to load
IMPORTED: Final = (
    *("torch", "torch._dynamo", "torch.distributed.fsdp", "trl.trainer.grpo_trainer", "datasets"),
    *("lightning.pytorch", "monitor_server.app"),
)
ADDRESS: Final = "TESTS_INTERPRETER"  # the variable with the socket on which the interpreter listens
REQUEST_BYTES: Final = 1 << 18


class WarmProcess:
    """A forked process, with the methods of `subprocess.Popen` that the tests use."""

    def __init__(self, status: int, arguments: Sequence[str]) -> None:
        self.args = list(arguments)
        self.returncode: int | None = None
        self._status = status
        self.pid = int(self._line())

    def poll(self) -> int | None:
        """Return the exit status, or None while the process runs."""
        if self.returncode is None and selectable(self._status, 0.0):
            self.returncode = int(self._line())
            os.close(self._status)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end and return the exit status."""
        if self.returncode is None and not selectable(self._status, timeout):
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        status = self.poll()
        assert status is not None
        return status

    def kill(self) -> None:
        """Kill the process, unless it has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def _line(self) -> str:
        text = b""
        while not text.endswith(b"\n"):
            piece = os.read(self._status, 1)
            assert piece, "the interpreter that the process was forked from has ended"
            text += piece
        return text.decode()


def selectable(descriptor: int, timeout: float | None) -> bool:
    """Wait until a descriptor can be read, for a time at most."""
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        return bool(selector.select(timeout))


def start(
    arguments: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: str | os.PathLike[str] = ROOT,
    stdout: int | None = None,
) -> "WarmProcess | subprocess.Popen[bytes]":
    """Start `python ARGUMENTS`, where the arguments are a script's path or ``-m`` and a module, and then its own.

    Args:
        arguments: What follows ``python``.
        env: The whole environment.
        cwd: The folder to start in.
        stdout: A descriptor for standard output and standard error; by default they are those of the tests.
    """
    if sys.platform != "linux":
        return subprocess.Popen([sys.executable, *arguments], env=env, cwd=cwd, stdout=stdout, stderr=stdout)
    readable, writable = os.pipe()
    request = json.dumps({"arguments": list(arguments), "env": dict(env), "cwd": os.fspath(cwd)}).encode()
    assert len(request) < REQUEST_BYTES
    outputs = [1, 2] if stdout is None else [stdout, stdout]
    try:
        socket.send_fds(_interpreter(), [request], [*outputs, writable])
    finally:
        os.close(writable)
    return WarmProcess(readable, arguments)


def run(
    arguments: Sequence[str], *, env: Mapping[str, str], cwd: str | os.PathLike[str] = ROOT, timeout: float
) -> "subprocess.CompletedProcess[str]":
    """Start `python ARGUMENTS` as `start` does, wait for its end, and return its status and all that it printed."""
    with tempfile.TemporaryFile("w+") as output:
        process = start(arguments, env=env, cwd=cwd, stdout=output.fileno())
        try:
            status = process.wait(timeout)
        finally:
            process.kill()
            process.wait()
        output.seek(0)
        return subprocess.CompletedProcess(list(arguments), status, output.read(), "")


def listen() -> None:
    """Start the interpreter that is forked, unless one listens; it ends when this process has ended.

    Processes that this one starts find it by the variable `ADDRESS`.
    """
    if ADDRESS in os.environ or sys.platform != "linux":
        return
    folder = tempfile.mkdtemp(prefix="rlvitals-tests-")
    address = os.path.join(folder, "socket")  # noqa: PTH118
    environment = os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": ""}
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(address)
        listener.listen(16)
        process = subprocess.Popen(
            [sys.executable, __file__, str(listener.fileno())],
            env=environment,
            cwd=tempfile.gettempdir(),
            pass_fds=[listener.fileno()],
            stdin=subprocess.PIPE,
        )
    os.environ[ADDRESS] = address
    atexit.register(_end, process, folder)


def _end(process: "subprocess.Popen[bytes]", folder: str) -> None:
    assert process.stdin is not None
    process.stdin.close()
    process.wait()
    shutil.rmtree(folder, ignore_errors=True)


@functools.cache
def _interpreter() -> socket.socket:
    """Connect to the interpreter that is forked; the connection waits for it to have imported everything."""
    listen()
    requests = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    requests.connect(os.environ[ADDRESS])
    atexit.register(requests.close)
    return requests


class Interpreter:
    """The process from which the others are forked: it answers requests until standard input ends."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._running: dict[int, int] = {}  # where each process's exit status is written, by its pid
        self._woken, waking = os.pipe()
        os.set_blocking(waking, False)
        signal.set_wakeup_fd(waking)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._selector = selectors.DefaultSelector()
        for source in (0, listener, self._woken):
            self._selector.register(source, selectors.EVENT_READ)

    def serve(self) -> dict[str, Any] | None:
        """Fork a process for each request; return its request in the process, and None when no client is left."""
        while True:
            for ready in [key.fileobj for key, _ in self._selector.select()]:
                if ready == 0:
                    return None
                if ready == self._woken:
                    os.read(self._woken, 512)
                    self._report()
                elif ready is self._listener:
                    self._selector.register(self._listener.accept()[0], selectors.EVENT_READ)
                elif isinstance(ready, socket.socket) and (request := self._fork(ready)):
                    return request

    def _fork(self, client: socket.socket) -> dict[str, Any] | None:
        """Fork a process for a client's request, and return the request in the process alone."""
        message, descriptors, _, _ = socket.recv_fds(client, REQUEST_BYTES, 3)
        if not message:
            self._selector.unregister(client)
            client.close()
            return None
        *outputs, status = descriptors
        pid = os.fork()
        if pid == 0:
            self._forget(status)
            _redirect(outputs)
            return dict(json.loads(message))
        self._running[pid] = status
        os.write(status, f"{pid}\n".encode())
        for descriptor in outputs:
            os.close(descriptor)
        return None

    def _forget(self, status: int) -> None:
        """Close the resources of the interpreter in a forked process; its selector still belongs to the interpreter."""
        waking = signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for key in list(self._selector.get_map().values()):
            if isinstance(key.fileobj, socket.socket):
                key.fileobj.close()
        self._selector.close()
        for descriptor in (self._woken, waking, status, *self._running.values()):
            os.close(descriptor)

    def _report(self) -> None:
        """Write the exit status of each process that has ended to the client that started it."""
        while self._running:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            with contextlib.suppress(BrokenPipeError):
                os.write(self._running[pid], f"{os.waitstatus_to_exitcode(status)}\n".encode())
            os.close(self._running.pop(pid))


def _redirect(outputs: Sequence[int]) -> None:
    """Read nothing from standard input, and write the output where the tests want it."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    for target, descriptor in enumerate((nothing, *outputs)):
        os.dup2(descriptor, target)
    for descriptor in {nothing, *outputs}:
        os.close(descriptor)


def _become(request: dict[str, Any]) -> None:
    """Run a script or a module as the interpreter would have from its beginning."""
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    time.tzset()
    tempfile.tempdir = None
    first, *rest = request["arguments"]
    paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    if first == "-m":
        sys.path[:1] = [request["cwd"], *paths]
        sys.argv = rest
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    else:
        sys.path[:1] = [os.path.dirname(os.path.abspath(first)), *paths]  # noqa: PTH120, PTH100
        sys.argv = [first, *rest]
        runpy.run_path(first, run_name="__main__")


def main() -> None:
    """Import, then fork on request; in a forked process, run the requested program and end as it ends."""
    sys.path[0] = ROOT  # and not this folder, whose folders have the names of our packages
    with socket.socket(fileno=int(sys.argv[1])) as listener:
        for name in IMPORTED:
            importlib.import_module(name)
        gc.freeze()  # a forked process that collects garbage would copy every page of the imports
        request = Interpreter(listener).serve()
    if request is not None:
        _become(request)


if __name__ == "__main__":
    main()
