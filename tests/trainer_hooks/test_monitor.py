import argparse
import math
import re
import sys
from collections import UserDict
from types import SimpleNamespace

import numpy as np
import pytest

import trainer_hooks
from tests.live import PATIENCE_SECONDS
from trainer_hooks.delivery import RecordQueue
from trainer_hooks.delivery.http import HttpTransport
from trainer_hooks.probes.paired import Paired
from trainer_hooks.settings import ConnectionSettings
from trainer_hooks.wire import HIDDEN, ActionReport, ActionRequest, AlertNotice, Receipt, decode_record


def test_what_is_logged_arrives_to_the_last_bit(collector, connect):
    """Scalars arrive as the float64 they were, NaN and Inf included."""
    monitor = connect(project="p", config={"lr": 1e-6, "model": object})
    sent = {"reward/mean": 0.1 + 0.2, "kl/old": math.nan, "lr": np.float32(1e-6), "loss/policy": -math.inf}
    monitor.log_step(7, sent, grad_norm=2.5, policy_version=6, data_version="easy")
    assert monitor.flush(PATIENCE_SECONDS)
    (record,) = collector.records
    assert record.step == 7
    assert record.policy_version == 6
    assert record.data_version == "easy"
    assert record.scalars["reward/mean"] == 0.1 + 0.2
    assert math.isnan(record.scalars["kl/old"])
    assert record.scalars["lr"] == float(np.float32(1e-6))
    assert record.scalars["grad/norm"] == 2.5
    assert record.summaries["finite/bad_values"].value() == 2
    assert collector.batches[0].project == "p"
    assert collector.batches[0].config["lr"] == 1e-6


def test_the_run_appears_before_its_first_step(collector, connect):
    """A heartbeat introduces the run with its configuration; later batches do not repeat it."""
    monitor = connect(config={"seed": 3})
    collector.wait_for(lambda seen: bool(seen.batches))
    assert repr(monitor).startswith(f"<Monitor of run '{collector.batches[0].run}', phase ")
    for step in (1, 2):
        monitor.log_step(step, {"x": 1.0})
        assert monitor.flush(PATIENCE_SECONDS)
    assert collector.batches[0].records == []
    # The second is the first batch on disk. Another process might send it without the heartbeat, so it repeats this.
    assert [batch.config for batch in collector.batches] == [{"seed": 3}, {"seed": 3}, None]


def test_a_configuration_that_cannot_be_sent_as_it_is_becomes_text(collector, connect):
    """A tokenizer without a limit has a length of 10**30, and half a character may be left of a text that was cut."""
    monitor = connect(config={"model_max_length": 10**30, "prompt": ["\ud83d"], "\ud83d": 2**64 - 1})
    monitor.log_step(1, {"x": 1.0})
    assert monitor.flush(PATIENCE_SECONDS)
    sent = {"model_max_length": str(10**30), "prompt": ["\\ud83d"], "\\ud83d": 2**64 - 1}
    assert collector.batches[0].config == sent
    assert [record.step for record in collector.records] == [1]


def test_secrets_in_a_configuration_are_not_sent(collector, connect):
    """Trainers pass whole configurations, with the environment of their workers; ordinary settings are sent."""
    logger = argparse.Namespace(wandb=SimpleNamespace(key="s3cretS3cretS3cret", project="search"))
    monitor = connect(config={"prompt_key": "prompt", "ray": UserDict({"env_vars": {"A": "s3cret"}}), "logger": logger})
    monitor.log_step(1, {"x": 1.0})
    assert monitor.flush(PATIENCE_SECONDS)
    assert collector.batches[0].config == {
        "prompt_key": "prompt",
        "ray": {"env_vars": HIDDEN},
        "logger": {"wandb": {"key": HIDDEN, "project": "search"}},
    }


