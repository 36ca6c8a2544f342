"""Starts Python processes that have torch, TRL and the collector's libraries imported: forks of one interpreter.

Importing torch, its compiler and TRL takes ten seconds of a core, and some sixty processes of the tests need them.
Nothing of ours is imported before the fork. Each process has its own environment, folder, arguments and output, and
ends as an interpreter ends, with its exit handlers. Linux only: elsewhere each process starts from nothing.
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
    *("alembic.command", "fastapi", "prometheus_client", "pydantic_settings", "sqlalchemy.orm", "uvicorn", "zstandard"),
)
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
        socket.send_fds(_interpreter()[0], [request], [*outputs, writable])
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


@functools.cache
def _interpreter() -> tuple[socket.socket, "subprocess.Popen[bytes]"]:
    """Start the interpreter that is forked, and return the way to ask it; it ends when this process has ended."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    environment = os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": ""}
    with theirs:
        process = subprocess.Popen(
            [sys.executable, __file__, str(theirs.fileno())],
            env=environment,
            cwd=tempfile.gettempdir(),
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
        )
    atexit.register(_end, ours, process)
    return ours, process


def _end(requests: socket.socket, process: "subprocess.Popen[bytes]") -> None:
    requests.close()
    process.wait()


def _serve(requests: socket.socket) -> dict[str, Any] | None:
    """Fork a process for each request; return its request in a forked process, and None when nobody is left to ask."""
    running: dict[int, int] = {}  # where each process's exit status is written, by its pid
    readable, writable = os.pipe()
    os.set_blocking(writable, False)
    signal.set_wakeup_fd(writable)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    with selectors.DefaultSelector() as selector:
        selector.register(requests, selectors.EVENT_READ)
        selector.register(readable, selectors.EVENT_READ)
        while True:
            ready = {key.fileobj for key, _ in selector.select()}
            if readable in ready:
                os.read(readable, 512)
                _report(running)
            if requests not in ready:
                continue
            message, descriptors, _, _ = socket.recv_fds(requests, REQUEST_BYTES, 3)
            if not message:
                return None
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for status in (readable, writable, *running.values(), descriptors[2]):
                    os.close(status)
                for target, descriptor in zip((1, 2), descriptors, strict=False):
                    os.dup2(descriptor, target)
                for descriptor in set(descriptors[:2]):
                    os.close(descriptor)
                return dict(json.loads(message))
            running[pid] = descriptors[2]
            os.write(descriptors[2], f"{pid}\n".encode())
            for descriptor in descriptors[:2]:
                os.close(descriptor)


def _report(running: dict[int, int]) -> None:
    """Write the exit status of each process that has ended to whoever started it."""
    while running:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        with contextlib.suppress(BrokenPipeError):
            os.write(running[pid], f"{os.waitstatus_to_exitcode(status)}\n".encode())
        os.close(running.pop(pid))


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
    """Import, then fork on request; in a forked process, run what was asked for and end as it ends."""
    with socket.socket(fileno=int(sys.argv[1])) as requests:
        for name in IMPORTED:
            importlib.import_module(name)
        gc.freeze()  # a forked process that collects garbage would copy every page of what was imported
        request = _serve(requests)
    if request is not None:
        _become(request)


if __name__ == "__main__":
    main()
