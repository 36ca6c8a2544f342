"""The attacks, by name: each goes on until it is told to end."""

import contextlib
import random
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus

import msgspec
import urllib3
import zstandard

from benchmarks.attacks.batches import HEADERS, batch, send
from trainer_hooks import wire

__all__ = ["ATTACKS", "Attack"]

MEBIBYTE = 1024 * 1024
TOO_LARGE = HTTPStatus.REQUEST_ENTITY_TOO_LARGE

Attack = Callable[[str, threading.Event], None]


def _many_at_once(url: str, ends: threading.Event) -> None:
    """Send batches of 10,000 records, one after the other."""
    _repeat(url, ends, lambda turn: batch(f"many-{turn}", [_small(step) for step in range(10_000)]))


def _waiting_steps(url: str, ends: threading.Event) -> None:
    """Let 30,000 steps wait for a second rank, and then complete them."""
    with urllib3.PoolManager(timeout=120, retries=False) as pool:
        for rank in (0, 1):
            for begin in range(0, 30_000, 10_000):
                records = [_small(step) for step in range(begin, begin + 10_000)]
                send(pool, url, batch("waiting", records, rank=rank, world_size=2))
                if ends.is_set():
                    return


def _sixteen_mebi_records(url: str, ends: threading.Event) -> None:
    """Send 16 Mi records of one byte each, which compress to some hundred bytes."""
    body = msgspec.msgpack.encode({"schema_version": 2, "run": "r", "records": None})[:-1]
    packed = zstandard.compress(body + b"\xdd" + (16 * MEBIBYTE).to_bytes(4, "big") + b"\xc0" * 16 * MEBIBYTE)
    _repeat(url, ends, lambda _: packed, encoding="zstd", expected=TOO_LARGE)


def _expanding_config(url: str, ends: threading.Event) -> None:
    """Send configurations of a few kilobytes that expand to 100 MiB."""
    body = msgspec.msgpack.encode({"schema_version": 2, "run": "r", "config": {"a": None}})[:-1]
    count = 100 * MEBIBYTE
    packed = zstandard.compress(body + b"\xdd" + count.to_bytes(4, "big") + b"\x90" * count)
    _repeat(url, ends, lambda _: packed, encoding="zstd", expected=TOO_LARGE)


def _largest_config(url: str, ends: threading.Event) -> None:
    """Send the largest configuration that is allowed, in a new attempt each time."""
    config = {"values": ["x" * 10] * 9_000}
    _repeat(url, ends, lambda turn: batch("config", [_small(turn)], config=config, attempt=turn + 1))


def _many_names(url: str, ends: threading.Event) -> None:
    """Send 4,000 records with 500 signals each, the most that are allowed, in one compressed body of 17 MB."""
    numbers = random.Random(0)  # noqa: S311 - values to send
    records = [{"step": step, "scalars": _drawn(numbers, 500)} for step in range(4_000)]
    packed = zstandard.compress(batch("names", records))
    _repeat(url, ends, lambda _: packed, encoding="zstd")


def _many_expanding(url: str, ends: threading.Event) -> None:
    """Send bodies of 13 KB that expand to 10,000 records each, on 100 connections at once."""
    records = [{"step": step, "scalars": {"reward/mean": 0.5, "a": 1.0}} for step in range(10_000)]

    def expand(place: int) -> None:
        packed = zstandard.compress(batch(f"expanding-{place}", records))
        _repeat(url, ends, lambda _: packed, encoding="zstd")

    with ThreadPoolExecutor(100) as threads:
        list(threads.map(expand, range(100)))


def _one_step(url: str, ends: threading.Event) -> None:
    """Send one step again and again, in batches of 2,000 records of 200 signals, always without one of its ranks."""
    numbers = random.Random(0)  # noqa: S311 - values to send; equal ones compress to a body that is refused
    signals = [msgspec.Raw(msgspec.msgpack.encode(_drawn(numbers, 200))) for _ in range(2_000)]

    def body(turn: int) -> bytes:
        records = [
            {"step": 1, "seq": 2_000 * turn + place, "scalars": scalars} for place, scalars in enumerate(signals)
        ]
        return batch("one-step", records, world_size=2)

    _repeat(url, ends, body)


def _late_records(url: str, ends: threading.Event) -> None:
    """Send 500 steps of 20 records each, and then again and again a late record for each of them."""
    with urllib3.PoolManager(timeout=60, retries=False) as pool:
        for seq in range(20):
            records = [{"step": step, "seq": 500 * seq + step, "scalars": {"a": 0.5}} for step in range(500)]
            send(pool, url, batch("late", records))

    def body(turn: int) -> bytes:
        records = [{"step": step, "seq": 500 * (20 + turn) + step, "scalars": {"a": 0.5}} for step in range(500)]
        return batch("late", records)

    _repeat(url, ends, body)


def _streams(url: str, ends: threading.Event) -> None:
    """Open 600 streams, and open them again when they are refused."""
    _connect(url, ends, 600, b"GET /api/v1/stream HTTP/1.1\r\nHost: localhost\r\n\r\n")


