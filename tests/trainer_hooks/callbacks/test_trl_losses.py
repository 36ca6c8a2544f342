"""Losses of subclasses, which score their microbatch in another way than TRL's own or clip something else."""

import pytest
import tiny_trl
import torch
from trl import GRPOTrainer

from tests.live import PATIENCE_SECONDS
from trainer_hooks.callbacks.trl import VitalsCallback
from trainer_hooks.callbacks.trl.loss_scores import LossScores, ScorerCall

pytestmark = pytest.mark.skipif(
    not hasattr(GRPOTrainer, "_get_per_token_logps_and_entropies"), reason="this TRL computes no entropies"
)
NOT_OBSERVED = "the signals of tokens are not observed, because the loss of "
TOKEN_SIGNALS = {"likelihood/p05", "kl/old", "ratio/max"}
OF_TOKENS = ("likelihood/", "displacement/", "kl/old", "ratio/max", "entropy/paired_delta", "instrument/")


def rows(inputs, chosen):
    """Return the chosen rows of a microbatch."""
    count = len(inputs["completion_ids"])
    is_column = {name: isinstance(part, torch.Tensor) and part.ndim > 0 for name, part in inputs.items()}
    return {name: part[chosen] if is_column[name] and len(part) == count else part for name, part in inputs.items()}


class Reversing(GRPOTrainer):
    """A trainer whose loss takes the rows of its microbatch from the last to the first."""

    def _compute_loss(self, model, inputs):
        return super()._compute_loss(model, rows(inputs, range(len(inputs["completion_ids"]) - 1, -1, -1)))


class Dividing(GRPOTrainer):
    """A trainer whose loss scores the halves of its microbatch one after the other, to save memory."""

    def _compute_loss(self, model, inputs):
        half = len(inputs["completion_ids"]) // 2
        parts = slice(0, half), slice(half, None)
        return sum(super(Dividing, self)._compute_loss(model, rows(inputs, part)) for part in parts) / 2


class Cutting(GRPOTrainer):
    """A trainer whose loss leaves out the columns before the prompts that hold only padding."""

    def _compute_loss(self, model, inputs):
        empty = int(inputs["prompt_mask"].any(dim=0).int().argmax())
        return super()._compute_loss(
            model, {name: part[:, empty:] if name.startswith("prompt_") else part for name, part in inputs.items()}
        )


class Overwriting(GRPOTrainer):
    """A trainer whose loss puts another token where the masks hide one."""

    def _compute_loss(self, model, inputs):
        sides = ("prompt", "completion")
        ids = {f"{side}_ids": inputs[f"{side}_ids"].masked_fill(inputs[f"{side}_mask"] == 0, 1) for side in sides}
        return super()._compute_loss(model, inputs | ids)


@pytest.fixture
def run(tmp_path, connect):
    """Return a function that trains with the callback into the live collector."""

    def train(**options):
        monitor = connect()
        callback = VitalsCallback(monitor, probe_every=1, recompute_every=1, recompute_responses=8)
        options = {"num_iterations": 2, "loss_type": "grpo", "bf16": False} | options
        trainer = tiny_trl.trainer(tmp_path, [callback], **options)
        trainer.train()
        assert monitor.flush(PATIENCE_SECONDS)
        return trainer

    return train


@pytest.mark.usefixtures("full_precision")
@pytest.mark.parametrize("kind", [Reversing, Cutting, Overwriting])
@pytest.mark.parametrize(
    "options",
    [{}, {"max_completion_length": 1, "learning_rate": 0.1}, {"beta": 0.1, "gradient_accumulation_steps": 1}],
    ids=["two microbatches", "responses of one token", "reference"],
)
def test_numbers_stay_with_the_responses_that_a_loss_puts_into_another_order(kind, options, run, steps, caplog):
    """They equal those that are computed again without the loss, and so do their changes over an update.

    Responses of one token are often equal and their numbers are not, because they follow other prompts.
    """
    run(kind=kind, **options)
    signals = steps()
    for step in (1, 2, 3, 4):
        assert signals[step]["instrument/logprob_max"] < 1e-5
        assert signals[step]["instrument/entropy_abs"] < 1e-5
    for step in (2, 4):
        assert signals[step].keys() >= TOKEN_SIGNALS
        assert signals[step]["ratio/max"] < 3
    assert "displacement/self" in signals[1] or "max_completion_length" in options
    assert NOT_OBSERVED not in caplog.text


