"""A measurement is reduced and encoded as one record, without threads and without HTTP."""

import math
from dataclasses import replace

import numpy as np
import pytest

from trainer_hooks import Rollouts
from trainer_hooks.arrays.copies import CopyPool
from trainer_hooks.delivery import DropCounter
from trainer_hooks.probes.paired import Paired
from trainer_hooks.recording.health import RunHealth
from trainer_hooks.recording.inputs import InputReader
from trainer_hooks.recording.records import Measurement, RecordBuilder
from trainer_hooks.recording.usable_fields import MAX_VALID_NAMES
from trainer_hooks.settings import ConnectionSettings
from trainer_hooks.wire import MAX_RECORD_SIGNALS, ActionReport, ForkResult, decode_record, decode_response

SETTINGS = ConnectionSettings(url="", project="p", run="r", attempt=7, rank=1, world_size=2, response_seconds=0.0)
ARRAYS = {"logprobs": [[-1.0, -2.0], [-3.0, -1.0]], "mask": [[1, 1], [1, 0]], "rewards": [1.0, 0.0]}


def builder(drops=None, settings=SETTINGS, **options):
    """Return a record builder, and its counter of drops."""
    drops = drops or DropCounter()
    return RecordBuilder(settings, drops, RunHealth(settings.attempt, drops), **options), drops


def measurement(step=1, tokens=None, numbers=None, **fields):
    """Return the measurement of one `log_step` at 1000 s."""
    return Measurement(step, 1000.0, {"lr": 0.5} if numbers is None else numbers, tokens, **fields)


def test_a_record_has_the_numbers_and_names_of_its_step():
    """A step without arrays is of level L1, and the first version of the schema reads it."""
    records, _ = builder(first_seq=40)
    encoded = records.encode(measurement(3, policy_version=np.int64(2), data_version=5))
    record = decode_record(encoded.body)
    assert (encoded.attempt, encoded.schema_version, encoded.capability) == (7, 1, "L1")
    assert (record.step, record.seq, record.time) == (3, 40, 1000.0)
    assert (record.policy_version, record.data_version) == (2, "5")
    assert record.scalars == {"lr": 0.5}


@pytest.mark.parametrize("name", ["", " lr", "l\nr", "l\0r", "lr\ud800", "n" * 201, "n" * 10**6])
def test_a_scalar_whose_name_cannot_be_sent_costs_itself_alone(name):
    """The collector would refuse the whole step, and UTF-8 has no surrogates; it is counted at each step."""
    records, drops = builder()
    for step in (1, 2):
        record = decode_record(records.encode(measurement(step, numbers={name: 1.0, "loss": 2.0})).body)
        assert record.scalars == {"loss": 2.0}
    assert drops["scalars"] == 2


@pytest.mark.parametrize("given", [math.nan, math.inf, -1, 2**70, "seven"])
def test_a_policy_version_that_cannot_be_sent_is_left_out(given):
    """A step is worth more than the number of its updates."""
    records, _ = builder()
    record = decode_record(records.encode(measurement(policy_version=given)).body)
    assert (record.policy_version, record.scalars) == (None, {"lr": 0.5})


def test_a_data_version_that_cannot_be_sent_is_left_out():
    """A surrogate and a line break are no printable characters."""
    records, _ = builder()
    for given in ("v\ud800", "v\n1", "v" * 201):
        record = decode_record(records.encode(measurement(data_version=given)).body)
        assert (record.data_version, record.scalars) == (None, {"lr": 0.5})


class Unreadable:
    """An object of a user that raises at any access."""

    def __str__(self):
        raise RuntimeError("no text")

    __repr__ = __int__ = __str__


def test_objects_that_cannot_be_read_cost_themselves_alone():
    """Such objects are used as a name and as both versions; no code of the user ends the record."""
    records, drops = builder()
    given = {"numbers": {Unreadable(): 1.0, "lr": 0.5}, "data_version": Unreadable(), "policy_version": Unreadable()}
    record = decode_record(records.encode(measurement(**given)).body)
    assert (record.scalars, record.data_version, record.policy_version) == ({"lr": 0.5}, None, None)
    assert drops["scalars"] == 1


