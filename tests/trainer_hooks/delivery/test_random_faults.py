"""Random lives of a run: odd arguments, a collector with every kind of answer, kills, and a small disk.

RLVITALS_TEST_SEEDS is the number of runs, and RLVITALS_TEST_FIRST_SEED the seed of the first.
"""

import json
import math
import os
import random
import signal
import time
import traceback

import numpy as np
import pytest
import torch

from tests.live import PATIENCE_SECONDS
from tests.trainer_hooks.delivery.unreliable_collector import unreliable_collector
from trainer_hooks.delivery.http import HttpTransport
from trainer_hooks.delivery.spool.folder import BLOCK_BYTES
from trainer_hooks.monitor import Monitor
from trainer_hooks.settings import ConnectionSettings
from trainer_hooks.wire import decode_record

FIRST_SEED = int(os.environ.get("RLVITALS_TEST_FIRST_SEED", "0"))
SEEDS = int(os.environ.get("RLVITALS_TEST_SEEDS", "2"))
LIVES = 4
# The steps that are no step at all are counted as "unpacked", and those that the collector refuses are known to it.
LOST_REASONS = ("buffer_full", "outbox_full", "unreadable", "unsent")


class Raises:
    """No number."""

    def __float__(self):
        raise RuntimeError("no number")


# Values of scalars, and the numbers that must arrive; None where the scalar is left out.
VALUES = [
    (0.1 + 0.2, 0.1 + 0.2),
    (math.nan, math.nan),
    (-math.inf, -math.inf),
    (2**63, float(2**63)),
    (10**400, None),
    (True, 1.0),
    ("7", None),
    (None, None),
    (Raises(), None),
    (np.float32(0.1), float(np.float32(0.1))),
    (np.float64(1e308), 1e308),
    (np.array(2), 2.0),
    (np.array([]), None),
    (np.array([[4.0]]), 4.0),
    (np.arange(6.0)[::-2], None),
    (torch.tensor([[2.5]], requires_grad=True), 2.5),
    (torch.tensor(0.5, dtype=torch.bfloat16), 0.5),
    (torch.ones(2), None),
]
NAMES = [*((f"name/{number}", True) for number in range(5)), ("", False), (" blank", False), ("x" * 10_000, False)]


def draw_scalars(draw):
    """Return scalars, and those of them that must arrive."""
    given, expected = {}, {}
    for _ in range(draw.randrange(8)):
        (name, is_usable), (value, number) = draw.choice(NAMES), draw.choice(VALUES)
        given[name] = value
        expected.pop(name, None)
        if is_usable and number is not None:
            expected[name] = number
    return given, expected


def draw_rollouts(draw):
    """Return rollouts of an odd form, and their mean reward; None where they are left out."""
    logprobs = np.asfortranarray(-np.ones((2, 6), np.float32))[:, ::-2]
    logprobs.setflags(write=False)
    good = {"logprobs": logprobs, "mask": torch.ones(2, 3), "rewards": [1.0, 0.0], "old_logprobs": logprobs * 1e38}
    return draw.choice(
        [
            (None, None),
            (good, 0.5),
            (good | {"copy": False}, 0.5),
            (good | {"rewards": np.zeros((0,))}, None),
            (good | {"clip_range": (1, 2, 3)}, None),
            (good | {"mask": "no"}, None),
            (good | {"entropies": np.full((2, 3), -np.inf)}, 0.5),
        ]
    )


def live(monitor, draw, life):
    """Log some steps, and return the records that are expected, by the number that each has."""
    expected = {}
    step = draw.randrange(100)
    for index in range(draw.randrange(1, 30)):
        step = max(0, step + draw.choice([0, 1, 1, 1, 5, -3]))
        scalars, numbers = draw_scalars(draw)
        rollouts, reward = draw_rollouts(draw)
        token = float(life * 1_000 + index)
        monitor.log_step(step, scalars | {"token": token}, rollouts)
        expected[token] = (step, numbers | {"token": token}, reward)
        if draw.random() < 0.2:
            monitor.flush(0.02)
        monitor.read_numbers(scalars)
    monitor.log_step(draw.choice(["no step", -1, 2**60, math.nan]), {})
    return expected


def lost(monitor):
    """Return how many records were lost for a reason that the collector does not know."""
    return sum(monitor.drops[reason] for reason in LOST_REASONS)


def surroundings():
    """Return what training owns and the SDK must leave as it is."""
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    generators = random.getstate(), np.random.get_state()[1].tobytes(), torch.get_rng_state().numpy().tobytes()  # noqa: NPY002
    return handlers, generators, torch.is_grad_enabled(), dict(os.environ), np.geterr()


