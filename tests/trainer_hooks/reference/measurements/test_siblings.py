"""Split groups: responses and not groups in minibatches, and the comparison of strata."""

from dataclasses import replace

import pytest
import torch

from trainer_hooks.reference.measurements.siblings import sibling_signals
from trainer_hooks.reference.policy.warm_start import warm_start
from trainer_hooks.reference.run.trainer import Trainer
from trainer_hooks.reference.updates.batch import prepare


@pytest.fixture
def split(tiny):
    """A batch of sixteen responses in four minibatches, of whole groups in none of them by design."""
    config = replace(tiny, split_groups=True, minibatches=4)
    trainer = Trainer(config, warm_start(config))
    training, _ = trainer.sample()
    return prepare(trainer.model, training, config, generator=trainer.generator)


def test_responses_are_dealt_whatever_their_groups(split):
    """Every response is in one minibatch, minibatches are equally large, and groups are spread over them."""
    rows = [part.rows.tolist() for part in split.minibatches]
    assert sorted(row for part in rows for row in part) == list(range(16))
    assert [len(part) for part in rows] == [4] * 4
    assert any(len(set(split.group_ids[part].tolist())) > 1 for part in rows)
    assert split.minibatches[0].tokens == split.mask[rows[0]].sum()


def test_strata_are_worked_by_hand(split):
    """One group has a wrong and three right responses: two right ones come after the wrong one, and lost 0.4 more."""
    rewards, lost = torch.ones(16), torch.zeros(16)
    rewards[0] = 0.0
    # Rows 1 and 2 are updated with row 4 of another group, after row 0; row 3 before it.
    lost[1:4] = torch.tensor([0.6, 0.2, 0.0])
    first = split.mask.long().argmax(dim=1)
    logprobs = split.old_logprobs.clone()
    logprobs[torch.arange(16), first] -= lost
    batch = replace(split, rewards=rewards, logprobs=logprobs)
    order = [batch.minibatch(torch.tensor(rows)) for rows in ([3, 5], [0], [1, 2, 4])]
    found = sibling_signals(batch, order)
    assert found == pytest.approx({"siblings/lost_after_wrong": 0.4, "siblings/lost_before_wrong": 0.0}, abs=1e-5)


def test_a_split_run_reports_its_strata(tiny):
    """Within a few steps there are right responses before and after wrong siblings."""
    config = replace(tiny, split_groups=True, minibatches=4, epochs=1)
    trainer = Trainer(config, warm_start(config))
    seen = {name for _ in range(12) for name in trainer.step().scalars if name.startswith("siblings/")}
    assert {"siblings/lost_after_wrong", "siblings/lost_before_wrong"} <= seen


def test_minibatches_must_divide_what_is_dealt(tiny):
    """Four questions of four responses go into eight minibatches of responses, and not of groups."""
    assert replace(tiny, split_groups=True, minibatches=8).minibatches == 8
    with pytest.raises(ValueError, match="minibatches must divide questions_per_step times group_size, got 3 and 16"):
        replace(tiny, split_groups=True, minibatches=3)
    with pytest.raises(ValueError, match="minibatches must divide questions_per_step, got 8 and 4"):
        replace(tiny, minibatches=8)
