import json
from pathlib import Path

import pytest
import tiny_trl
from tiny_llds import train, whole_penalty
from trl import GRPOTrainer

from tests import ranks
from trainer_hooks.losses import LLDS_PRESETS, adaptive_answer_weight
from trainer_hooks.losses.trl import LLDSConfig, LLDSGRPOTrainer, preset_settings

ONE_MICROBATCH = {"per_device_train_batch_size": 8, "gradient_accumulation_steps": 1}
CUTS = [
    ONE_MICROBATCH,
    {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 2},
    {"per_device_train_batch_size": 1, "gradient_accumulation_steps": 8},
]


@pytest.mark.parametrize("cut", CUTS, ids=["8x1", "4x2", "1x8"])
@pytest.mark.parametrize("gate", ["response", "action", "none"])
def test_the_penalty_is_the_one_of_our_losses_over_the_whole_update(gate, cut, tmp_path):
    """The penalty that TRL logs at the second pass equals `llds_loss` of that step's tokens, however they are split."""
    trainer, ((first, _), (second, tokens)) = train(tmp_path, llds_gate=gate, **cut)
    assert {bool(advantage >= 0) for advantage in tokens["advantages"]} == {True, False}
    expected = whole_penalty(tokens, gate=gate)
    assert expected > 0
    assert second["loss/llds"] == pytest.approx(expected.item(), rel=1e-5)
    # At the first pass the policy is still the one that sampled.
    assert first["loss/llds"] == pytest.approx(0, abs=1e-6)
    assert trainer.state.log_history[1]["llds_loss"] == second["loss/llds"]


def test_updates_of_one_rollout_share_its_normaliser(tmp_path):
    """With two updates per rollout N is half of the rollout's, so both penalties add up to twice that of all tokens."""
    options = {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 1, "steps_per_generation": 2}
    _, steps = train(tmp_path, max_steps=4, **options)
    second_pass = steps[2:]
    count = sum(int(tokens["mask"][tokens["advantages"] >= 0].sum()) for _, tokens in second_pass)
    expected = [whole_penalty(tokens, normaliser=count / 2).item() for _, tokens in second_pass]
    assert sum(expected) > 0
    assert [scalars["loss/llds"] for scalars, _ in second_pass] == pytest.approx(expected, rel=1e-5)


@pytest.mark.usefixtures("full_precision")
def test_the_weights_do_not_depend_on_how_an_update_is_cut(tmp_path):
    """Two plain gradient steps with a large λ end in the same weights, up to rounding, however they are split."""
    options = {
        "llds_coef": 5.0,
        "loss_type": "dr_grpo",
        "optim": "sgd",
        "learning_rate": 0.1,
        "max_grad_norm": 1e9,
        "bf16": False,
    }
    whole, *parts = [tiny_trl.vector(train(tmp_path, **options | cut)[0]) for cut in CUTS]
    without = tiny_trl.vector(train(tmp_path, **options | ONE_MICROBATCH | {"llds_coef": 0.0})[0])
    acted = (whole - without).norm()
    for part in parts:
        assert (part - whole).norm() < 1e-4 * acted


@pytest.mark.slow
def test_two_processes_share_one_normaliser(tmp_path):
    """The logged penalty is the sum over both ranks' tokens divided by both ranks' N; one rank has fewer tokens."""
    tiny_trl.model(tmp_path / "model")  # before two ranks write it at once
    ranks.launch(Path(tiny_trl.__file__).with_name("ddp_llds.py"), str(tmp_path))
    shares = [json.loads((tmp_path / f"rank{rank}.json").read_text()) for rank in range(2)]
    lost, count = (sum(share[name] for share in shares) for name in ("lost", "count"))
    assert shares[0]["count"] != shares[1]["count"]
    assert lost > 0
    assert shares[0]["logged"] == pytest.approx(lost / count, rel=1e-5)


@pytest.mark.parametrize("cut", CUTS, ids=["8x1", "4x2", "1x8"])
def test_the_loss_is_the_one_of_trl_plus_lambda_times_the_penalty(cut, tmp_path):
    """The losses are equal up to the second step, and there they differ by λ times the penalty."""
    _, plain = train(tmp_path, llds_coef=0.0, **cut)
    _, cured = train(tmp_path, llds_coef=0.5, **cut)
    difference = cured[1][0]["loss/policy"] - plain[1][0]["loss/policy"]
    assert difference == pytest.approx(0.5 * cured[1][0]["loss/llds"], rel=1e-4)


def test_with_lambda_0_it_is_trls_own_trainer(tmp_path):
    """With λ = 0 the final weights equal those of TRL's trainer to the last bit."""
    ours, _ = train(tmp_path, llds_coef=0.0, max_steps=4)
    theirs = tiny_trl.trainer(tmp_path, num_iterations=2)
    theirs.train()
    assert tiny_trl.weights(ours) == tiny_trl.weights(theirs)


def test_it_changes_what_is_learnt(tmp_path):
    """With λ > 0 the final weights differ from those of TRL's trainer."""
    ours, _ = train(tmp_path, llds_coef=1.0, max_steps=4)
    theirs = tiny_trl.trainer(tmp_path, num_iterations=2)
    theirs.train()
    assert tiny_trl.weights(ours) != tiny_trl.weights(theirs)


