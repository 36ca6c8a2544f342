"""The records of a step's ranks are merged into one step."""

import numpy as np
import pytest

from monitor_server.step_processing.steps.rank_merging import StepRecords
from monitor_server.store.repositories.log.blocks import StoredRecord
from monitor_server.store.repositories.log.step_records import StepBounds
from trainer_hooks import wire

BOUNDS = StepBounds(records=100, body_bytes=1_000_000)
SIZE = len(wire.encode(wire.Record(step=7, seq=1, scalars={"a": 1.0})))


def _histogram(high):
    return wire.Histogram(low=0.0, high=high, counts=wire.Array.from_numpy(np.array([1, 0])), quantile=0.5)


def _assemble(*records, bounds=BOUNDS):
    assembled = StepRecords(bounds)
    for position, (rank, seq, fields) in enumerate(records):
        body = wire.encode(wire.Record(step=7, seq=seq, **fields))
        assembled.add(StoredRecord(position=position, batch=position, attempt=1, rank=rank, seq=seq, step=7, body=body))
    return assembled


def test_rank_0_decides_where_values_cannot_be_merged():
    """Each rank reports its own scalar, time and version; a name that only one rank reports is kept."""
    records = _assemble(
        (1, 1, {"scalars": {"a": 2.0, "only": 5.0}, "policy_version": 8, "time": 30.0}),
        (0, 1, {"scalars": {"a": 1.0}, "policy_version": 9, "time": 20.0}),
    )
    step = records.merge(step=7, attempt=3, now=99.0)
    assert (step.step, step.attempt, step.time, step.policy_version) == (7, 3, 20.0, 9)
    assert step.signals == {"a": 1.0, "only": 5.0}


def test_summaries_of_all_ranks_are_added():
    """Means over 1 and 3 values, 4 and 8: (4 + 3 · 8) / 4 = 7."""
    shares = [wire.Moments(count=1.0, sum=4.0), wire.Moments(count=3.0, sum=24.0)]
    records = _assemble(*((rank, 1, {"summaries": {"a": share}}) for rank, share in enumerate(shares)))
    assert records.merge(step=7, attempt=1, now=0.0).signals == {"a": 7.0}


def test_a_step_without_a_time_has_the_time_of_its_completion():
    """No rank sent a time, so the step has the time that the projector passes."""
    assert _assemble((0, 1, {"scalars": {"a": 1.0}})).merge(step=7, attempt=1, now=99.0).time == 99.0


def test_a_record_that_is_added_again_changes_nothing():
    """Rank and sequence number identify a record; two records of one rank count as one rank."""
    records = _assemble(
        (0, 1, {"scalars": {"a": 1.0}}), (0, 1, {"scalars": {"a": 5.0}}), (0, 2, {"scalars": {"b": 2.0}})
    )
    assert len(records) == 2
    merged = records.merge(step=7, attempt=1, now=0.0, world_size=2)
    assert merged.signals == {"a": 1.0, "b": 2.0, "step/seen_frac": 0.5}


def test_a_histogram_with_other_bins_is_left_out_and_logged(caplog):
    """Histograms with different bins cannot be added: the first one stays, and the log has a warning."""
    records = _assemble((0, 1, {"summaries": {"h": _histogram(2.0)}}), (1, 1, {"summaries": {"h": _histogram(4.0)}}))
    merged = records.merge(step=7, attempt=1, now=0.0, world_size=2)
    assert merged.signals == {"h": 1.0, "step/seen_frac": 0.5}  # of rank 1, which is merged first: half of 2 bins to 4
    assert "a stored record is left out of its step" in caplog.text


@pytest.mark.parametrize(
    "bounds", [StepBounds(records=3, body_bytes=1_000), StepBounds(records=100, body_bytes=3 * SIZE + 1)]
)
def test_records_beyond_a_bound_are_left_out_also_where_a_smaller_one_would_fit(bounds):
    """The first three in the order of the log are merged; later records change nothing, whatever their size."""
    records = _assemble(*((0, seq, {"scalars": {"a": float(seq)}}) for seq in range(5)), (1, 1, {}), bounds=bounds)
    assert (len(records), records.left_out, records.body_bytes) == (3, 3, 3 * SIZE)
    assert records.merge(step=7, attempt=1, now=0.0).signals == {"a": 2.0}


def test_one_record_is_merged_whatever_its_size():
    """A bound that no record meets leaves out all other records, and not the step."""
    records = _assemble(
        *((0, seq, {"scalars": {"a": 1.0}}) for seq in range(2)), bounds=StepBounds(records=9, body_bytes=1)
    )
    assert (len(records), records.left_out) == (1, 1)


def test_a_step_that_lacks_ranks_has_the_share_that_was_seen():
    """Of four ranks three reported; a whole step has no such signal."""
    records = _assemble(*((rank, 1, {"scalars": {"a": 1.0}}) for rank in range(3)))
    assert records.merge(step=7, attempt=1, now=0.0, world_size=4).signals == {"a": 1.0, "step/seen_frac": 0.75}
    assert records.merge(step=7, attempt=1, now=0.0, world_size=3).signals == {"a": 1.0}


COUNTED = wire.Moments(count=1, sum=1.0, statistic="sum")
MEAN = wire.Moments(count=4, sum=2.0)


@pytest.mark.parametrize(
    "fields", [{"summaries": {"hooks/lost_rollouts": COUNTED}}, {"scalars": {"hooks/partial_step": 1.0}}]
)
def test_a_rank_that_has_lost_its_responses_does_not_count_as_seen(fields):
    """Its record is there, and its responses are in none of the means."""
    records = _assemble((0, 1, {"summaries": {"reward/mean": MEAN}}), (1, 1, fields))
    assert records.merge(step=7, attempt=1, now=0.0, world_size=2).signals["step/seen_frac"] == 0.5


@pytest.mark.parametrize(
    "records",
    [
        # The responses are there, in another record.
        [(0, {"reward/mean": MEAN}), (1, {"hooks/lost_rollouts": COUNTED}), (1, {"reward/mean": MEAN})],
        [(0, {"reward/mean": MEAN}), (1, {"reward/mean": MEAN}), (1, {"hooks/lost_rollouts": COUNTED})],
        # Rank 0 alone measures responses. Those of an earlier step of rank 1 were rejected, and the total stays.
        [(0, {"reward/mean": MEAN}), (1, {"hooks/rejected_rollouts": COUNTED})],
        # No rank has responses, so they are not observed.
        [(0, {"hooks/lost_rollouts": COUNTED}), (1, {"finite/bad_values": COUNTED})],
    ],
)
def test_a_step_whose_responses_are_those_of_all_ranks_that_measure_them_is_whole(records):
    """What a rank does not measure is not lost, and what was lost in an earlier step is not missing in this one."""
    assembled = _assemble(*((rank, seq, {"summaries": summaries}) for seq, (rank, summaries) in enumerate(records)))
    assert "step/seen_frac" not in assembled.merge(step=7, attempt=1, now=0.0, world_size=2).signals
