import json
import os
import pickle
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import trainer_hooks
from tests.live import PATIENCE_SECONDS
from trainer_hooks.callbacks import prime_rl
from trainer_hooks.callbacks.prime_rl import command as following
from trainer_hooks.callbacks.prime_rl.rewards import LAG_STEPS, RewardIndex

PROMPT = [7, 8]


def sequence(actions, *, reward=None, scores=None, **fields):
    """Return a sequence as prime-rl 0.8 exports it: a prompt of two tokens, then actions and one feedback token."""
    size = len(PROMPT) + len(actions) + 1
    scores = scores or [-1.0] * len(actions)
    given = {
        "schema_version": 1,
        "step": 0,
        "rank": 0,
        "token_ids": [*PROMPT, *actions, 9],
        "position_ids": list(range(size)),
        "loss_mask": [False, False, *[True] * len(actions), False],
        "advantages": [0.0, 0.0, *[0.5] * len(actions), 0.0],
        "trainer_logprobs": [0.0, -8.0, *scores, -8.0],
        "inference_logprobs": [0.0, 0.0, *[score - 0.25 for score in scores], 0.0],
        "entropy": [3.0, 3.0, *[1.5] * len(actions), 3.0],
        "env_name": "search",
    }
    return given | ({"rewards": [reward] * size} if reward is not None else {}) | fields


def export(folder, step, *ranks, stable=True, arrived=None):
    """Write a step's files, one per rank, and mark the step as stable if asked, optionally at a given time in ns."""
    target = folder / "token_exports" / f"step_{step}"
    target.mkdir(parents=True, exist_ok=True)
    for rank, sequences in enumerate(ranks):
        lines = [json.dumps(one, allow_nan=False) + "\n" for one in sequences]
        (target / f"rank_{rank}.jsonl").write_text("".join(lines))
    if stable:
        mark = target / "mark"
        mark.touch()
        if arrived is not None:
            os.utime(mark, ns=(arrived, arrived))
        mark.rename(target / "STABLE")  # a follower may be looking


def episode(task, *responses):
    """Return an episode of the orchestrator's traces: nodes add tokens to their parents', rewards have weights."""
    traces = []
    for actions, score in responses:
        nodes = [
            {"parent": None, "token_ids": PROMPT, "mask": [False] * 2},
            {"parent": 0, "token_ids": [*actions, 9], "mask": [True] * (len(actions) + 1)},
        ]
        rewards = {"exact": {"score": score, "weight": 2.0}, "format": {"score": 0.5, "weight": 1.0}, "late": None}
        traces.append({"task": {"type": "T", "data": {}, "hash": task}, "nodes": nodes, "rewards": rewards})
    return json.dumps({"id": task, "traces": traces}) + "\n"


@pytest.fixture
def follow(tmp_path, connect):
    """Catch up once with the run in a folder, as a follower does when it starts."""

    def follow():
        monitor = connect()
        found = prime_rl.Follower(tmp_path, monitor).catch_up()
        assert monitor.flush(PATIENCE_SECONDS)
        return found

    return follow


def test_a_complete_step_arrives_with_the_rewards_it_holds(tmp_path, follow, collector):
    """The step holds the sequences of all ranks, only tokens of the loss, and has level L3 from the first record on."""
    export(tmp_path, 3, [sequence([4, 5], reward=1.0, scores=[-1.0, -3.0])], [sequence([6], reward=0.0, scores=[-4.0])])
    assert follow() == 1
    (record,) = collector.records
    assert record.step == 3
    assert record.summaries["likelihood/correct"].value() == -2
    assert record.summaries["likelihood/incorrect"].value() == -4
    assert record.summaries["reward/mean"].value() == 0.5
    assert record.summaries["mismatch/logprob_abs"].value() == pytest.approx(0.25)
    assert record.summaries["entropy/mean"].value() == 1.5
    assert record.summaries["advantage/mean_abs"].value() == 0.5
    assert next(batch for batch in collector.batches if batch.records).capability == "L3"