def test_a_source_that_no_collector_accepts_is_shortened_and_escaped(collector, connect):
    """It only names the producer of the records; the collector would refuse every batch for it."""
    connect(source="two\nlines \ud83d " + "s" * 300)
    collector.wait_for(lambda seen: bool(seen.batches))
    source = collector.batches[0].source
    assert source.startswith(r"two\nlines \ud83d s")
    assert len(source) == 200


def test_a_configuration_that_is_no_mapping_is_refused_before_training():
    """A configuration of which nothing can be read by name is a mistake."""
    with pytest.raises(trainer_hooks.ConfigurationError, match="config must be a mapping, got a Namespace"):
        trainer_hooks.connect("http://127.0.0.1:1", run="r", config=argparse.Namespace(lr=1))


@pytest.mark.parametrize(("rank", "config"), [(0, {}), (1, None)])
def test_rank_0_introduces_itself_without_a_configuration_too(collector, connect, monkeypatch, rank, config):
    """An empty configuration, too, announces to the collector that the process has started; other ranks send none."""
    monkeypatch.setenv("RLVITALS_ATTEMPT", "1")
    connect(rank=rank, world_size=2)
    collector.wait_for(lambda seen: bool(seen.batches))
    assert collector.batches[0].config == config


def test_closing_flushes_and_says_how_the_run_ended(collector, connect):
    """Everything logged before close has arrived when it returns, and the last batch carries the end."""
    with connect() as monitor:
        for step in range(500):
            monitor.log_step(step, {"x": float(step)})
    assert [record.scalars["x"] for record in collector.records] == [float(step) for step in range(500)]
    assert collector.batches[-1].end == "finished"
    monitor.close()
    assert sum(batch.end is not None for batch in collector.batches) == 1


def test_an_exception_in_the_with_block_ends_the_run_as_stopped(collector, connect):
    """A run that dies is not reported as finished."""
    with pytest.raises(ZeroDivisionError), connect():
        _ = 1 / 0
    assert collector.batches[-1].end == "stopped"


@pytest.mark.parametrize(
    ("code", "end"), [(None, "finished"), (0, "finished"), (1, "stopped"), ("a reason", "stopped")]
)
def test_a_program_that_ends_itself_in_the_with_block_ends_the_run_as_it_ends(collector, connect, code, end):
    """`sys.exit()` is a success without a code or with 0; with another number or a text it is a failure."""
    with pytest.raises(SystemExit), connect():
        sys.exit(code)
    assert collector.batches[-1].end == end


def test_an_unknown_end_is_sent_as_stopped(collector, connect, caplog):
    """The collector would refuse the last batch, and never learn that the run has ended."""
    monitor = connect()
    monitor.close("failed")
    assert collector.batches[-1].end == "stopped"
    assert "got 'failed'; it is sent as stopped" in caplog.text


def test_no_scores_may_be_none(collector, connect):
    """A loop passes on what it has."""
    monitor = connect(source=None)
    monitor.log_step(1, {"x": 1.0}, paired=None, recomputed=None)
    assert monitor.flush(PATIENCE_SECONDS)
    assert collector.records[-1].scalars == {"x": 1.0}


def test_two_monitors_of_one_rank_have_no_number_in_common(collector):
    """The ranks of a launch share an attempt, and the collector takes a number that it has for a repetition."""
    settings = ConnectionSettings(url=collector.url, project="p", run="r", attempt=1, world_size=2)
    # More steps are logged than µs lie between two connections.
    clocks = [lambda: 1.5e9, lambda: 1.5e9, lambda: 1.5e9 - 1e-4]
    monitors = [trainer_hooks.Monitor(settings, HttpTransport(collector.url), clock=clock) for clock in clocks]
    for monitor in monitors:
        monitor.start()
        for step in range(200):
            monitor.log_step(step)
        monitor.close()
    assert len({record.seq for record in collector.records}) == len(collector.records) == 600