@pytest.mark.parametrize(
    "given", [{"numbers": {"n" * 10**6: 1.0}}, {"data_version": "v" * 10**6}, {"policy_version": "7" * 10**4}]
)
def test_what_cannot_be_sent_is_warned_of_once_and_briefly(given, caplog):
    """A training of a million steps has one line about it, which names the dropped values."""
    records, _ = builder()
    for step in (1, 2):
        records.encode(measurement(step, **given))
    (line,) = caplog.messages
    assert "left out" in line
    assert len(line) < 400


def test_a_name_that_reads_like_a_summary_is_not_sent_beside_it():
    """The collector would refuse the whole record for a name that is both."""

    class Name:
        def __str__(self):
            return "hooks/dropped_records"

    records, _ = builder()
    assert decode_record(records.encode(measurement(numbers={Name(): 1.0, "lr": 0.5})).body).scalars == {"lr": 0.5}


def test_a_step_with_too_many_names_keeps_the_first_ones(caplog):
    """The collector reads 10,000 signals of a record, with those of the SDK."""
    records, drops = builder()
    numbers = {f"s/{number}": 1.0 for number in range(MAX_RECORD_SIGNALS + 10)}
    record = decode_record(records.encode(measurement(numbers=numbers)).body)
    assert len(record.scalars) + len(record.summaries) == MAX_RECORD_SIGNALS
    assert list(record.scalars)[:2] == ["s/0", "s/1"]
    assert drops["scalars"] == 10 + len(record.summaries)
    (line,) = caplog.messages
    assert "at most 10000 signals" in line


def test_too_many_names_displace_nothing_that_detectors_read():
    """A norm of each parameter comes before the norm of the gradient, which `log_step` adds last."""
    records, _ = builder()
    numbers = {f"param/{number}/norm": 1.0 for number in range(MAX_RECORD_SIGNALS)} | {"grad/norm": 2.0}
    assert decode_record(records.encode(measurement(numbers=numbers)).body).scalars["grad/norm"] == 2.0


def test_names_that_never_end_fill_no_memory():
    """More names than are remembered are sent all the same."""
    records, drops = builder()
    numbers = {f"s/{number}": 1.0 for number in range(MAX_VALID_NAMES + 10)}
    assert len(decode_record(records.encode(measurement(numbers=numbers)).body).scalars) == len(numbers)
    assert drops["scalars"] == 0


def test_a_record_compares_its_tokens_with_those_of_the_first_steps():
    """The builder counts the tokens of 20 steps; the next has the share that they did not have."""
    records, _ = builder()
    steps = [Rollouts(**ARRAYS, token_ids=[[5, 6], [5, 0]])] * 20 + [Rollouts(**ARRAYS, token_ids=[[5, 9], [9, 0]])]
    encoded = [records.encode(measurement(number, step)) for number, step in enumerate(steps)]
    before, after = (decode_record(item.body).summaries for item in encoded[-2:])
    assert "text/unseen_frac" not in before
    assert after["text/unseen_frac"].value() == pytest.approx(2 / 3)


def test_a_lower_step_starts_a_new_attempt_and_resets_the_health():
    """The same step again starts no new attempt, and the sequence numbers continue."""
    drops = DropCounter()
    health = RunHealth(7, drops)
    health.phase = "decay"
    records = RecordBuilder(SETTINGS, drops, health)
    encoded = [records.encode(measurement(step)) for step in (5, 6, 6)]
    assert health.phase == "decay"
    encoded.append(records.encode(measurement(4)))
    assert health.phase == "unknown"
    assert [item.attempt for item in encoded] == [7, 7, 7, 8]
    assert [decode_record(item.body).seq for item in encoded] == [0, 1, 2, 3]


@pytest.mark.parametrize("step", [-1, 2**53 + 1, 2**70, 10**5000], ids=["-1", "2**53 + 1", "2**70", "10**5000"])
def test_a_step_that_cannot_be_stored_costs_itself_alone(step):
    """The collector would refuse it; it is not a step that was reached, so the next one is no rewind."""
    records, _ = builder()
    with pytest.raises(ValueError, match=r"step must lie in 0 to 2\*\*53, got"):
        records.encode(measurement(step))
    encoded = records.encode(measurement(5))
    assert (encoded.attempt, decode_record(encoded.body).seq) == (7, 0)
    with pytest.raises(ValueError, match=r"step must lie in 0 to 2\*\*53, got"):
        records.encode(measurement(step))
    assert records.encode(measurement(6)).attempt == 7


