"""Logs that are being written, emptied, rotated and replaced while they are followed."""

import json
from itertools import islice

from monitor_server.log_check.growing_log import follow


def line(step, reward=0.5, grad=1.0):
    """Return a logged step; the reward differs from step to step."""
    return json.dumps({"step": step, "reward": reward + step % 7 / 100, "grad_norm": grad}) + "\n"


def followed(log, *writes, looks=60):
    """Follow a log that has one more of the writes at each look, and return the output of each change."""
    waiting = list(writes)

    def write(_):
        if waiting:
            waiting.pop(0)()

    class OutOfLooksError(Exception):
        pass

    left = iter(range(looks))

    def sleep(seconds):
        if next(left, None) is None:
            raise OutOfLooksError
        write(seconds)

    changes = []
    try:
        for found, began in islice(follow(log, seconds=0.0, sleep=sleep), 100):
            changes.append((found, [finding.kind for finding in began]))
    except OutOfLooksError:
        pass
    return changes


def test_a_log_that_is_emptied_by_a_new_run_is_examined_anew(tmp_path):
    """The new run is shorter than the old one, and its findings are seen at its own steps."""
    log = tmp_path / "train.jsonl"
    log.write_text("".join(line(step) for step in range(1, 51)))
    dying = [line(step, 0.7, 1.0 if step < 20 else float("nan")) for step in range(1, 31)]
    changes = followed(log, lambda: None, lambda: log.write_text(""), lambda: log.write_text("".join(dying)))
    old, new = changes[0][0], changes[-1][0]
    assert old is not new
    assert old.page_step is None
    assert (new.first_step, new.last_step, new.page_step) == (1, 30, 20)


def test_a_log_that_is_rotated_goes_on(tmp_path):
    """The file begins with later steps, which continue the run with all that it has learnt."""
    log = tmp_path / "train.jsonl"
    log.write_text("".join(line(step) for step in range(1, 51)))
    later = "".join(line(step, 0.7) for step in range(51, 81))
    rests = [lambda: None] * 5  # in which the newest step is taken
    changes = followed(log, *rests, lambda: (log.rename(tmp_path / "train.jsonl.1"), log.write_text(later)))
    assert len({id(found) for found, *_ in changes}) == 1
    found = changes[-1][0]
    assert (found.first_step, found.last_step, found.rows, found.attempts) == (1, 80, 80, 1)


def test_a_log_that_is_written_anew_as_a_whole_at_each_step_goes_on(tmp_path):
    """A JSON document is replaced by one with a step more; no step is taken twice."""
    log = tmp_path / "trainer_state.json"

    def state(steps):
        history = [json.loads(line(step)) for step in range(1, steps + 1)]
        fresh = tmp_path / "fresh"
        fresh.write_text(json.dumps({"global_step": steps, "log_history": history}))
        fresh.replace(log)

    changes = followed(log, *(lambda steps=steps: state(steps) for steps in range(1, 31)))
    assert len({id(found) for found, *_ in changes}) == 1
    assert changes[-1][0].rows == 30