def test_a_rewind_starts_a_new_attempt(collector, connect):
    """A lower step increases the attempt, and the same step does not; sequence numbers continue."""
    monitor = connect()
    for step in (5, 6, 6, 4):
        monitor.log_step(step, {"x": 1.0})
    assert monitor.flush(PATIENCE_SECONDS)
    start = collector.records[0].seq
    assert [(record.step, record.seq - start) for record in collector.records] == [(5, 0), (6, 1), (6, 2), (4, 3)]
    attempts = [batch.attempt for batch in collector.batches for _ in batch.records]
    assert [attempt - attempts[0] for attempt in attempts] == [0, 0, 0, 1]


def test_the_phase_and_alerts_come_back_with_the_receipt(collector, connect):
    """The monitor has the newest phase, and notifies of an alert once although the collector repeats it."""
    alert = AlertNotice(id="a", kind="lld", severity="warning", opened_step=3, summary="falling")
    collector.receipt = lambda batch: Receipt(
        run_id="r", accepted=len(batch.records), phase="decay", alerts=[alert] if batch.records else []
    )
    notified = []
    monitor = connect(on_alert=notified.append)
    for step in (3, 4):
        monitor.log_step(step, {"x": 1.0})
        assert monitor.flush(PATIENCE_SECONDS)
    assert monitor.phase == "decay"
    assert notified == [alert]


def test_the_healthy_step_does_not_change_while_the_run_is_unhealthy_or_unknown(collector, connect):
    """The receipt of an older collector, which names no step, does not change it either."""
    phases = {1: "warmup", 2: "healthy", 3: "decay", 4: "unknown", 5: "stagnation", 6: "healthy"}

    def receipt(batch):
        step = decode_record(batch.records[-1]).step if batch.records else 0
        judged_step = step if 0 < step < 6 else None
        return Receipt(run_id="r", accepted=1, phase=phases.get(step, "unknown"), judged_step=judged_step)

    collector.receipt = receipt
    monitor = connect()
    found = []
    for step in range(1, 7):
        monitor.log_step(step, {"x": 1.0})
        assert monitor.flush(PATIENCE_SECONDS)
        found.append(monitor.healthy_step)
    assert found == [1, 2, 2, 2, 5, 5]


def test_alerts_of_a_dead_process_are_not_reported_to_the_next_one(collector, tmp_path, monkeypatch):
    """The next process sends the spool of one that was offline, and is notified only of its own steps."""
    alert = AlertNotice(id="a", kind="non_finite", severity="critical", opened_step=3, summary="NaN")
    collector.receipt = lambda batch: Receipt(
        run_id="r",
        accepted=len(batch.records),
        phase="collapsed" if batch.attempt == 1 else "healthy",
        alerts=[alert] if batch.attempt == 1 else [],
    )
    monkeypatch.setenv("RLVITALS_SPOOL_DIR", str(tmp_path))
    phases, notified = [], []
    for attempt in ("1", "2"):
        monkeypatch.setenv("RLVITALS_ATTEMPT", attempt)
        with trainer_hooks.connect(
            None if attempt == "1" else collector.url, run="r", on_alert=notified.append
        ) as monitor:
            monitor.log_step(3, {"x": 1.0})
            assert monitor.flush(PATIENCE_SECONDS)
            phases.append(monitor.phase)
    assert [batch.attempt for batch in collector.batches if batch.records] == [1, 2]
    assert (phases, notified) == (["unknown", "healthy"], [])


