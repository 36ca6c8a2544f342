"""`python -m trainer_hooks.reference`, from its options to its exit code."""

import pytest
import torch

from tests.absent_library import run_module_without
from tests.full_disk import disk_of
from trainer_hooks.reference.__main__ import main


@pytest.fixture
def options(tiny_cache, tmp_path):
    """The tiny preset, its kept warm start, and a folder for checkpoints."""
    return ["--preset", "tiny", "--cache", str(tiny_cache), "--checkpoints", str(tmp_path), "--steps", "2"]


def test_a_run_shows_progress_and_streams(options, collector, capsys):
    """Two steps: lines in the terminal, two records and the run's settings at the collector."""
    assert main([*options, "--url", collector.url, "--run", "r1", "--project", "p"]) == 0
    assert "step    2  reward" in capsys.readouterr().out
    assert [record.step for record in collector.records] == [1, 2]
    first = collector.batches[0]
    assert (first.run, first.project, first.source, first.config["lr"]) == ("r1", "p", "reference", 6e-4)
    assert collector.batches[-1].end == "finished"


@pytest.mark.parametrize("module", ["trainer_hooks.reference", "trainer_hooks.reference.experiments"])
def test_without_torch_one_line_says_what_to_install(module):
    """The base install has these modules, and not torch."""
    done = run_module_without("torch", module)
    assert done.returncode == 1
    assert done.stderr == (
        "rlvitals: the reference trainer needs torch, which is not installed: pip install 'rlvitals[trainer]'\n"
    )


def test_the_precision_of_products_is_that_of_the_settings(options):
    """Whatever an earlier run in this process has chosen; full precision is the default.

    Each precision has a warm start of its own, which a step of training is enough for here.
    """
    for asked, chosen in ((["--matmul-precision", "medium"], "medium"), ([], "highest")):
        assert main([*options, "--steps", "1", "--warm-steps", "1", *asked]) == 0
        assert torch.get_float32_matmul_precision() == chosen


@pytest.mark.parametrize(("method", "name"), [("llds", "LLDS"), ("kl-cov", "KL-Cov")])
def test_an_inert_penalty_is_warned_of(method, name, options, capsys):
    """With one update a rollout batch, the first line states that the penalty has no effect."""
    main([*options, "--steps", "1", "--minibatches", "1", "--epochs", "1", "--method", method])
    assert capsys.readouterr().out.startswith(f"warning: {name} does nothing here")


def test_a_run_is_resumed_or_refused_in_one_line(options, capsys):
    """Steps 1 and 2, then 3 from the checkpoint, then none; under another learning rate exit code 2 and the reason."""
    assert main([*options, "--checkpoint-every", "1"]) == 0
    assert main([*options, "--resume", "--steps", "3"]) == 0
    assert "resumed from" in capsys.readouterr().out
    assert main([*options, "--resume"]) == 0
    assert "nothing to train: step 2 of 2 is done" in capsys.readouterr().out
    assert main([*options, "--resume", "--lr", "0.1"]) == 2
    assert "error: checkpoint" in capsys.readouterr().err


def test_a_new_run_does_not_write_among_the_checkpoints_of_an_old_one(options, capsys):
    """Or it might go back to a state it was never in; with --resume and an empty folder it begins, and says so."""
    assert main([*options, "--resume", "--checkpoint-every", "1"]) == 0
    assert "beginning at step 1" in capsys.readouterr().out
    assert main([*options, "--checkpoint-every", "1"]) == 2
    assert "step-000002.pt; go on from it with --resume, remove its folder, or" in capsys.readouterr().err


def test_protection_without_a_collector_is_refused(options, capsys):
    """No collector would ever give the needed verdict."""
    assert main([*options, "--on-acceleration", "stop"]) == 2
    assert "on_acceleration stop needs a collector, whose verdict it acts on" in capsys.readouterr().err


def test_a_run_that_cannot_go_on_ends_in_one_line(options, capsys):
    """Weights give no probabilities: the exit code is 1, and the line names the setting to lower."""
    assert main([*options, "--lr", "1e30"]) == 1
    assert "error: logits must be finite" in capsys.readouterr().err


def test_a_start_that_is_refused_is_not_seen_by_the_collector(options, collector, capsys):
    """It would end the run of that name, which may be alive, and take its place as the attempt that is watched."""
    assert main([*options, "--checkpoint-every", "1"]) == 0
    streamed = [*options, "--url", collector.url, "--run", "r1"]
    assert main([*streamed, "--checkpoint-every", "1"]) == 2
    assert main([*streamed, "--resume", "--lr", "0.1"]) == 2
    assert "go on from it with --resume" in capsys.readouterr().err
    assert main([*streamed, "--resume", "--steps", "3"]) == 0
    assert len({batch.attempt for batch in collector.batches}) == 1


def test_a_full_disk_is_one_line_and_no_torn_file(options, tmp_path, capsys):
    """The checkpoint that does not fit leaves nothing behind, and ends the run with exit code 1."""
    with disk_of(20_000):
        assert main([*options, "--checkpoint-every", "1"]) == 1
    assert "step-000001.pt cannot be written: " in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_warm_start_that_does_not_fit_on_the_disk_is_one_line_and_no_file(options, tmp_path, capsys):
    """Nothing is trained yet: exit code 2, and the next run does not read an incomplete file."""
    cache = tmp_path / "cache"
    with disk_of(20_000):
        assert main([*options, "--cache", str(cache), "--warm-steps", "1"]) == 2
    assert "cannot be written: " in capsys.readouterr().err
    assert list(cache.iterdir()) == []


@pytest.mark.parametrize("unwritable", [["--log", "."], ["--checkpoint-every", "9", "--checkpoints", __file__]])
def test_a_file_that_cannot_be_written_is_one_line(unwritable, options, collector, capsys):
    """A log that is a folder and checkpoints in a file end the start with exit code 2; the collector sees no run."""
    assert main([*options, "--url", collector.url, *unwritable]) == 2
    assert capsys.readouterr().err.startswith("error: [Errno")
    assert not collector.batches
