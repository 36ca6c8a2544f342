"""Writes the first inputs of the corpus of the decoder: ``python -m tests.fuzz.seeds FOLDER``."""

import gzip
import json
import sys
from pathlib import Path

import msgspec
import numpy as np
import zstandard

from trainer_hooks import wire

__all__ = ["main"]


def main(folder: Path) -> None:
    """Write one file an input."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in _seeds().items():
        (folder / name).write_bytes(data)


def _seeds() -> dict[str, bytes]:
    full = _batch()
    packed, spelled = wire.encode(full), _json()
    # Compressed already, small: the fuzzer keeps the shortest input of those that reach the same code, and cannot
    # change a value inside of these.
    small = msgspec.msgpack.encode({"schema_version": 2, "run": "r"})
    return {
        "msgpack": b"\0" + packed,
        "msgpack-gzip": b"\2" + gzip.compress(small, mtime=0),
        "msgpack-gzip-here": b"\x0a" + packed,
        "msgpack-zstd": b"\4" + zstandard.compress(small),
        "msgpack-zstd-here": b"\x0c" + packed,
        "msgpack-unknown-encoding": b"\6" + packed,
        "json": b"\1" + spelled,
        "json-gzip-here": b"\x0b" + spelled,
        "json-zstd-here": b"\x0d" + spelled,
        "json-unknown-encoding": b"\7" + spelled,
        "no-body": b"",
        "wide-histogram": b"\1" + json.dumps(_wide_histogram()).encode(),
        "many-records": b"\0" + msgspec.msgpack.encode({"schema_version": 2, "run": "r", "records": [None] * 60}),
        "other-version": b"\1" + json.dumps({"schema_version": 99, "run": "r"}).encode(),
        "nested-config": b"\1" + json.dumps({"schema_version": 2, "run": "r", "config": _nested(20)}).encode(),
    }


def _batch() -> wire.Batch:
    response = wire.Response(
        kinds=["displaced", "random"],
        reward=1.0,
        correct=True,
        length=4,
        logprob=-2.5,
        actions=wire.Array.from_numpy(np.array([[0, 2], [3, 4]], dtype=np.int32)),
        logprobs=wire.Array.from_numpy(np.array([-0.5, -1.0, -1.0], dtype=np.float16)),
        displacement=-0.25,
        displacements=wire.Array.from_numpy(np.zeros(3, dtype=np.float16)),
        trained=True,
        entropies=wire.Array.from_numpy(np.ones(3, dtype=np.float16)),
        mismatches=wire.Array.from_numpy(np.array([0.25, -np.inf, np.nan], dtype=np.float16)),
        token_ids=wire.Array.from_numpy(np.arange(4, dtype=np.int32)),
        group=0,
        advantage=0.5,
        advantages=wire.Array.from_numpy(np.ones(3, dtype=np.float16)),
        truncated=False,
        text="a b",
        pieces=["a", " ", "b", "."],
    )
    histogram = wire.Histogram(
        low=-1.0, high=1.0, quantile=0.5, scale="exp", counts=wire.Array.from_numpy(np.array([1, 2, 3], dtype=np.int64))
    )
    action = wire.ActionReport(action="stop", alert_id="a" * 8, outcome="dry_run", reason="r", detail="d")
    forked = wire.ActionReport(
        action="fork",
        alert_id="a" * 8,
        outcome="taken",
        reason="r",
        forks=[wire.ForkResult(name="kl", steps=3, reward=0.5, entropy=float("inf"))],
    )
    record = wire.Record(
        step=3,
        seq=4,
        time=1_790_000_000.5,
        policy_version=2,
        data_version="v1",
        scalars={"reward/mean": 0.5, "a": float("nan"), "b": float("-inf")},
        summaries={
            "m": wire.Moments(count=2.0, sum=1.0, sum_squares=0.5, statistic="std"),
            "e": wire.Extreme(extreme=3.0, statistic="min"),
            "h": histogram,
        },
        actions=[action, forked],
        responses=[msgspec.Raw(wire.encode(response))],
    )
    small = wire.Record(step=4, scalars={"reward/mean": 0.25})
    return wire.Batch(
        schema_version=wire.SCHEMA_VERSION,
        run="run",
        project="project",
        attempt=2,
        rank=1,
        world_size=2,
        capability="L3",
        source="trl 1.16",
        config={"lr": 1e-6, "names": ["a", None, True], "nested": {"x": 1}},
        end="finished",
        records=[msgspec.Raw(wire.encode(each)) for each in (record, small)],
    )


def _json() -> bytes:
    moments = {"type": "moments", "count": 2, "sum": "NaN", "sum_squares": 1.0, "statistic": "ess_frac"}
    counts = {"dtype": "float64", "shape": [2], "data": "AAAAAAAA8D8AAAAAAAAAQA=="}
    histogram = {"type": "histogram", "low": 0, "high": 2.5, "counts": counts, "quantile": 0.9}
    response = {
        "kinds": ["longest"],
        "reward": 0,
        "correct": False,
        "length": 1,
        "logprob": "-Infinity",
        "actions": {"dtype": "int32", "shape": [1, 2], "data": "AAAAAAEAAAA="},
        "logprobs": {"dtype": "float16", "shape": [1], "data": "AAA="},
    }
    record = {
        "step": 1,
        "scalars": {"a": "Infinity", "b": 1e308},
        "summaries": {"m": moments, "h": histogram, "e": {"type": "extreme", "extreme": "NaN"}},
        "responses": [response],
    }
    batch = {"schema_version": 2, "run": "r", "world_size": 4, "rank": 3, "config": {"a": [1, 2]}, "records": [record]}
    return json.dumps(batch).encode()


def _wide_histogram() -> dict[str, object]:
    """Return a batch that was accepted with an overflow, found by atheris: its bins are 8.5e307 wide."""
    counts = {"dtype": "float64", "shape": [2], "data": "AAAAAAAA8D8AAAAAAAAAQA=="}
    histogram = {"type": "histogram", "low": 0, "high": 1.7e308, "counts": counts, "quantile": 0.9}
    return {"schema_version": 2, "run": "r", "records": [{"step": 1, "summaries": {"h": histogram}}]}


def _nested(depth: int) -> dict[str, object]:
    return {"a": _nested(depth - 1)} if depth else {}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