def test_tokens_of_a_loss_of_trl_are_not_compared(tmp_path):
    """The result would have to be waited for on a device. No value of a tensor without storage can be read."""
    ids, mask = torch.zeros(2, 5, dtype=torch.long, device="meta"), torch.ones(2, 5, device="meta")
    call = ScorerCall(lambda: None, torch.zeros(2, 3), None, ids)
    inputs = {"prompt_ids": ids[:, :2], "completion_ids": ids[:, 2:]}
    inputs |= {"prompt_mask": mask[:, :2], "completion_mask": mask[:, 2:]}
    assert LossScores(tiny_trl.trainer(tmp_path, [])).match(call, inputs) is call
    with pytest.raises(RuntimeError, match="meta tensor"):
        LossScores(tiny_trl.trainer(tmp_path, [], kind=Reversing)).match(call, inputs)


class Hinting(GRPOTrainer):
    """A trainer whose loss scores the responses after other prompts than the ones that they were sampled for."""

    def _compute_loss(self, model, inputs):
        return super()._compute_loss(model, inputs | {"prompt_ids": inputs["prompt_ids"] + 1})


@pytest.mark.parametrize(
    ("kind", "reason"),
    [(Hinting, "scores other tokens than those of its responses"), (Dividing, "scores its responses in parts")],
)
def test_numbers_of_no_response_are_not_observed(kind, reason, run, steps, caplog):
    """A loss that scores other tokens or divides its microbatch leaves TRL's metrics, and a line that says why."""
    run(kind=kind)
    for signals in steps().values():
        assert not [name for name in signals if name.startswith(OF_TOKENS)]
        assert not {"hooks/internal_errors", "hooks/rejected_rollouts"} & signals.keys()
        assert {"entropy/mean", "grad/norm", "loss/policy"} <= signals.keys()
    assert {"reward/mean", "length/mean"} <= steps()[3].keys()
    (line,) = [record.message for record in caplog.records if NOT_OBSERVED in record.message]
    assert f"{kind.__name__} {reason}" in line


def test_responses_of_steps_that_are_not_observed_have_been_trained_on(run, steps):
    """After a first pass in parts, the change at the second pass is that of responses trained on before."""

    class Sometimes(Dividing):
        def _compute_loss(self, model, inputs):
            return (GRPOTrainer if self.state.global_step % 2 else Dividing)._compute_loss(self, model, inputs)

    run(kind=Sometimes)
    assert "likelihood/p05" not in steps()[1]
    assert steps()[2].keys() >= {*TOKEN_SIGNALS, "displacement/self"}
    assert "displacement/cross" not in steps()[2]


def test_the_clipped_shares_of_another_loss_are_its_own(tmp_path, connect, steps):
    """GMPO clips logarithms of ratios under the settings of GRPO, and records what it has clipped."""
    gmpo = pytest.importorskip("trl.experimental.gmpo")
    monitor = connect()
    options = {"per_device_train_batch_size": 8, "gradient_accumulation_steps": 1, "learning_rate": 2e-2}
    trainer = tiny_trl.trainer(
        tmp_path,
        [VitalsCallback(monitor)],
        kind=gmpo.GMPOTrainer,
        config_of=gmpo.GMPOConfig,
        num_iterations=3,
        max_steps=6,
        epsilon=0.4,
        **options,
    )
    trainer.train()
    assert monitor.flush(PATIENCE_SECONDS)
    logged = {entry["step"]: entry for entry in trainer.state.log_history if "grad_norm" in entry}
    clipped = {step: signals["ratio/clip_frac"] for step, signals in steps().items() if "ratio/clip_frac" in signals}
    assert set(clipped) == {2, 3, 5, 6}
    assert clipped == {step: pytest.approx(logged[step]["clip_ratio/region_mean"]) for step in clipped}
    assert any(clipped.values())
    assert "ratio/max" in steps()[2]