@pytest.mark.parametrize("place", ["rollouts/step_2/train/search", "traces/step_2/train"])
def test_rewards_and_groups_are_found_in_the_traces(place, tmp_path, follow, collector):
    """Traces are matched by token ids, also those of earlier steps; a sequence without a trace is left out."""
    (tmp_path / place).mkdir(parents=True)
    traces = episode("a", ([4, 5], 1.0), ([6], 0.0)) + episode("b", ([4], 0.0), ([5], 0.0))
    (tmp_path / place / "traces.jsonl").write_text(traces + "{not yet wri")
    export(tmp_path, 4, [sequence(actions) for actions in ([4, 5], [6], [4], [5], [3, 3])])
    follow()
    (record,) = collector.records
    # 2 · 1 + 0.5 and three times 0.5.
    assert record.summaries["reward/mean"].value() == pytest.approx(1.0)
    assert record.summaries["reward/zero_std_frac"].value() == 0.5
    assert record.summaries["length/mean"].value() == pytest.approx(5 / 4)


@pytest.mark.parametrize("parents", [(-1, 0), (1, 0)], ids=["a root of -1", "a circle"])
def test_a_trace_whose_parents_never_end_is_read_to_where_they_stop(parents, tmp_path):
    """Else the command would fill the memory."""
    place = tmp_path / "traces/step_0/train"
    place.mkdir(parents=True)
    nodes = [{"parent": parent, "token_ids": [token]} for token, parent in enumerate((*parents, 1))]
    (place / "traces.jsonl").write_text(json.dumps({"nodes": nodes, "rewards": 1.0}) + "\n")
    index = RewardIndex(tmp_path)
    index.read(up_to=0)
    assert index.find({"token_ids": [0, 1, 2]}) == (1.0, None)


def test_only_traces_that_a_step_may_be_made_of_are_kept(tmp_path, connect, collector):
    """Traces of steps long before the current one are dropped, so memory use does not grow."""
    monitor = connect()
    follower, index = prime_rl.Follower(tmp_path, monitor), RewardIndex(tmp_path)
    kept = []
    for step in range(2 * LAG_STEPS):
        place = tmp_path / f"rollouts/step_{step}/train"
        place.mkdir(parents=True)
        (place / "traces.jsonl").write_text(episode("a", ([step], 1.0)))
        export(tmp_path, step, [sequence([step]), sequence([max(0, step - LAG_STEPS)])])
        follower.catch_up()
        index.read(up_to=step)
        kept.append(len(pickle.dumps(index)))
    assert all(record.summaries["length/mean"].count == 2 for record in collector.records)
    assert len(collector.records) == 2 * LAG_STEPS
    assert kept[-1] == pytest.approx(kept[LAG_STEPS], rel=0.02)
    assert index.find(sequence([0])) is None


def test_traces_that_a_run_writes_anew_are_read_anew(tmp_path, connect, collector):
    """Traces are read again where a run that went back has written files of the same names and sizes."""
    follower = prime_rl.Follower(tmp_path, connect())
    place = tmp_path / "rollouts/step_1/train"
    place.mkdir(parents=True)
    for action, score in ((4, 1.0), (5, 0.0)):
        (place / "traces.jsonl").write_text(episode("a", ([action], score)))
        export(tmp_path, 1, [sequence([action])])
        os.utime(tmp_path / "token_exports/step_1/STABLE", ns=(action, action))
        assert follower.catch_up() == 1
    # 2 · 1 + 0.5 and 0.5.
    assert [record.summaries["reward/mean"].value() for record in collector.records] == [2.5, 0.5]


def test_without_rewards_metrics_of_the_tokens_arrive(tmp_path, follow, collector):
    """Without rewards the level is L1, and no reward or likelihood of correct responses is sent."""
    export(tmp_path, 1, [sequence([4, 5]), sequence([6])])
    follow()
    (record,) = collector.records
    assert record.scalars == {"entropy/mean": 1.5, "mismatch/logprob_abs": 0.25, "length/mean": 1.5}
    assert "likelihood/correct" not in record.summaries
    assert next(batch for batch in collector.batches if batch.records).capability == "L1"


def test_a_step_that_is_not_marked_is_waited_for(tmp_path, follow, collector):
    """A step is read only when it is marked as complete, because ranks write at different times."""
    export(tmp_path, 1, [sequence([4], reward=1.0)])
    export(tmp_path, 2, [sequence([4], reward=1.0)], stable=False)
    assert follow() == 1
    (tmp_path / "token_exports" / "step_2" / "STABLE").touch()
    assert follow() == 1
    assert [record.step for record in collector.records] == [1, 2]