def test_a_phase_at_a_step_that_this_process_has_not_reached_is_ignored(collector, connect):
    """Another process of the same attempt had collapsed at step 10: receipts count from step 11 on."""
    notified = []
    alert = AlertNotice(id="a", kind="k", severity="critical", opened_step=4, summary="s")

    def receipt(batch):
        steps = [decode_record(raw).step for raw in batch.records]
        return Receipt(
            run_id="r",
            accepted=len(steps),
            judged_step=max([10, *steps]),
            phase="healthy" if steps else "collapsed",
            alerts=[alert],
        )

    collector.receipt = receipt
    monitor = connect(on_alert=notified.append)
    assert monitor.flush(PATIENCE_SECONDS)
    seen = [(monitor.phase, monitor.healthy_step, len(notified))]
    for step in (3, 10, 11):
        monitor.log_step(step, {"x": 1.0})
        assert monitor.flush(PATIENCE_SECONDS)
        seen.append((monitor.phase, monitor.healthy_step, len(notified)))
    assert seen == [("unknown", None, 0)] * 3 + [("healthy", 11, 1)]


def test_a_rewind_resets_the_phase_and_the_healthy_step(collector, connect):
    """The findings at step 8 concern weights that a run which continues at step 3 has abandoned."""

    def receipt(batch):
        steps = [decode_record(raw).step for raw in batch.records]
        is_first = batch.attempt == collector.batches[0].attempt  # also of a batch without records, such as a heartbeat
        return Receipt(
            run_id="r",
            accepted=len(steps),
            judged_step=max(steps) if steps and is_first else None,
            phase="healthy" if is_first else "unknown",
        )

    collector.receipt = receipt
    monitor = connect()
    monitor.log_step(8, {"x": 1.0})
    assert monitor.flush(PATIENCE_SECONDS)
    assert (monitor.phase, monitor.healthy_step) == ("healthy", 8)
    monitor.log_step(3, {"x": 1.0})
    assert monitor.flush(PATIENCE_SECONDS)
    assert (monitor.phase, monitor.healthy_step) == ("unknown", None)


def test_the_spool_of_a_dead_process_does_not_suppress_the_warning(collector, tmp_path, monkeypatch, caplog):
    """Its batches are sent first, and their receipts do not concern the launch that no detector processes."""
    collector.receipt = lambda batch: Receipt(
        run_id="r", accepted=len(batch.records), newest_attempt=None if batch.attempt == 9 else 9
    )
    monkeypatch.setenv("RLVITALS_SPOOL_DIR", str(tmp_path))
    for attempt in ("9", "1"):
        monkeypatch.setenv("RLVITALS_ATTEMPT", attempt)
        with trainer_hooks.connect(None if attempt == "9" else collector.url, run="r") as monitor:
            monitor.log_step(3, {"x": 1.0})
            assert monitor.flush(PATIENCE_SECONDS)
    assert [batch.attempt for batch in collector.batches if batch.records] == [9, 1]
    assert caplog.text.count("NO DETECTOR SEES THIS LAUNCH") == 1


@pytest.mark.parametrize(("newest", "warnings"), [(2**50, 1), (7, 0), (None, 0)])
def test_a_launch_that_no_detector_sees_says_so_once(collector, connect, caplog, newest, warnings):
    """The warning is logged once, if the attempt is lower than the run's newest at the first receipt."""
    collector.receipt = lambda batch: Receipt(run_id="r", accepted=len(batch.records), newest_attempt=newest)
    monitor = connect()
    for step in (1, 2):
        monitor.log_step(step, {"x": 1.0})
        assert monitor.flush(PATIENCE_SECONDS)
    assert caplog.text.count("NO DETECTOR SEES THIS LAUNCH") == warnings
    assert caplog.text.count(f"must be higher than the run's newest, {newest}, got 1") == warnings


def test_without_an_address_nothing_happens():
    """connect() without a URL returns a monitor that accepts every call and starts nothing."""
    with trainer_hooks.connect() as monitor:
        monitor.log_step(1, {"x": object()}, rollouts="nonsense")
        assert isinstance(monitor, trainer_hooks.NullMonitor)
        assert repr(monitor) == "<NullMonitor: records nothing>"
        assert monitor.phase == "unknown"
        assert monitor.flush(PATIENCE_SECONDS)


