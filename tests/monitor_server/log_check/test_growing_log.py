"""Logs that are being written, emptied, rotated and replaced while they are followed."""

import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from monitor_server.importers.search.logs import find_logs
from monitor_server.log_check.examination import examine
from tests.monitor_server.log_check.looks import RESTS, followed
from tests.privileges import without_privileges


def line(step, reward=0.5, grad=1.0):
    """Return a logged step; the reward differs from step to step."""
    return json.dumps({"step": step, "reward": reward + step % 7 / 100, "grad_norm": grad}) + "\n"


def seen_in(found):
    """Return what an examination has found."""
    return (
        (found.rows, found.attempts, found.first_step, found.last_step, found.warn_step, found.page_step),
        found.phases,
        [(period.finding, period.last_step) for period in found.episodes],
    )


@pytest.mark.parametrize("reward", [0.5, 0.7])
def test_a_log_that_is_emptied_by_a_new_run_is_examined_anew(tmp_path, reward):
    """The new run is shorter than the old one, and may begin with the same numbers, as with a fixed seed."""
    log = tmp_path / "train.jsonl"
    log.write_text("".join(line(step) for step in range(1, 51)))
    dying = [line(step, reward, 1.0 if step < 20 else float("nan")) for step in range(1, 31)]
    changes = followed(log, lambda: None, lambda: log.write_text(""), lambda: log.write_text("".join(dying)))
    assert [change.is_replaced for change in changes].count(True) == 1
    old, new = changes[0].examination, changes[-1].examination
    assert old.page_step is None
    assert (new.first_step, new.last_step, new.page_step) == (1, 30, 20)


def test_a_log_that_is_rotated_goes_on(tmp_path):
    """The file begins with later steps, which continue the run with all that it has learnt, whenever they are read."""
    log, rotated = tmp_path / "train.jsonl", tmp_path / "train.jsonl.1"
    log.write_text("".join(line(step) for step in range(1, 51)))
    later = "".join(line(step, 0.7 if step % 2 else 0.1) for step in range(51, 81))
    more = [json.dumps({"step": 80, "entropy": 0.5}) + "\n", line(81)]  # a step that was read gets another number
    changes = followed(
        log,
        *RESTS,
        lambda: (log.rename(rotated), log.write_text(later)),
        *RESTS,
        lambda: log.write_text(later + "".join(more)),
        *RESTS,
    )
    assert not any(change.is_replaced for change in changes)
    found = changes[-1].examination
    assert (found.first_step, found.last_step, found.rows, found.attempts) == (1, 81, 81, 1)
    whole = tmp_path / "whole.jsonl"
    whole.write_text(rotated.read_text() + log.read_text())
    assert seen_in(found) == seen_in(examine(*find_logs([whole])))


def test_a_log_that_is_written_anew_as_a_whole_at_each_step_goes_on(tmp_path):
    """A JSON document is replaced by one with a step more; no step is taken twice."""
    log = tmp_path / "trainer_state.json"

    def state(steps):
        history = [json.loads(line(step)) for step in range(1, steps + 1)]
        fresh = tmp_path / "fresh"
        fresh.write_text(json.dumps({"global_step": steps, "log_history": history}))
        fresh.replace(log)

    changes = followed(log, *(lambda steps=steps: state(steps) for steps in range(1, 31)))
    assert not any(change.is_replaced for change in changes)
    assert changes[-1][0].rows == 30


def test_a_history_of_wandb_is_followed_from_its_first_step(tmp_path):
    """What was logged before the training has W&B's count alone, and becomes a part of that step."""
    log = tmp_path / "history.jsonl"
    early = "".join(json.dumps({"_step": count, "eval/score": 0.5}) + "\n" for count in range(6))
    log.write_text(early)
    steps = [json.dumps({"_step": 5 + own, "train/global_step": own, "reward": 0.5}) + "\n" for own in range(1, 11)]
    changes = followed(log, *RESTS, lambda: log.write_text(early + "".join(steps)), *RESTS)
    found = changes[-1][0]
    assert (found.first_step, found.last_step, found.rows, found.attempts) == (1, 10, 10, 1)