def test_a_follower_is_behind_where_the_step_after_its_newest_is_complete(tmp_path, connect):
    """A follower is behind before it has read a step, and when the step after its newest is marked as complete."""
    follower = prime_rl.Follower(tmp_path, connect())
    assert follower.is_behind()
    export(tmp_path, 5, [sequence([4], reward=1.0)])
    follower.catch_up()
    assert not follower.is_behind()
    export(tmp_path, 6, [sequence([4], reward=1.0)], stable=False)
    assert not follower.is_behind()
    (tmp_path / "token_exports/step_6/STABLE").touch()
    assert follower.is_behind()


def test_a_run_with_steps_missing_is_followed_all_the_same(tmp_path, collector, monkeypatch):
    """All steps are scanned at intervals, which finds steps after a gap and a run that went back."""
    monkeypatch.setattr(following, "POLL_SECONDS", 0.01)
    stop = threading.Event()
    command = [str(tmp_path), "--url", collector.url, "--run", "r"]
    follower = threading.Thread(target=prime_rl.main, args=(command,), kwargs={"stop": stop})
    follower.start()
    try:
        for arrived, step in enumerate((3, 9, 2), start=1):
            export(tmp_path, step, [sequence([4], reward=1.0)], arrived=arrived)
            collector.wait_for(lambda seen, arrived=arrived: len(seen.records) == arrived)
    finally:
        stop.set()
        follower.join()
    assert [record.step for record in collector.records] == [3, 9, 2]


def test_a_follower_that_starts_again_goes_on_where_it_was(tmp_path, follow, collector):
    """A new follower does not read acknowledged steps again, and it orders steps by number and not by name."""
    for step in (2, 10, 9):
        export(tmp_path, step, [sequence([4], reward=1.0)], arrived=step)
    assert follow() == 3
    assert follow() == 0
    assert [record.step for record in collector.records] == [2, 9, 10]
    (tmp_path / "rlvitals_followed.json").write_text("{")
    assert follow() == 3


def test_what_the_collector_has_not_answered_for_is_sent_again(tmp_path, connect, monkeypatch):
    """The saved position advances only when the collector has answered."""
    export(tmp_path, 1, [sequence([4], reward=1.0)])
    monitor = connect()
    monkeypatch.setattr(monitor, "flush", lambda _: False)
    assert prime_rl.Follower(tmp_path, monitor).catch_up() == 0
    assert not (tmp_path / "rlvitals_followed.json").exists()
    assert prime_rl.Follower(tmp_path, connect()).catch_up() == 1


def test_a_collector_that_does_not_answer_is_waited_for_once_a_look(tmp_path, connect, monkeypatch):
    """While the collector does not answer, one step is logged per poll and the others wait in their files."""
    for step in (1, 2, 3):
        export(tmp_path, step, [sequence([4], reward=1.0)])
    monitor = connect()
    monkeypatch.setattr(monitor, "flush", lambda _: False)
    follower = prime_rl.Follower(tmp_path, monitor)
    assert follower.catch_up() == 0
    assert not follower.is_acknowledged
    monkeypatch.undo()
    assert follower.catch_up() == 2


def test_a_finished_run_that_nobody_acknowledges_is_waited_for_once_and_fails(tmp_path, monkeypatch, caplog):
    """A script must learn that steps are missing, and not wait for each of them."""
    for step in (1, 2, 3):
        export(tmp_path, step, [sequence([4], reward=1.0)])
    waits = []
    monkeypatch.setattr(trainer_hooks.Monitor, "flush", lambda _, seconds: waits.append(seconds))
    arguments = [str(tmp_path), "--url", "http://127.0.0.1:9", "--once"]
    assert prime_rl.main(arguments, stop=threading.Event()) == 1
    assert len(waits) == 1
    assert "give the command again" in caplog.text


def test_a_step_that_cannot_be_read_costs_itself_alone(tmp_path, follow, collector, swallowed):
    """A step that cannot be read is counted as an internal error, and the steps after it are sent."""
    export(tmp_path, 1, [sequence([4], reward=1.0, entropy="none")])
    export(tmp_path, 2, [sequence([4], reward=1.0)])
    assert follow() == 2
    assert len(swallowed) == 1
    swallowed.clear()
    assert [(record.step, record.summaries["hooks/internal_errors"].value()) for record in collector.records] == [
        (2, 1.0)
    ]