NOTHING_FINITE = {"mask": np.zeros((2, 2)), "rewards": [math.nan, math.nan]}


@pytest.mark.parametrize(
    ("rollouts", "expected"),
    [(None, 2.0), (ARRAYS | {"rewards": [math.nan, 0.0]}, 3.0), (ARRAYS | NOTHING_FINITE, 4.0)],
)
def test_non_finite_numbers_are_counted_over_scalars_and_arrays(rollouts, expected):
    """Values that are not finite are counted: two scalars, and rewards too; rollouts without a number are not lost."""
    records, _ = builder()
    numbers = {"a": math.nan, "b": -math.inf, "c": 1.0}
    tokens = Rollouts(**rollouts) if rollouts else None
    item = measurement(numbers=numbers, tokens=tokens, has_rollouts=tokens is not None)
    summaries = decode_record(records.encode(item).body).summaries
    assert summaries["finite/bad_values"].value() == expected
    assert "hooks/lost_rollouts" not in summaries


@pytest.mark.parametrize(
    ("more", "level"),
    [
        (ARRAYS, "L2"),
        (ARRAYS | {"entropies": np.ones((2, 2))}, "L3"),
        (ARRAYS | {"old_logprobs": ARRAYS["logprobs"]}, "L3"),
    ],
)
def test_rollouts_give_signals_and_the_level_of_their_arrays(more, level):
    """Rollouts have the level of their arrays, and their sampled responses need the second version of the schema."""
    records, _ = builder()
    encoded = records.encode(measurement(tokens=Rollouts(**ARRAYS | more)))
    record = decode_record(encoded.body)
    assert (encoded.capability, encoded.schema_version) == (level, 2)
    assert record.summaries["likelihood/correct"].value() == -1.5
    assert sorted(decode_response(raw).length for raw in record.responses) == [1, 2]


def test_paired_scores_are_of_the_highest_level():
    """The changes over the update are summaries of the record, and the level is L4."""
    before = np.array([[-1.0, -2.0]])
    scores = Paired((before, -before), (before - 0.5, -before), mask=[[1, 1]], correct=[1])
    _, _, changes = InputReader(DropCounter()).read({}, None, [scores], 0.0)
    encoded = builder()[0].encode(measurement(changes=changes))
    assert encoded.capability == "L4"
    assert decode_record(encoded.body).summaries["displacement/cross"].value() == -0.5


def test_a_scalar_of_the_name_of_a_signal_is_left_out():
    """The scalar is left out, because the summary merges over ranks and a collector refuses a record that has both."""
    records, _ = builder()
    item = measurement(numbers={"reward/mean": 9.0, "lr": 0.5}, tokens=Rollouts(**ARRAYS))
    record = decode_record(records.encode(item).body)
    assert record.scalars == {"lr": 0.5}
    assert record.summaries["reward/mean"].value() == 0.5


@pytest.mark.parametrize(
    "arrays",
    [
        ARRAYS | {"logprobs": [[1.0, -2.0], [-3.0, -1.0]]},
        ARRAYS | {"mask": [[1, 1, 1], [1, 0, 0]]},
        ARRAYS | {"nonsense": [1.0]},
        ARRAYS | {"clip_range": (0.1, 0.2, 0.3)},
        ARRAYS | {"clip_range": np.array([[0.1, 0.2]])},
        ARRAYS | {"clip_range": "wide"},
    ],
    ids=["value", "shape", "name", "three bounds", "bounds in a matrix", "text"],
)
def test_arrays_that_contradict_each_other_cost_only_themselves(arrays):
    """The scalars are encoded, and the record counts the arrays that were left out."""
    records, drops = builder()
    encoded = records.encode(measurement(tokens=CopyPool().copy(arrays)))
    record = decode_record(encoded.body)
    assert encoded.capability == "L1"
    assert record.scalars == {"lr": 0.5}
    assert record.summaries["hooks/rejected_rollouts"].value() == drops["rollouts"] == 1
    assert "reward/mean" not in record.summaries


