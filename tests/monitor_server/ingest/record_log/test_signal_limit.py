"""The number of signal names of a run is bounded; signals of detectors are always taken, and no record is lost."""

import json

import pytest

from monitor_server.ingest.record_log.log_append import LogAppender
from monitor_server.ingest.record_log.signal_limit import OWN_PLACES, SignalLimit
from monitor_server.ingest.validation.validate import read_batch
from monitor_server.settings import Settings
from trainer_hooks import wire

SETTINGS = Settings(max_signals=3)
EXTREME = {"type": "extreme", "extreme": 1.0}
RUN = wire.run_id("default", "r")


@pytest.fixture
def log(clock):
    """A log that takes three signals beside two that detectors read."""
    return LogAppender(settings=SETTINGS, clock=clock, first_signals=frozenset({"loss", "bad"}))


@pytest.fixture
def append(store, clock, log):
    """Append records as one batch."""

    def append(*records, log=log, **fields):
        body = {"schema_version": wire.SCHEMA_VERSION, "run": "r", "records": records}
        valid = read_batch(
            json.dumps(body | fields).encode(), media_type=wire.JSON, encoding="", settings=SETTINGS, now=clock.now
        )
        with store.write() as repositories:
            appended = log.append_deferred(repositories, valid)
            log.flush(repositories)
        return appended

    return append


def _record(step, *names, **fields):
    return {"step": step, "scalars": dict.fromkeys(names, float(step))} | fields


def _stored(store):
    """Return step, scalars and names of summaries of each record, and the signals of the run in their order."""
    with store.read() as repositories:
        found, _ = repositories.records.after(RUN, 0, limit=1_000, max_bytes=1_000_000)
        run, signals = repositories.runs.find(RUN), repositories.steps.signals(RUN)
    assert run.signal_count == len(signals)
    records = [wire.decode_record(record.body) for record in found]
    return [(record.step, record.scalars, set(record.summaries)) for record in records], list(signals)


def test_a_name_with_the_step_in_it_costs_the_run_nothing_but_itself(append, store):
    """Names from the fourth on are left out, and signals of detectors are taken at any step."""
    lost = [append(_record(step, "a", f"junk/{step}")).left_out for step in range(6)]
    appended = append(_record(6, "a", "loss", "junk/6", "bad"))
    assert [each is None or each.signals for each in lost] == [True, True, 1, 1, 1, 1]
    assert (appended.accepted, appended.rejected, appended.left_out.signals) == (1, [], 1)
    records, signals = _stored(store)
    assert signals == ["a", "junk/0", "junk/1", "loss", "bad"]
    assert records[2:] == [(step, {"a": float(step)}, set()) for step in range(2, 6)] + [
        (6, {"a": 6.0, "loss": 6.0, "bad": 6.0}, set())
    ]


def test_what_is_said_of_names_that_were_left_out_states_what_to_do(append):
    """The limit, a name that was too many, and the setting."""
    left_out = append(_record(0, "a", "b", "c", "d", "e")).left_out
    assert left_out.signals == 2
    assert left_out.detail == (
        "a run may have 3 signals beside those that detectors read, and new ones such as 'd' are left out; give a "
        "signal one name for all steps, send fewer, or raise RLVITALS_MAX_SIGNALS"
    )


def test_a_record_that_lost_names_is_the_same_record_when_it_is_sent_again(append, store, log):
    """It is a duplicate, for a collector with the run in memory and for one without; nothing is counted twice."""
    first = append(_record(0, "a", "b", "c"), _record(1, "a", "d"))
    again = append(_record(1, "a", "d"), _record(2, "e"))
    log.forget()
    anew = append(_record(2, "e"), _record(3, "loss", "f"))
    assert [(each.accepted, each.duplicates, each.left_out.signals) for each in (first, again, anew)] == [
        (2, 0, 1),
        (1, 1, 1),
        (1, 1, 1),
    ]
    assert [scalars for _, scalars, _ in _stored(store)[0]] == [
        {"a": 0.0, "b": 0.0, "c": 0.0},
        {"a": 1.0},
        {},
        {"loss": 3.0},
    ]


def _left_out(store):
    with store.read() as repositories:
        run = repositories.runs.find(RUN)
    return run.left_out_signals, run.left_out_step, run.left_out_name