def test_a_run_that_goes_back_is_followed_back(tmp_path, follow, collector):
    """Steps that prime-rl writes again after a checkpoint are newer than the sent ones, and are sent again."""
    for step in (1, 2, 3):
        export(tmp_path, step, [sequence([4], reward=1.0)])
        os.utime(tmp_path / "token_exports" / f"step_{step}" / "STABLE", ns=(step, step))
    follow()
    export(tmp_path, 2, [sequence([4], reward=0.0)])
    assert follow() == 1
    assert [record.step for record in collector.records] == [1, 2, 3, 2]


def test_numbers_that_were_not_finite_are_counted_and_broken_lines_left_out(tmp_path, follow, collector, caplog):
    """A null, which prime-rl writes for NaN, is counted as a bad value, and a line that is no record is left out."""
    export(tmp_path, 1, [sequence([4, 5], reward=1.0, scores=[-1.0, -2.0])])
    file = tmp_path / "token_exports" / "step_1" / "rank_0.jsonl"
    broken = file.read_text().replace("-1.0, -2.0", "null, -2.0")
    assert "null" in broken
    file.write_text(broken + "{}\n{\n")
    follow()
    (record,) = collector.records
    assert record.summaries["finite/bad_values"].value() >= 1
    assert record.summaries["likelihood/correct"].value() == -2
    assert caplog.text.count("left out") == 2


def test_the_command_waits_for_its_folder_and_follows_until_it_is_stopped(tmp_path, collector):
    """A real process sends steps while it runs, and at SIGTERM the complete ones before it ends."""
    folder = tmp_path / "my-run"
    root = str(Path(trainer_hooks.__file__).parents[1])
    command = [sys.executable, "-m", "trainer_hooks.callbacks.prime_rl", str(folder), "--url", collector.url]
    with subprocess.Popen(command, env=os.environ | {"PYTHONPATH": root}, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert "my-run does not exist yet" in process.stderr.readline()
            export(folder, 1, [sequence([4], reward=1.0)])
            collector.wait_for(lambda seen: len(seen.records) == 1)
            export(folder, 2, [sequence([4], reward=1.0)])
            collector.wait_for(lambda seen: len(seen.records) == 2)
            for step in (3, 4):
                export(folder, step, [sequence([4], reward=1.0)])
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
        finally:
            process.kill()
    assert [record.step for record in collector.records] == [1, 2, 3, 4]
    assert {batch.run for batch in collector.batches} == {"my-run"}
    assert collector.batches[-1].end == "stopped"


@pytest.mark.parametrize(("variable", "named"), [("", "of the folder"), ("of the environment", "of the environment")])
def test_the_environment_names_a_run_before_its_folder(variable, named, tmp_path, collector, monkeypatch):
    """Without `--run` the name is that of `RLVITALS_RUN`, and without this variable that of the folder."""
    monkeypatch.setenv("RLVITALS_RUN", variable)
    folder = tmp_path / "of the folder"
    export(folder, 1, [sequence([4], reward=1.0)])
    export(folder, 2, [sequence([4], reward=1.0)])
    assert prime_rl.main([str(folder), "--url", collector.url, "--once"], stop=threading.Event()) == 0
    assert {batch.run for batch in collector.batches} == {named}


def test_the_command_sends_a_finished_run_once(tmp_path, collector, capsys):
    """`--once` sends the run and ends; without an address or a folder the command names the missing one."""
    for step in (1, 2):
        export(tmp_path, step, [sequence([4], reward=1.0)])
    assert prime_rl.main([str(tmp_path), "--url", collector.url, "--run", "r", "--once"], stop=threading.Event()) == 0
    assert [record.step for record in collector.records] == [1, 2]
    assert collector.batches[-1].end == "finished"
    file = tmp_path / "file"
    file.touch()
    for wrong, says in [
        ([str(tmp_path)], "RLVITALS_URL"),
        ([str(tmp_path / "none"), "--url", collector.url, "--once"], "none must be a folder"),
        ([str(file), "--url", collector.url], "file must be a folder"),
    ]:
        with pytest.raises(SystemExit):
            prime_rl.main(wrong, stop=threading.Event())
        assert says in capsys.readouterr().err