def test_an_error_of_another_kind_in_the_arrays_costs_only_them(swallowed):
    """A library that is none, or a conversion that warns where warnings are errors, does not cost the scalars."""
    records, drops = builder()
    copies = CopyPool().copy(ARRAYS | {"library": 5})
    record = decode_record(records.encode(measurement(tokens=copies, has_rollouts=True)).body)
    assert record.scalars == {"lr": 0.5}
    assert record.summaries["hooks/lost_rollouts"].value() == 1
    assert drops["internal_errors"] == len(swallowed) == 1
    swallowed.clear()


def test_copied_arrays_give_their_memory_back():
    """The memory of copied arrays is released, also where the record cannot be encoded."""
    released = []
    records, _ = builder()
    for step, error in ((1, None), (2**70, ValueError)):
        copies = replace_release(CopyPool().copy(ARRAYS), released)
        item = measurement(step, tokens=copies)
        if error is None:
            records.encode(item)
        else:
            with pytest.raises(error):
                records.encode(item)
    assert len(released) == 2


def replace_release(copies, released):
    """Return copies that note when their memory is released."""
    return type(copies)(copies.others, copies.copied, copies.nbytes, lambda: released.append(True))


def test_our_own_cost_and_losses_are_totals_in_every_record():
    """A kind of loss that never occurred has no signal, except the number of dropped records."""
    drops = DropCounter()
    records, _ = builder(drops, spool_bytes=lambda: 4096)
    first = decode_record(records.encode(measurement(1)).body).summaries
    drops.count("buffer_full", "too fast", by=3)
    second = decode_record(records.encode(measurement(2, blocking_seconds=0.25)).body).summaries
    assert {name: found.value() for name, found in first.items() if name.startswith("hooks/")} == {
        "hooks/dropped_records": 0.0,
        "hooks/spool_bytes": 4096.0,
    }
    assert {name: found.value() for name, found in second.items() if name.startswith("hooks/")} == {
        "hooks/blocking_seconds": 0.25,
        "hooks/dropped_records": 3.0,
        "hooks/dropped/buffer_full": 3.0,
        "hooks/spool_bytes": 4096.0,
    }


def test_reports_of_actions_are_in_the_record():
    """Reports of actions are in the record, and need the second version of the schema."""
    report = ActionReport(action="stop", alert_id="a", outcome="dry_run", reason="it falls")
    encoded = builder()[0].encode(measurement(actions=[report]))
    assert encoded.schema_version == 2
    assert decode_record(encoded.body).actions == [report]


def test_an_answer_to_a_request_needs_the_third_version():
    """An older collector, which asks for nothing, never receives one."""
    report = ActionReport(action="stop", alert_id="a", outcome="received", reason="asked", request_id="q")
    encoded = builder()[0].encode(measurement(actions=[report]))
    assert encoded.schema_version == 3
    assert decode_record(encoded.body).actions == [report]


def test_forks_need_the_fourth_version():
    """Their action is unknown to older collectors."""
    report = ActionReport(
        action="fork", alert_id="a", outcome="taken", reason="r", forks=[ForkResult(name="kl", steps=3)]
    )
    encoded = builder()[0].encode(measurement(actions=[report]))
    assert encoded.schema_version == 4
    assert decode_record(encoded.body).actions[0].forks[0].name == "kl"


def test_responses_are_sampled_after_the_interval_only():
    """Of two steps at the same time only the first is sampled, and both have signals."""
    records, _ = builder(settings=replace(SETTINGS, response_seconds=1.0))
    found = [decode_record(records.encode(measurement(step, tokens=Rollouts(**ARRAYS))).body) for step in (1, 2)]
    assert [bool(record.responses) for record in found] == [True, False]
    assert all("reward/mean" in record.summaries for record in found)


@pytest.mark.parametrize("kind", [RuntimeError, SystemExit])
def test_a_redaction_that_raises_is_counted_and_the_record_is_sent(kind):
    """The record has the response without its text; not even `sys.exit()` ends the thread that encodes."""

    def fail(_text):
        raise kind("no")

    records, drops = builder(settings=replace(SETTINGS, texts=True), redact=fail)
    record = decode_record(records.encode(measurement(tokens=Rollouts(**ARRAYS, texts=["a", "b"]))).body)
    assert [decode_response(raw).text for raw in record.responses] == [None, None]
    assert drops["responses"] == 2
