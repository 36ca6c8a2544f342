"""``python -m benchmarks.service.key_check``: the additional time of a batch if the collector requires keys.

Two collectors run at the same time, one without keys and one with keys. The same small batch goes to each in turn, so
that other work of the machine slows both.
"""

import statistics
import tempfile
import time
from pathlib import Path

import msgspec
import urllib3

from benchmarks.collectors import collector
from trainer_hooks import wire

__all__ = ["main"]

PAIRS = 2_000
WARM_UP = 200
SIGNALS = 60


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as name, urllib3.PoolManager(maxsize=4, retries=False) as pool:
        folder = Path(name)
        key_file = folder / "ingest.key"
        with (
            collector(folder / "plain.db") as (plain, _),
            collector(folder / "keys.db", {"RLVITALS_KEY_FILES": f"ingest:{key_file}"}) as (guarded, _),
        ):
            key = key_file.read_text().strip()
            pairs = []
            for number in range(WARM_UP + PAIRS):
                body = _batch(number)
                ends = [(plain, None), (guarded, key)]
                order = ends if number % 2 else ends[::-1]
                taken = {url: _send(pool, url, body, sent) for url, sent in order}
                pairs.append((taken[plain], taken[guarded]))
    without, with_key = (statistics.median(times) * 1e3 for times in zip(*pairs[WARM_UP:], strict=True))
    ratio = statistics.median(asked / free for free, asked in pairs[WARM_UP:])
    print(f"{PAIRS} pairs of a batch of one step with {SIGNALS} signals, on SQLite")
    print(f"median without keys {without:.2f} ms, with a key {with_key:.2f} ms; median ratio of pairs {ratio:.3f}")


def _batch(number: int) -> bytes:
    scalars = {f"signal/{place}": float(number + place) for place in range(SIGNALS)}
    record = msgspec.Raw(wire.encode(wire.Record(step=number, scalars=scalars)))
    return wire.encode(wire.Batch(schema_version=wire.SCHEMA_VERSION, run="r", records=[record]))


def _send(pool: urllib3.PoolManager, url: str, body: bytes, key: str | None) -> float:
    headers = {"Content-Type": wire.MSGPACK} | ({"Authorization": f"Bearer {key}"} if key else {})
    begin = time.perf_counter()
    answer = pool.request("POST", f"{url}/api/v1/ingest", body=body, headers=headers)
    seconds = time.perf_counter() - begin
    if answer.status != 200:  # noqa: PLR2004 - HTTP's number for success
        raise RuntimeError(f"the collector answered {answer.status}: {answer.data[:200]!r}")
    return seconds


if __name__ == "__main__":
    main()
