import json
import shutil

import pytest

from trainer_hooks.callbacks.shared.hf_trainer.checkpoints import STOP_FILE, TrainerCheckpoints


@pytest.fixture
def saved(tmp_path):
    """Return a training that has saved these checkpoints, such as `saved(1, 2, resumed_step=0)`."""

    def saved(*steps, resumed_step=0):
        checkpoints = TrainerCheckpoints(tmp_path, resumed_step=resumed_step)
        for step in steps:
            (tmp_path / f"checkpoint-{step}").mkdir(exist_ok=True)
            if step > resumed_step:
                checkpoints.note(step)
        return checkpoints

    return saved


def test_the_newest_that_was_judged_and_lies_before_the_alert_is_healthy(saved, tmp_path):
    """Checkpoints of an outage, and those saved after the alert opened, are not healthy, however late it arrived."""
    checkpoints = saved(2, 4, 6, 8)
    assert checkpoints.healthy(judged_step=5, before=9) == str(tmp_path / "checkpoint-4")
    assert checkpoints.healthy(judged_step=8, before=4) == str(tmp_path / "checkpoint-2")
    assert checkpoints.healthy(judged_step=None, before=9) is None


@pytest.mark.parametrize(
    ("limit", "before", "lost"),
    [(None, 5, None), (0, 5, None), (1, 5, None), (2, 5, 4), (3, 5, None), (1, 9, 6), (1, 2, None)],
)
def test_saving_does_not_lose_the_newest_from_before_the_alert(saved, limit, before, lost):
    """Of 2, 4 and 6 the limit keeps the newest ones, and one more deletes the oldest of these."""
    assert saved(2, 4, 6).step_lost_by_saving(limit=limit, before=before) == lost


def test_one_that_is_gone_is_no_way_back(saved, tmp_path):
    """A checkpoint that `save_total_limit` has removed is not named; all that are left may be from after the alert."""
    checkpoints = saved(2, 4, 6)
    shutil.rmtree(tmp_path / "checkpoint-4")
    assert checkpoints.healthy(judged_step=5, before=6) == str(tmp_path / "checkpoint-2")
    shutil.rmtree(tmp_path / "checkpoint-2")
    assert checkpoints.healthy(judged_step=5, before=6) is None


def test_the_one_that_was_resumed_counts_as_healthy(saved, tmp_path):
    """The resumed checkpoint counts as healthy, unless the alert that stops the training had opened before it."""
    checkpoints = saved(4, 5, resumed_step=4)
    assert checkpoints.healthy(judged_step=None, before=6) == str(tmp_path / "checkpoint-4")
    assert checkpoints.healthy(judged_step=None, before=4) is None


def test_a_second_stop_keeps_the_way_back_of_the_first(saved, tmp_path):
    """A later stop keeps the earlier file's checkpoint if it still exists and the training was resumed."""
    read_stop_file = lambda: json.loads((tmp_path / STOP_FILE).read_text())  # noqa: E731
    saved(2).write_stop_file(5, reason="one", healthy=str(tmp_path / "checkpoint-2"))
    saved(4, resumed_step=4).write_stop_file(6, reason="two", healthy=None)
    assert read_stop_file() == {"step": 6, "reason": "two", "last_healthy_checkpoint": str(tmp_path / "checkpoint-2")}
    shutil.rmtree(tmp_path / "checkpoint-2")
    saved(4, resumed_step=4).write_stop_file(7, reason="three", healthy=None)
    assert read_stop_file()["last_healthy_checkpoint"] is None
    saved(2).write_stop_file(5, reason="one", healthy=str(tmp_path / "checkpoint-2"))
    saved().write_stop_file(1, reason="another", healthy=None)
    assert read_stop_file()["last_healthy_checkpoint"] is None


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"last_healthy_checkpoint": null}'])
def test_a_stop_file_that_cannot_be_read_is_overwritten(saved, tmp_path, content):
    """A file that is not ours, or that was cut off because the disk was full, is overwritten."""
    (tmp_path / STOP_FILE).write_text(content)
    saved(4, resumed_step=4).write_stop_file(6, reason="two", healthy=None)
    assert json.loads((tmp_path / STOP_FILE).read_text())["step"] == 6


def test_one_that_was_resumed_against_the_stop_file_is_not_healthy(saved, tmp_path):
    """The earlier checkpoint of the stop file holds until a verdict arrives, although a newer one was resumed."""
    saved(2, 6).write_stop_file(8, reason="one", healthy=str(tmp_path / "checkpoint-2"))
    checkpoints = saved(7, resumed_step=6)
    healthy = checkpoints.healthy(judged_step=None, before=8)
    assert healthy is None
    checkpoints.write_stop_file(9, reason="two", healthy=healthy)
    assert json.loads((tmp_path / STOP_FILE).read_text())["last_healthy_checkpoint"] == str(tmp_path / "checkpoint-2")
    assert saved(7, resumed_step=6).healthy(judged_step=7, before=9) is not None
    assert saved(7, resumed_step=1).healthy(judged_step=None, before=9) is None
    assert saved(1, 7, resumed_step=1).healthy(judged_step=None, before=9) == str(tmp_path / "checkpoint-1")
