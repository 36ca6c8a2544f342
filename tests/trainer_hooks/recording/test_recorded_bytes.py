"""The spool of a process, byte for byte: the folders, the file names and the request bodies.

The files in ``golden/spool`` were written on 2026-11-23 by an earlier release and are never written again. All numbers
in them are multiples of 1/64, so that sums are exact on every processor.
"""

import shutil
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest

from tests.trainer_hooks.delivery.memory_transport import MemoryTransport
from trainer_hooks.monitor import Monitor
from trainer_hooks.probes.paired import Paired
from trainer_hooks.settings import ConnectionSettings
from trainer_hooks.sync import SyncResult, sync
from trainer_hooks.wire import ActionReport, decode_batch, decode_record

GOLDEN = Path(__file__).parents[1] / "wire" / "golden" / "spool"
NEWER_SIGNALS = {"text/looping_frac", "advantage/reward_corr", "tools/unbroken_frac"}
SETTINGS = ConnectionSettings(url="", project="golden", run="plain", attempt=1_700_000_000_000)


def step_arrays():
    """Return four responses of six tokens in two groups; the third token of the first is tool feedback."""
    logprobs = -np.arange(1, 25).reshape(4, 6) / 64
    mask = np.ones((4, 6), bool)
    mask[0, 2] = mask[1, 4:] = mask[2, 5] = False
    return {
        "logprobs": logprobs,
        "mask": mask,
        "rewards": np.array([1.0, 0.0, 1.0, 0.0]),
        "entropies": -logprobs / 2,
        "advantages": np.array([0.5, -0.5, 0.5, -0.5]),
        "group_ids": np.array([7, 7, 9, 9]),
        "token_ids": np.arange(24).reshape(4, 6) % 5,
        "tool_calls": np.array([1, 0, 2, 0]),
        "tool_calls_valid": np.array([1, 0, 1, 0]),
        "truncated": np.array([False, True, False, False]),
        "texts": ["a", "b", "c", "d"],
    }


def paired_scores():
    """Return two responses of two tokens that an update has made more likely by 1/64 nat per token."""
    before = np.array([[-0.5, -0.25], [-1.0, -0.75]])
    return Paired((before, -before), (before + 1 / 64, -before / 2), mask=np.ones((2, 2)), correct=np.array([1, 0]))


def spool_bodies(folder):
    """Return the request bodies of a spool by file name, the oldest first."""
    return {path.name: path.read_bytes() for path in sorted(folder.rglob("*.msgpack"))}


class Shares(msgspec.Struct):
    """The part of a record that holds signals, each as the bytes that were written."""

    summaries: dict[str, msgspec.Raw] = {}


def without_newer_signals(body):
    """Return a body without the bytes of signals that the earlier release did not compute; all others stay."""
    encode = msgspec.msgpack.encode
    for record in decode_batch(body).records:
        shares = msgspec.msgpack.decode(record, type=Shares).summaries
        newer = NEWER_SIGNALS & shares.keys()
        for signal in newer:
            body = body.replace(encode(signal) + bytes(shares[signal]), b"")
        header = encode("summaries") + b"\xde"  # of a map of more than 15, whose length follows
        lengths = [length.to_bytes(2, "big") for length in (len(shares), len(shares) - len(newer))]
        body = body.replace(header + lengths[0], header + lengths[1])
    return body


def log_plain_step(monitor):
    """Log scalars alone."""
    monitor.log_step(3, {"lr": 2.0**-20, "loss/policy": float("nan")}, grad_norm=2.5, policy_version=2)


def log_full_step(monitor):
    """Log everything that a step may have."""
    report = ActionReport(action="checkpoint", alert_id="a1", outcome="taken", reason="it falls", detail="step 4")
    monitor.log_step(4, {"lr": 0.5}, step_arrays(), data_version="easy", paired=[paired_scores()], actions=[report])


@pytest.mark.parametrize(
    ("settings", "log"),
    [
        (SETTINGS, log_plain_step),
        (replace(SETTINGS, run="full", rank=1, world_size=2, texts=True), log_full_step),
    ],
    ids=["plain", "full"],
)
def test_a_step_is_written_to_the_recorded_bytes(settings, log, tmp_path):
    """The spool has one batch with the step's record, and one without records that says how the run ended."""
    monitor = Monitor(
        replace(settings, spool_dir=tmp_path), None, config={"seed": 3}, source="golden 1.0", clock=lambda: 1.5e9
    )
    monitor.start()
    log(monitor)
    monitor.close("stopped")
    (written,) = tmp_path.iterdir()
    bodies = {name: without_newer_signals(body) for name, body in spool_bodies(written).items()}
    assert bodies == spool_bodies(GOLDEN / written.name)


def test_a_spool_of_the_release_before_is_sent_as_it_is(tmp_path):
    """The folder and file names of the release before are recognised, and its bodies are sent unchanged."""
    spool = shutil.copytree(GOLDEN, tmp_path / "spool")
    transport = MemoryTransport()
    assert sync(spool, transport) == SyncResult(sent=2)
    assert transport.bodies == [path.read_bytes() for path in sorted(GOLDEN.rglob("*.msgpack"))]
    assert list(spool.rglob("*.msgpack")) == []
    steps = [decode_record(raw).step for body in transport.bodies for raw in decode_batch(body).records]
    assert sorted(steps) == [3, 4]