def test_it_says_when_it_does_nothing(tmp_path):
    """The trainer warns where one update per rollout leaves the likelihoods unchanged."""
    with pytest.warns(UserWarning, match="one update a rollout"):
        tiny_trl.trainer(tmp_path, kind=LLDSGRPOTrainer, config_of=LLDSConfig)


@pytest.mark.parametrize(
    "wrong",
    [
        {"llds_coef": -1.0},
        {"llds_coef": float("inf")},
        {"llds_gate": "token"},
        {"llds_answer_begin": "<answer>"},
        {"llds_normaliser": "mean"},
        {"llds_answer_weight": 2.0},
        {"llds_answer_weight": 0.5},
        {"llds_answer_begin": "<answer>", "llds_answer_end": "</answer>", "llds_answer_adaptive": True},
        {"llds_answer_begin": "", "llds_answer_end": ""},
    ],
    ids=str,
)
def test_settings_that_cannot_work_are_refused(wrong, tmp_path):
    """A negative weight, an unknown gate, an answer with only one mark and an adaptive weight of 0 are refused."""
    with pytest.raises(ValueError, match="llds"):
        LLDSConfig(output_dir=str(tmp_path), use_cpu=True, bf16=False, **wrong)


@pytest.mark.parametrize("coef", [0.0, 0.1])
@pytest.mark.parametrize("flag", ["use_liger_loss", "use_liger_kernel"])
def test_ligers_loss_is_refused_where_trl_has_one(flag, coef, tmp_path, monkeypatch):
    """Liger is refused before training, also at λ = 0, and accepted where TRL has no fused loss."""
    if not hasattr(LLDSConfig, flag):
        pytest.skip(f"this TRL has no {flag}")
    settings = {"output_dir": str(tmp_path), "use_cpu": True, "bf16": False, "llds_coef": coef, flag: True}
    if not hasattr(GRPOTrainer, "compute_liger_loss"):
        assert getattr(LLDSConfig(**settings), flag)
        monkeypatch.setattr(GRPOTrainer, "compute_liger_loss", GRPOTrainer.compute_loss, raising=False)
    with pytest.raises(ValueError, match=f"got {flag}=True"):
        LLDSConfig(**settings)


def test_a_loss_that_hides_its_log_probabilities_is_left_alone(tmp_path, monkeypatch, caplog):
    """Training continues without the penalty, the log reports it once, and `why_inert` gives the reason."""

    def fused(trainer, model, inputs):  # noqa: ARG001 - TRL's signature
        return model(input_ids=inputs["completion_ids"]).logits.mean()

    monkeypatch.setattr(GRPOTrainer, "_compute_loss", fused)
    trainer, steps = train(tmp_path)
    assert trainer.state.global_step == 2
    assert not any("loss/llds" in scalars for scalars, _ in steps)
    assert "hides its token log-probabilities" in trainer.why_inert
    assert [record.message for record in caplog.records if record.name == "trainer_hooks"] == [trainer.why_inert]


def test_answer_tokens_are_left_free(tmp_path):
    """With marks, the penalty is `llds_loss` without the tokens from the last opening mark on."""
    _, (_, (scalars, tokens)) = train(tmp_path, llds_answer_begin="d", llds_answer_end="never")
    begins = (tokens["token_ids"] == tiny_trl.WORDS.index("d")) & tokens["mask"].bool()
    answers = begins.flip(1).cumsum(dim=1).flip(1) == 0  # after the last one
    last = begins & (begins.flip(1).cumsum(dim=1).flip(1) == 1)
    free = (answers | last) & begins.any(dim=1, keepdim=True)
    expected = whole_penalty(tokens, answer_mask=free)
    assert scalars["loss/llds"] == pytest.approx(expected.item(), rel=1e-5)
    assert expected < whole_penalty(tokens)


def test_the_release_divides_by_all_tokens(tmp_path):
    """With the preset "release", TRL logs `llds_loss` divided by all action tokens, and λ is 0.2."""
    trainer, (_, (scalars, tokens)) = train(tmp_path, **preset_settings("release"))
    assert trainer.llds_coef == LLDS_PRESETS["release"].coef
    assert scalars["loss/llds"] == pytest.approx(whole_penalty(tokens, normaliser="all").item(), rel=1e-5)
    assert scalars["loss/llds"] < whole_penalty(tokens)


@pytest.mark.parametrize("cut", [CUTS[0], CUTS[2]], ids=["8x1", "1x8"])
def test_answer_tokens_can_weigh_less(cut, tmp_path):
    """A weight of 0.5 gives the mean of the penalties for weights 0 and 1; without tool calls it becomes 0."""
    marks = {"llds_answer_begin": "d", "llds_answer_end": "never"}
    _, (_, (half, tokens)) = train(tmp_path / "half", llds_answer_weight=0.5, **marks, **cut)
    _, (_, (none, _)) = train(tmp_path / "none", **marks, **cut)
    assert half["loss/llds"] == pytest.approx((none["loss/llds"] + whole_penalty(tokens).item()) / 2, rel=1e-3)
    assert half["loss/llds"] > none["loss/llds"]
    adaptive = {"llds_answer_weight": 0.5, "llds_answer_adaptive": True}
    _, (_, (adapted, _)) = train(tmp_path / "adapted", **adaptive, **marks, **cut)
    assert adapted["loss/llds"] == pytest.approx(none["loss/llds"], rel=1e-3)
    assert adaptive_answer_weight(0.5, 0.0) == 0.0