def live_in_child(connect, draw, life):
    """Live in a child that kills itself; return its records, those that must not vanish, and the count of lost ones.

    An offline child has everything on disk, one that closes its monitor has it on disk or counted, and of the last kind
    nothing is known.
    """
    reader, writer = os.pipe()
    kind = draw.choice(["offline", "closed", "killed"])
    seed = draw.random()
    child = os.fork()
    if child == 0:
        report = {"error": "the child has died"}
        try:
            report = _live_and_report(connect, random.Random(seed), life, kind)  # noqa: S311 - no secret
        except BaseException:  # noqa: BLE001 - nothing may return into the test's own stack
            report = {"error": traceback.format_exc()}
        finally:
            with os.fdopen(writer, "w") as pipe:
                json.dump(report, pipe)
            os.kill(os.getpid(), signal.SIGKILL)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        report = json.load(pipe)
    os.waitpid(child, 0)
    assert "error" not in report, report["error"]
    expected = {token: tuple(record) for token, record in report["expected"]}
    return expected, set() if kind == "killed" else set(expected), report["lost"]


def _live_and_report(connect, draw, life, kind):
    before = surroundings()
    monitor = connect(is_offline=kind == "offline")
    expected = live(monitor, draw, life)
    if kind == "offline":
        assert monitor.flush(PATIENCE_SECONDS)
    elif kind == "closed":
        monitor.close()
    assert surroundings() == before
    return {"expected": list(expected.items()), "lost": lost(monitor)}


def equal(found, expected):
    """Compare scalars to the last bit, NaN included."""
    return {name: repr(value) for name, value in found.items()} == {
        name: repr(value) for name, value in expected.items()
    }


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded, use of fork:DeprecationWarning")
@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + SEEDS))
def test_every_record_arrives_with_its_content_or_is_counted_whatever_happens(seed, tmp_path, monkeypatch, swallowed):
    """Lives follow each other in one attempt with one spool; when the collector is calm again, nothing is left."""
    monkeypatch.setattr("trainer_hooks.delivery.transport.FIRST_DELAY_SECONDS", 0.0)
    monkeypatch.setattr("trainer_hooks.delivery.exporter.RETRY_SECONDS", 0.01)
    draw = random.Random(seed)  # noqa: S311 - no secret
    spool_bytes = draw.choice([2, 6, 10_000]) * BLOCK_BYTES
    before = surroundings()
    expected, certain, losses = {}, set(), 0

    with unreliable_collector(seed) as collector:

        def connect(*, is_offline=False):
            """Start the next process of the run; its clock may have jumped."""
            jump = draw.choice([0.0, 0.0, 3600.0, -3600.0])
            limits = {} if collector.is_calm else {"read_timeout_seconds": 0.2, "exchange_seconds": 0.1}
            monitor = Monitor(
                ConnectionSettings(
                    url=collector.url, project="p", run="r", attempt=1, spool_dir=tmp_path, spool_bytes=spool_bytes
                ),
                None if is_offline else HttpTransport(collector.url, **limits),
                config={"seed": seed},
                clock=lambda: time.time() + jump,
                close_timeout_seconds=PATIENCE_SECONDS if collector.is_calm else 0.1,
            )
            monitor.start()
            return monitor

        for life in range(LIVES):
            records, tokens, counted = live_in_child(connect, draw, life)
            expected |= records
            certain |= tokens
            losses += counted
        collector.is_calm = True
        with connect() as monitor:
            records = live(monitor, draw, LIVES)
        expected |= records
        certain |= set(records)
        assert monitor.flush(0.0)
        losses += lost(monitor)
        monitor.log_step(1, {"late": 1.0})
        assert lost(monitor) > 0

    swallowed.clear()
    stored = {}
    for bodies in collector.stored.values():
        assert len(set(bodies)) == 1, "a sequence number was used for two records"
        record = decode_record(bodies[0])
        stored[record.scalars.get("token")] = record
    for token, (step, numbers, reward) in expected.items():
        if token in stored:
            assert stored[token].step == step
            assert equal(stored[token].scalars, numbers), (stored[token].scalars, numbers)
            mean = stored[token].summaries.get("reward/mean")
            assert (mean and mean.value()) == reward
    refused = {record.scalars.get("token") for record in collector.refused}
    assert len(certain - set(stored) - refused) <= losses
    assert not list(tmp_path.rglob("*.msgpack"))
    assert surroundings() == before