def test_a_line_that_was_half_written_when_the_log_rested_is_not_read(tmp_path):
    """A writer with a buffer writes parts of lines, and a part of a number is another number."""
    log = tmp_path / "train.log"
    text = "".join(f"step {step} | reward 0.5{step % 7} | entropy 0.8{step % 9}\n" for step in range(1, 62))
    log.write_text(text[:-3])  # an entropy of 0
    changes = followed(log, *RESTS, lambda: log.write_text(text + "step 62 | reward 0.5\n"), *RESTS)
    assert not any(change.began or change.is_replaced for change in changes)
    assert changes[-1].examination.last_step == 62


def test_a_row_in_braces_is_read_without_a_line_end(tmp_path):
    """It is whole; some writers put the line end before a row, and the newest row of a dead training is the one."""
    log = tmp_path / "train.jsonl"
    log.write_text(line(1) + line(2) + line(3).rstrip())
    assert followed(log, *RESTS)[-1].examination.last_step == 3


def test_a_log_whose_later_lines_change_what_its_first_are_loses_no_step(tmp_path):
    """The epochs of a log without steps are steps; with the first step in a line, those lines are none any more.

    Its first step has the same number in both, and does not show that the log is another one.
    """
    log = tmp_path / "train.log"
    epochs = "".join(f"Epoch {epoch} | Reward {epoch / 100}\n" for epoch in range(1, 11))
    log.write_text(epochs)
    steps = "".join(f"step {step} | reward {step**2 / 100}\n" for step in range(1, 31))
    changes = followed(log, *RESTS, lambda: log.write_text(epochs + steps), *RESTS)
    before, after = changes[0][0], changes[-1][0]
    assert (before.rows, before.last_step) == (10, 10)
    assert (after.first_step, after.last_step, after.rows, after.attempts) == (1, 30, 30, 1)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda _: None, "it does not exist"),
        (lambda log: log.write_bytes(b"\x00\x01"), "its content is in no known format"),
        (lambda log: log.write_text(""), "it is empty"),
        (os.mkfifo, "it is not a regular file"),
        (lambda log: log.mkdir(), "found none"),
        (lambda log: log.write_text('{"log_history": 3}'), "must hold log_history"),
    ],
)
def test_a_log_that_cannot_be_read_is_named_once_and_is_read_when_it_can(tmp_path, make, reason):
    """A monitor that waits for ever in silence would look like one that watches."""
    log = tmp_path / "run.json"
    make(log)
    notices = []

    def mend():
        if log.is_dir():
            log.rmdir()
        fresh = tmp_path / "fresh"
        fresh.write_text(line(1) + line(2) + line(3))
        fresh.replace(log)

    changes = followed(log, *[lambda: None] * 20, mend, notify=notices.append)
    (notice,) = notices
    assert reason in notice
    assert str(log) in notice
    assert changes[-1][0].rows == 3


def test_a_log_that_is_damaged_for_a_moment_causes_no_notice(tmp_path):
    """Its writer was in the middle of its work."""
    log, notices = tmp_path / "run.jsonl", []
    changes = followed(
        log, lambda: log.write_bytes(b"\x00"), lambda: log.write_text(line(1) + line(2)), notify=notices.append
    )
    assert changes
    assert notices == []


def test_of_several_runs_the_first_is_watched_and_named(tmp_path):
    """The other runs would be taken as watched."""
    for name in ("a", "b"):
        (tmp_path / f"{name}.jsonl").write_text(line(1) + line(2) + line(3))
    notices = []
    assert followed(tmp_path, notify=notices.append)[-1][0].log.name == "a"
    assert notices == [f"{tmp_path} holds 2 runs; only a of {tmp_path / 'a.jsonl'} is watched"]


def written(log, text):
    """Write a log in a folder that may be new."""
    log.parent.mkdir(exist_ok=True)
    log.write_text(text)


def test_a_run_stays_watched_when_one_that_sorts_before_it_begins(tmp_path):
    """Names are often random, or count without leading zeros; the collapse of the watched run is still reported."""
    watched, other = tmp_path / "run-9/log.jsonl", tmp_path / "run-10/log.jsonl"
    written(watched, "".join(line(step) for step in range(1, 51)))
    dying = "".join(line(step, 0.5, 1.0 if step < 70 else float("nan")) for step in range(1, 81))
    notices = []
    changes = followed(
        tmp_path,
        *RESTS,
        lambda: written(other, "".join(line(step, 0.7) for step in range(51, 61))),
        *RESTS,
        lambda: written(watched, ""),  # its writer is in the middle of its work, and no other run is taken meanwhile
        *RESTS,
        lambda: written(watched, dying),
        notify=notices.append,
    )
    assert not any(change.is_replaced for change in changes)
    found = changes[-1][0]
    assert (found.rows, found.last_step, found.page_step) == (80, 80, 70)
    assert notices == [
        f"{tmp_path} holds 2 runs; only log-2 of {watched} is watched",
        f"{watched}, which is watched, must hold a log in a known format; found none; waiting for it to change",
    ]


