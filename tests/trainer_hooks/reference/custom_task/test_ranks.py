"""A model from a folder, trained by two processes."""

import json

import pytest

from tests.trainer_hooks.reference.launching import ONE, TWO, launch


@pytest.mark.slow
def test_two_processes_train_a_model_from_a_folder_as_one_does(
    taught_folder, questions_file, corpus_file, prompt_file, tmp_path
):
    """The same numbers at every step, to float tolerance, of a model that has something to learn."""
    options = [
        *("--model", taught_folder, "--questions", questions_file, "--corpus", corpus_file, "--prompt", prompt_file),
        *("--context", "160", "--topk", "1", "--max-feedback-tokens", "24", "--questions-per-step", "4"),
        *("--minibatches", "2", "--steps", "2", "--lr", "1e-4", "--method", "llds"),
        *("--group-size", "8", "--max-action-tokens", "48", "--temperature", "1.2"),
    ]
    rows = []
    for name, world_size in (("one", ONE), ("two", TWO)):
        launch(world_size, tmp_path / name, tmp_path, *map(str, options))
        rows.append([json.loads(text) for text in (tmp_path / name / "log.jsonl").read_text().splitlines()])
    assert rows[0][0]["grad/norm"] > 0
    for row, other in zip(*rows, strict=True):
        assert row.keys() == other.keys()
        assert row == {name: pytest.approx(value, rel=2e-3, abs=2e-4, nan_ok=True) for name, value in other.items()}
