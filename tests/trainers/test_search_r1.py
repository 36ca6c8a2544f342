from importlib.metadata import PackageNotFoundError, version

import numpy as np
import pytest
import torch

from trainer_hooks.callbacks import verl as adapter
from trainer_hooks.callbacks.verl.search_r1 import add_llds

try:
    pytestmark = pytest.mark.skipif(not version("verl").startswith("0.2."), reason="this verl is not Search-R1's")
except PackageNotFoundError:
    pytest.skip("verl 0.2 has an environment of its own: make test-trainers", allow_module_level=True)

from verl import DataProto
from verl.trainer.ppo import core_algos, ray_trainer
from verl.utils.tracking import Tracking


@pytest.fixture
def batch():
    """Two responses to a prompt as Search-R1's trainer holds them, the first with a search result in its middle."""
    attention = torch.ones(2, 5, dtype=torch.long)
    attention[1, 4] = 0
    info = attention.clone()
    info[0, 3] = 0
    scores = torch.tensor([[0.0, 0.0, 1.0], [0.0, 0.0, 0.0]])
    return DataProto.from_dict(
        tensors={
            "prompts": torch.ones(2, 2, dtype=torch.long),
            "responses": torch.tensor([[5, 6, 7], [8, 9, 0]]),
            "attention_mask": attention,
            "info_mask": info,
            "old_log_probs": torch.tensor([[-1.0, -50.0, -3.0], [-4.0, -2.0, 0.0]]),
            "advantages": torch.tensor([[1.0] * 3, [-1.0] * 3]),
            "returns": torch.zeros(2, 3),
            "token_level_scores": scores,
            "token_level_rewards": scores,
        },
        non_tensors={"uid": np.array(["q", "q"], dtype=object)},
    )


def test_a_step_of_its_own_functions_arrives(batch, collector, monkeypatch):
    """Its logger takes our name; its metrics are taken with the tokens that they are of, search results left out."""
    monkeypatch.setattr(adapter.VitalsLogger, "current", None)
    monkeypatch.setenv("RLVITALS_URL", collector.url)
    tracking = Tracking("Search-R1", "nq", ["console", "rlvitals"], config={"seed": 1})
    metrics = ray_trainer.compute_data_metrics(batch=batch, use_critic=False)
    tracking.log(data=metrics, step=4)
    tracking.logger["rlvitals"].finish()
    (record,) = collector.records
    assert record.step == 4
    assert {(sent.project, sent.run) for sent in collector.batches} == {("Search-R1", "nq")}
    assert record.summaries["reward/mean"].value() == 0.5
    assert record.summaries["likelihood/correct"].value() == -2
    assert record.summaries["likelihood/incorrect"].value() == -3
    assert record.summaries["likelihood/action1"].value() == -3
    assert record.summaries["reward/zero_std_frac"].value() == 0


def test_llds_is_added_to_its_policy_loss(monkeypatch):
    """The loss of verl 0.2 itself, plus a fifth of LLDS over all action tokens."""
    old = -torch.rand(2, 3)
    arrays = {"old_log_prob": old, "log_prob": old - 0.1, "eos_mask": torch.tensor([[1, 0, 1], [1, 1, 0]])}
    arrays |= {"advantages": torch.tensor([[1.0] * 3, [-1.0] * 3]), "cliprange": 0.2}
    monkeypatch.setattr(core_algos, "compute_policy_loss", core_algos.compute_policy_loss)
    before = core_algos.compute_policy_loss(**arrays)
    add_llds()
    after = core_algos.compute_policy_loss(**arrays)
    # Two preserved tokens of four lost 0.1 each.
    assert (after[0] - before[0]).item() == pytest.approx(0.2 * 0.2 / 4)
    assert torch.equal(after[1], before[1])