def _unread_series(url: str, ends: threading.Event) -> None:
    """Ask for long series on 50 connections, again and again, and read nothing."""
    with urllib3.PoolManager(timeout=60, retries=False) as pool:
        signals = {f"s{place}": 0.1 for place in range(200)}
        for begin in range(0, 2_000, 1_000):
            records = [{"step": step, "scalars": signals} for step in range(begin, begin + 1_000)]
            answer = pool.request(
                "POST", f"{url}/api/v1/ingest", body=batch("long", records), headers=HEADERS, preload_content=True
            )
            run_id = wire.decode_receipt(answer.data).run_id
    asked = f"GET /api/v1/runs/{run_id}/series HTTP/1.1\r\nHost: localhost\r\n\r\n".encode() * 20
    _connect(url, ends, 50, asked)


def _idle_connections(url: str, ends: threading.Event) -> None:
    """Open 300 connections that send nothing, and open them again when they are closed."""
    _connect(url, ends, 300, b"")


def _slow_bodies(url: str, ends: threading.Event) -> None:
    """Send 30 bodies of 32 MiB without their ends."""
    head = f"POST /api/v1/ingest HTTP/1.1\r\nHost: localhost\r\nContent-Type: {wire.MSGPACK}\r\n"
    sent = f"{head}Content-Length: {32 * MEBIBYTE}\r\n\r\n".encode() + bytes(31 * MEBIBYTE)
    _connect(url, ends, 30, sent)


def _slow_clients(url: str, ends: threading.Event) -> None:
    """Open 200 connections that send a byte every half second, half of them within a head, and one of 10 GiB.

    The last announces 10 GiB and goes on sending until it is closed, and does so again and again. A connection that the
    collector closes is opened again.
    """
    endless = threading.Thread(target=_ten_gibibytes, args=(url, ends), daemon=True)
    endless.start()
    host, port = url.removeprefix("http://").split(":")
    head = f"POST /api/v1/ingest HTTP/1.1\r\nHost: localhost\r\nContent-Type: {wire.MSGPACK}\r\n"
    begins = (head.encode(), f"{head}Content-Length: {MEBIBYTE}\r\n\r\n".encode())
    connections: dict[int, socket.socket] = {}
    while not ends.wait(0.5):
        for place in range(200):
            try:
                if place not in connections:
                    connections[place] = socket.create_connection((host, int(port)), timeout=0.5)
                    connections[place].sendall(begins[place % 2])
                connections[place].sendall(b"x")
            except OSError:
                if (closed := connections.pop(place, None)) is not None:
                    closed.close()
    for connection in connections.values():
        connection.close()
    endless.join(60)


def _ten_gibibytes(url: str, ends: threading.Event) -> None:
    host, port = url.removeprefix("http://").split(":")
    head = f"POST /api/v1/ingest HTTP/1.1\r\nHost: localhost\r\nContent-Type: {wire.MSGPACK}\r\n"
    part = bytes(64 * 1024)
    while not ends.wait(0.1):
        with contextlib.suppress(OSError), socket.create_connection((host, int(port)), timeout=5) as connection:
            connection.sendall(f"{head}Content-Length: {10 * 1024 * MEBIBYTE}\r\n\r\n".encode())
            while not ends.is_set():
                connection.sendall(part)


ATTACKS: dict[str, Attack] = {
    "30,000 waiting steps are completed": _waiting_steps,
    "batches of 10,000 records": _many_at_once,
    "16 Mi records in 0.6 KB of zstd": _sixteen_mebi_records,
    "a configuration of 100 MiB in 3 KB of zstd": _expanding_config,
    "the largest configuration, in new attempts": _largest_config,
    "4,000 records of 500 signals in one body": _many_names,
    "100 clients with 10,000 records in 13 KB of zstd": _many_expanding,
    "one step, sent without end": _one_step,
    "late records for each of 500 steps, without end": _late_records,
    "600 streams of one client": _streams,
    "50 clients that ask for long series and read nothing": _unread_series,
    "300 silent connections": _idle_connections,
    "30 bodies of 31 MiB without an end": _slow_bodies,
    "200 slow clients and a body of 10 GiB": _slow_clients,
}


def _repeat(
    url: str, ends: threading.Event, body: Callable[[int], bytes], *, encoding: str = "", expected: int = HTTPStatus.OK
) -> None:
    """Send bodies until the attack ends, each of which must have the expected answer, or one that says to wait."""
    with urllib3.PoolManager(timeout=120, retries=False) as pool:
        turn = 0
        while not ends.is_set():
            with contextlib.suppress(urllib3.exceptions.HTTPError):
                send(pool, url, body(turn), encoding=encoding, expected=(expected, HTTPStatus.SERVICE_UNAVAILABLE))
            turn += 1


def _connect(url: str, ends: threading.Event, count: int, sent: bytes) -> None:
    host, port = url.removeprefix("http://").split(":")
    while not ends.is_set():
        with contextlib.ExitStack() as stack:
            for _ in range(count):
                if ends.is_set():
                    return
                with contextlib.suppress(OSError):
                    connection = stack.enter_context(socket.create_connection((host, int(port)), timeout=0.5))
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                    connection.sendall(sent)
            ends.wait(2)


def _drawn(numbers: random.Random, count: int) -> dict[str, float]:
    return {f"{place:03}": numbers.random() for place in range(count)}


def _small(step: int) -> dict[str, object]:
    return {"step": step, "scalars": {"reward/mean": 0.5}}