def test_a_run_in_checkpoints_stays_watched_in_the_newest_one(tmp_path):
    """Each checkpoint has the whole history, in a file of another name than the one before."""

    def save(steps, folder="out"):
        history = [json.loads(line(step)) for step in range(1, steps + 1)]
        state = tmp_path / folder / f"checkpoint-{steps}/trainer_state.json"
        state.parent.mkdir(parents=True)
        state.write_text(json.dumps({"global_step": steps, "log_history": history}))

    save(10)
    later = [lambda: save(8, "early"), lambda: save(20), lambda: save(30)]
    changes = followed(tmp_path, *RESTS, *later)
    assert not any(change.is_replaced for change in changes)
    assert changes[-1][0].rows == 30


def test_a_log_in_a_folder_goes_on_after_a_rotation_that_takes_a_moment(tmp_path):
    """Between its two files only the old one is there, under another name."""
    log = tmp_path / "train.jsonl"
    log.write_text("".join(line(step) for step in range(1, 51)))
    later = "".join(line(step, 0.7) for step in range(51, 81))
    changes = followed(
        tmp_path, *RESTS, lambda: log.rename(tmp_path / "train.jsonl.1"), *RESTS, lambda: log.write_text(later)
    )
    assert not any(change.is_replaced for change in changes)
    assert (changes[-1][0].rows, changes[-1][0].last_step) == (80, 80)


def test_a_folder_with_a_file_that_may_not_be_looked_at_is_followed(tmp_path, monkeypatch):
    """The other logs of the folder are read; the error of the file system ended the command."""
    monkeypatch.chdir(tmp_path)
    tmp_path.chmod(0o755)
    (tmp_path / "closed").mkdir()
    (tmp_path / "closed/x.jsonl").write_text(line(1))
    (tmp_path / "closed").chmod(0o744)  # its names may be listed, and its files not looked at
    (tmp_path / "run.jsonl").write_text(line(1) + line(2) + line(3))
    with without_privileges():
        changes = followed(Path())
    assert changes[-1][0].rows == 3


def test_a_database_in_use_is_read_when_only_the_file_beside_it_has_grown(tmp_path):
    """With a write-ahead log, its newest rows are there while any connection is open, also if a link is followed."""
    database, link = tmp_path / "project.db", tmp_path / "latest.db"
    link.symlink_to(database)
    with closing(sqlite3.connect(database, isolation_level=None)) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute(
            "CREATE TABLE metrics (id INTEGER PRIMARY KEY, timestamp TEXT, run_name TEXT, step INT, metrics TEXT)"
        )

        def write(steps):
            rows = [(f"2026-01-01T00:00:{step:02}", step, json.dumps({"reward": step / 100})) for step in steps]
            writer.executemany("INSERT INTO metrics (timestamp, run_name, step, metrics) VALUES (?, 'r', ?, ?)", rows)

        write(range(1, 11))
        changes = followed(link, *RESTS, lambda: write(range(11, 21)))
    assert changes[-1].examination.last_step == 20


def test_what_cannot_be_watched_is_said_once(tmp_path):
    """A monitor that cannot find anything would look like one that finds nothing."""
    log, notices = tmp_path / "run.jsonl", []

    def grow(step):
        with log.open("a") as file:
            file.write(json.dumps({"step": step, "lr": 1e-6}) + "\n")

    log.write_text('{"step": 0, "lr": 1e-6}\n{oops\n')
    steps = [lambda step=step: grow(step) for step in range(1, 11)]
    followed(log, *steps, notify=notices.append, seconds=0.0, overrides={"reward/mean": "my_rewrad"})
    assert [notice.partition(",")[0] for notice in notices] == [
        "passed over: run.jsonl",
        "--map reward/mean=my_rewrad: no row has this key yet",
        "no signal that a detector reads was logged yet",
        "reading the log takes more than a tenth of the interval",
    ]