def test_a_run_knows_the_most_names_that_a_record_has_lost_and_since_when(append, store, log, clock):
    """The number survives a restart; a raised limit removes it once there is a place again."""
    append(_record(0, "a", "b", "c"))
    assert _left_out(store) == (0, None, None)
    append(_record(1, "a", "d"))
    append(_record(2, "a", "e", "f"))
    append(_record(3, "a", "g"))
    log.forget()
    append(_record(4, "h", "loss"))
    assert _left_out(store) == (2, 1, "d")
    raised = LogAppender(settings=Settings(max_signals=9), clock=clock, first_signals=frozenset({"loss"}))
    append(_record(5, "a", "h"), log=raised)
    assert _left_out(store) == (0, None, None)


def test_a_summary_beyond_the_limit_is_left_out_with_its_shape(append, store):
    """Summaries have the first free places; another rank may then send one of another shape under the lost name."""
    append(_record(0, "a", "b", summaries={"s": EXTREME}), world_size=2)
    append(_record(1, "a", summaries={"s": EXTREME, "t": EXTREME}), world_size=2)
    moments = {"type": "moments", "count": 1, "sum": 1.0, "sum_squares": 1.0}
    other = append(_record(1, "a", summaries={"s": EXTREME, "t": moments}), world_size=2, rank=1)
    assert (other.accepted, other.rejected, other.left_out.signals) == (1, [], 1)
    records, signals = _stored(store)
    assert signals == ["s", "a", "b", "step/seen_frac"]
    assert [summaries for _, _, summaries in records] == [{"s"}] * 3


def test_summaries_come_before_scalars_where_places_are_few(append, store):
    """The SDK's own signals are worth more than the names beyond them that a step brings."""
    append(_record(0, "a", "b", "c", "d", summaries={"s": EXTREME, "t": EXTREME}))
    assert _stored(store) == ([(0, {"a": 0.0}, {"s", "t"})], ["s", "t", "a"])


def test_the_sdks_reports_of_itself_have_places_of_their_own(append, store):
    """They state the losses, so junk names cannot displace them; their number is bounded as well."""
    append(_record(0, "a", "b", "c"))
    append(_record(1, *[f"hooks/{number}" for number in range(OWN_PLACES + 5)]))
    _, signals = _stored(store)
    assert len(signals) == 3 + OWN_PLACES
    append(_record(2, "hooks/more", "loss"))
    assert _stored(store)[0][-1] == (2, {"loss": 2.0}, set())


def test_a_run_that_another_collector_has_filled_is_read_anew(append, store, clock):
    """Two collectors count the same names."""
    other = LogAppender(settings=SETTINGS, clock=clock, first_signals=frozenset({"loss"}))
    append(_record(0, "a"))
    append(_record(1, "b", "c"), log=other)
    other.forget()
    appended = append(_record(2, "a", "d"))
    assert appended.left_out.signals == 1
    assert _stored(store)[1] == ["a", "b", "c"]


def test_a_raised_limit_lets_the_next_names_in(append, store, clock):
    """This happens after a restart with a higher RLVITALS_MAX_SIGNALS, and after one with a lower limit."""
    append(_record(0, "a", "b", "c", "d"))
    raised = LogAppender(settings=Settings(max_signals=4), clock=clock)
    assert append(_record(1, "a", "d", "e"), log=raised).left_out.signals == 1
    lowered = LogAppender(settings=Settings(max_signals=1), clock=clock)
    assert append(_record(2, "a", "d", "e", "f"), log=lowered).left_out.signals == 2
    assert _stored(store)[0][1:] == [(1, {"a": 1.0, "d": 1.0}, set()), (2, {"a": 2.0, "d": 2.0}, set())]


def test_places_are_counted_alike_however_a_run_is_read():
    """The names may be added one by one, or read from the store."""
    names = ["loss", "a", *[f"hooks/{number}" for number in range(OWN_PLACES + 1)], "b"]
    grown = SignalLimit([], most=4, first=frozenset({"loss"}))
    assert grown.add(names) == names
    for places in (grown, SignalLimit(names, most=4, first=frozenset({"loss"}))):
        assert not places.takes_none_of(["x"])
        assert places.add(["hooks/more", "x", "y"]) == ["hooks/more"]
        assert places.takes_none_of(["y", "hooks/another"])