def test_a_scalar_that_is_not_a_number_costs_only_itself(collector, connect):
    """A scalar that is not a number is counted, and the other scalars are sent."""
    monitor = connect()
    monitor.log_step(1, {"good": 1.0, "bad": object()})
    assert monitor.flush(PATIENCE_SECONDS)
    (record,) = collector.records
    assert record.scalars == {"good": 1.0}
    assert record.summaries["hooks/rejected_scalars"].value() == 1


def test_contradicting_rollouts_cost_only_themselves(collector, connect):
    """Rollouts given as a mapping are validated without raising; the scalars arrive and the loss is counted.

    The total stays in the records of later steps, and only the step of the loss is marked.
    """
    monitor = connect()
    monitor.log_step(1, {"x": 1.0}, rollouts={"logprobs": [[-1.0]], "mask": [[1, 1]], "rewards": [1.0]})
    monitor.log_step(2, {"x": 1.0})
    assert monitor.flush(PATIENCE_SECONDS)
    for record, is_marked in zip(collector.records, (True, False), strict=True):
        assert record.scalars == {"x": 1.0}
        assert record.summaries["hooks/rejected_rollouts"].value() == 1
        assert ("hooks/lost_rollouts" in record.summaries) is is_marked


ONE_RESPONSE = {"logprobs": [[-1.0]], "mask": [[1]], "rewards": [1.0]}
PAIR = Paired(([[-1.0]], None), ([[-1.0]], None), mask=[[1]], correct=[1])


@pytest.mark.parametrize(
    ("given", "lost", "message"),
    [
        ({"rollouts": [[[-1.0]], [[1]], [1.0]]}, "reward/mean", "rollouts must be a mapping of .*, got list"),
        ({"scalars": [0.5]}, "x", "scalars must be a mapping of names to numbers, got <class 'list'>"),
        ({"paired": PAIR}, None, "paired must be a list of Paired, and .*not Paired"),
        ({"recomputed": 5}, None, "recomputed one of Recomputed: .*not int"),
    ],
)
def test_an_argument_of_a_wrong_kind_costs_only_itself(collector, connect, caplog, swallowed, *, given, lost, message):
    """The rest of the step is sent, and the log names the argument and what it must be."""
    monitor = connect()
    monitor.log_step(1, **{"scalars": {"x": 1.0}, "rollouts": ONE_RESPONSE} | given)
    assert monitor.flush(PATIENCE_SECONDS)
    (record,) = collector.records
    assert {"x", "reward/mean"} - (record.scalars.keys() | record.summaries.keys()) == ({lost} if lost else set())
    assert re.search(message, caplog.text)
    assert len(caplog.messages) == 1
    swallowed.clear()


def test_our_own_cost_and_losses_are_signals(collector, connect):
    """Every record has the number of dropped records so far and the time that the previous step cost."""
    monitor = connect()
    monitor.log_step(1, {"x": 1.0})
    monitor.log_step(2, {"x": 1.0})
    assert monitor.flush(PATIENCE_SECONDS)
    first, second = collector.records
    assert first.summaries["hooks/dropped_records"].value() == 0
    assert "hooks/blocking_seconds" not in first.summaries
    assert 0 < second.summaries["hooks/blocking_seconds"].value() < 5


def test_rollouts_take_precedence_over_a_scalar_of_the_same_name(collector, connect):
    """The signal is sent once, as the summary, because a collector refuses a record that has both."""
    monitor = connect()
    arrays = {"logprobs": [[-1.0, -2.0]], "mask": [[True, True]], "rewards": [1.0]}
    monitor.log_step(1, {"reward/mean": 5.0, "x": 2.0}, rollouts=arrays)
    assert monitor.flush(PATIENCE_SECONDS)
    (record,) = collector.records
    assert record.scalars == {"x": 2.0}
    assert record.summaries["reward/mean"].value() == 1


