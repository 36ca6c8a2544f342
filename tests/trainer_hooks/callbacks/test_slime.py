from types import SimpleNamespace

import pytest
import torch

from trainer_hooks.callbacks import slime
from trainer_hooks.callbacks.sample_lists import padded

DATA = {
    "tokens": [[9, 9, 4, 5, 6], [9, 7]],
    "response_lengths": [3, 1],
    "loss_masks": [[1, 0, 1], [1]],
    "log_probs": [torch.tensor([-1.0, -50.0, -3.0]), torch.tensor([-4.0])],
    "rollout_log_probs": [[-1.5, -50.0, -3.5], [-4.5]],
    "advantages": [torch.ones(3), -torch.ones(1)],
    "raw_reward": [1.0, 0.0],
}


@pytest.fixture
def record(connect, collector, monkeypatch):
    """Let slime's hook see a rollout and give the record that arrived."""

    def record(data):
        monitor = connect()
        monkeypatch.setattr(slime, "_monitors", [monitor])
        slime.watch(SimpleNamespace(lr=1e-6), 6, data)
        assert monitor.flush()
        return collector.records[-1]

    return record


def test_a_rollout_becomes_a_step(record):
    """Lists of different lengths are laid out; masked tokens are feedback; rollouts count from 0 and steps from 1."""
    given = record(DATA)
    assert given.step == 7
    # (−1 − 3) / 2 and −4; each 0.5 away from the sampler.
    assert given.summaries["likelihood/correct"].value() == -2
    assert given.summaries["likelihood/incorrect"].value() == -4
    assert given.summaries["mismatch/logprob_abs"].value() == pytest.approx(0.5)
    assert given.summaries["reward/mean"].value() == 0.5


def test_the_first_record_says_how_much_is_seen(record, collector):
    """Tokens of the rollout, none of the loss."""
    record(DATA)
    assert next(batch for batch in collector.batches if batch.records).capability == "L2"


def test_the_samplers_log_probabilities_stand_in_but_are_no_match_of_themselves(record):
    """Where slime takes the old ones from the training forward, there is nothing to compare the sampler's with."""
    given = record({name: values for name, values in DATA.items() if name != "log_probs"})
    assert given.summaries["likelihood/correct"].value() == -2.5
    assert "mismatch/logprob_abs" not in given.summaries


def test_without_log_probabilities_the_step_still_counts(record):
    """Nothing to score, nothing raised."""
    given = record({"raw_reward": [1.0], "loss_masks": [[1]]})
    assert given.step == 7
    assert "likelihood/correct" not in given.summaries


def test_rows_are_filled_up_to_the_longest():
    """Half precision and lists alike."""
    assert padded([torch.tensor([1.0, 2.0], dtype=torch.bfloat16), [3]], fill=-1).tolist() == [[1, 2], [3, -1]]