@pytest.mark.parametrize("seconds", [math.inf, 10**400, math.nan, -1.0])
def test_any_timeout_of_flush_is_accepted(collector, connect, seconds):
    """Python's own waits refuse infinity and NaN; one is waited for without an end, and the other not at all."""
    monitor = connect()
    monitor.log_step(1, {"x": 1.0})
    assert monitor.flush(seconds) is (seconds > 0)
    assert monitor.flush(PATIENCE_SECONDS)
    assert len(collector.records) == 1


@pytest.mark.parametrize("step", [4.5, np.float32(4.5), float("nan"), float("inf"), None, {"x": 1.0}])
def test_a_step_that_is_not_whole_is_dropped_and_counted(step, collector, connect, swallowed, caplog):
    """A share of an epoch would put the numbers of many steps into one; 5.0 is whole."""
    monitor = connect()
    monitor.log_step(step, {"x": 1.0})
    monitor.log_step(5.0, {"x": 1.0})
    assert monitor.flush(PATIENCE_SECONDS)
    assert [record.step for record in collector.records] == [5]
    assert f"step must be a whole number, got {step!r}" in caplog.text
    swallowed.clear()


def test_an_answer_to_a_request_outlives_a_step_that_is_no_number(collector, connect, swallowed):
    """The collector asks once, and the answer goes with the next step that can be sent."""
    alert = AlertNotice(id="a", kind="k", severity="critical", opened_step=1, summary="s")
    request = ActionRequest(id="q", action="stop", by="ann", alert=alert)
    collector.receipt = lambda batch: Receipt(run_id="r", accepted=len(batch.records), requests=[request])
    monitor = connect()
    assert monitor.flush(PATIENCE_SECONDS)
    monitor.log_step("no number")
    monitor.log_step(1)
    assert monitor.flush(PATIENCE_SECONDS)
    assert [report.request_id for record in collector.records for report in record.actions] == ["q"]
    swallowed.clear()


def test_the_reports_of_a_step_that_is_dropped_go_with_the_next_one(collector, connect, monkeypatch, swallowed):
    """What a trainer did is known to nobody else, so it is not dropped with the numbers of its step."""
    monkeypatch.setitem(RecordQueue.__init__.__kwdefaults__, "max_records", 1)
    monitor = connect()
    for step in range(30):
        report = ActionReport(action="checkpoint", alert_id=f"{step}", outcome="taken", reason="r")
        monitor.log_step(-1 if step % 7 == 3 else step, {"x": 1.0}, actions=[report])
    assert monitor.flush(PATIENCE_SECONDS)
    monitor.log_step(30)
    assert monitor.flush(PATIENCE_SECONDS)
    assert monitor.drops["buffer_full"] > 0
    assert [report.alert_id for record in collector.records for report in record.actions] == list(map(str, range(30)))
    swallowed.clear()


class Unreadable:
    """An object that raises at any access, apart from its class."""

    def __getattr__(self, name):
        raise RuntimeError(name)

    def __repr__(self):
        raise RuntimeError("no text")

    __str__ = __float__ = __int__ = __bool__ = __len__ = __iter__ = __repr__


def test_no_argument_raises_into_training(collector, connect, swallowed):
    """An argument may do anything when it is read: at most the step is lost, and the loss is counted."""
    monitor = connect()
    hostile = Unreadable()
    monitor.log_step(hostile, {"x": 1.0})
    monitor.log_step(1, hostile)
    monitor.log_step(2, {"x": hostile}, hostile, hostile, data_version=hostile, policy_version=hostile)
    monitor.log_step(3, {"x": 1.0}, paired=hostile)
    monitor.log_step(4, {"x": 1.0}, actions=hostile)
    assert monitor.read_numbers(hostile) == {}
    monitor.log_step(5, {hostile: 1.0, "x": 2.0})
    assert monitor.flush(PATIENCE_SECONDS)
    swallowed.clear()
    assert monitor.drops["internal_errors"] > 0
    assert (collector.records[-1].step, collector.records[-1].scalars) == (5, {"x": 2.0})
