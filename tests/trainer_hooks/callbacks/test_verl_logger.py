import contextlib
import importlib
import math
import sys
import tomllib
from fractions import Fraction
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch

import trainer_hooks
from tests.live import PATIENCE_SECONDS
from trainer_hooks.callbacks import verl
from trainer_hooks.callbacks.verl import wrappers
from trainer_hooks.callbacks.verl.logger import SUMS, guard
from trainer_hooks.losses.verl import with_sums

METRICS = {
    "critic/score/mean": np.float32(0.25),
    "actor/entropy": 1.5,
    "actor/grad_norm": math.nan,
    "actor/ppo_kl": 0.01,
    "actor/pg_clipfrac": 0.02,
    "perf/throughput": 7.0,
    "text": "no number",
}


@pytest.fixture
def log(connect, collector):
    """Log a step through verl's logger and return the record that arrived."""

    def log(data, config=None, **noted):
        monitor = connect()
        logger = verl.VitalsLogger("project", "run", config, monitor=monitor)
        if noted:
            logger.note_rollouts(noted)
        logger.log(data=data, step=3)
        logger.finish()
        return collector.records[-1]

    return log


def test_verl_finds_us_by_its_entry_point():
    """The entry point that the package declares leads to this module."""
    pyproject = tomllib.loads((Path(trainer_hooks.__file__).parents[1] / "pyproject.toml").read_text())
    (name,) = pyproject["project"]["entry-points"]["verl.plugins"].values()
    assert importlib.import_module(name) is verl


def test_verls_names_become_signals(log):
    """Known names become canonical, NaN included; others are sent under verl/, and non-numbers are left out."""
    record = log(METRICS)
    assert record.step == 3
    assert math.isnan(record.scalars.pop("grad/norm"))
    assert record.scalars == {
        "reward/mean": 0.25,
        "entropy/mean": 1.5,
        "kl/old": 0.01,
        "ratio/clip_frac": 0.02,
        "verl/perf/throughput": 7.0,
    }


def test_a_validation_before_the_first_step_is_of_the_initial_policy(connect, collector, caplog):
    """With `val_before_train`, verl logs step 0; its policy version is 0, and no warning says that it is refused."""
    logger = verl.VitalsLogger("project", "run", monitor=connect())
    logger.log({"val-core/reward": 0.5}, 0)
    logger.finish()
    assert [(record.step, record.policy_version) for record in collector.records] == [(0, 0)]
    assert not caplog.text


def test_a_validation_of_the_checkpoint_that_a_training_resumes_from_is_no_rewind(connect, collector):
    """It is sent with the first step: at the checkpoint's step it would replace what was trained there."""
    logger = verl.VitalsLogger("project", "run", monitor=connect())
    logger.log({"val-core/reward": 0.5, "rollouter/validate_time": 8.0}, 20)
    logger.log({"critic/score/mean": 0.25, "val-core/reward": 0.75}, 21)
    logger.log({"perf/throughput": 1.0}, 22)
    logger.finish()
    sent = [(record.step, record.policy_version, record.scalars) for record in collector.records]
    assert sent == [
        (21, 20, {"reward/mean": 0.25, "verl/val-core/reward": 0.75, "verl/rollouter/validate_time": 8.0}),
        (22, 21, {"verl/perf/throughput": 1.0}),
    ]


def test_a_validation_that_no_training_follows_is_sent_at_once(connect, collector):
    """With `val_only`; verl 0.8 and older call nothing at the end, and Ray may end the process before its exit."""
    monitor = connect()
    config = {"trainer": {"val_only": True, "val_before_train": True}}
    verl.VitalsLogger("project", "run", config, monitor=monitor).log({"val-core/reward": 0.5}, 20)
    assert monitor.flush(PATIENCE_SECONDS)
    assert [(record.step, record.scalars) for record in collector.records] == [(20, {"verl/val-core/reward": 0.5})]


@pytest.mark.parametrize(("fails", "end"), [(True, "stopped"), (False, "finished")])
def test_a_validation_of_a_checkpoint_after_which_no_step_is_logged_is_no_rewind(fails, end, connect, collector):
    """Nothing of the run was trained since the checkpoint, so its numbers stay."""
    logger = verl.VitalsLogger("project", "run", monitor=connect())
    logger.log({"val-core/reward": 0.5}, 20)
    with contextlib.suppress(MemoryError):
        try:
            if fails:
                raise MemoryError
        finally:
            logger.finish()
    assert collector.records == []
    assert collector.batches[-1].end == end


def test_a_first_step_with_metrics_that_are_no_validation_is_sent_at_once(connect, collector):
    """Such as those of verl's supervised fine-tuning, which has none of the names that are known here."""
    monitor = connect()
    verl.VitalsLogger("project", "run", monitor=monitor).log({"train/loss": 0.5}, 1)
    assert monitor.flush(PATIENCE_SECONDS)
    assert [(record.step, record.scalars) for record in collector.records] == [(1, {"verl/train/loss": 0.5})]


def test_a_number_that_no_float_holds_costs_only_itself(log):
    """It is counted as a rejected scalar, and the other metrics of its step arrive."""
    record = log(METRICS | {"actor/entropy": 10**400, "mine": Fraction(10**400)})
    assert "entropy/mean" not in record.scalars
    assert record.scalars["reward/mean"] == 0.25
    assert record.summaries["hooks/rejected_scalars"].value() == 2


def test_an_array_of_one_number_is_a_number_where_reading_it_costs_no_wait(log, caplog):
    """A tensor on a device is counted, because training would wait for it, and the log says what to do."""
    numbers = {"grad": torch.tensor(0.5, requires_grad=True), "half": torch.ones(1, 1, dtype=torch.bfloat16)}
    others = {"many": torch.ones(2), "flag": torch.tensor(True), "away": torch.ones(1, device="meta")}
    record = log({"actor/entropy": np.array([1.5]), "actor/ppo_kl": torch.tensor(math.nan), **numbers, **others})
    assert math.isnan(record.scalars.pop("kl/old"))
    assert record.scalars == {"entropy/mean": 1.5, "verl/grad": 0.5, "verl/half": 1.0}
    assert record.summaries["hooks/rejected_scalars"].value() == 1
    assert "'verl/away' must be a number: training would wait for a tensor on meta; log its item()" in caplog.text


def test_with_one_update_a_rollout_ratios_are_left_out(log):
    """Ratios are left out because they are 1 by construction."""
    config = {"actor_rollout_ref": {"actor": {"ppo_epochs": 1, "ppo_mini_batch_size": 8}}, "data": {}}
    config["data"]["train_batch_size"] = 8
    assert not {"kl/old", "ratio/clip_frac"} & log(METRICS, config).scalars.keys()
    config["data"]["train_batch_size"] = 16
    assert {"kl/old", "ratio/clip_frac"} <= log(METRICS, config).scalars.keys()


def test_ratios_to_the_sampler_are_sent_with_one_update_too(log):
    """In bypass mode they are the only signals of how far the sampler is from the trainer."""
    config = {"actor_rollout_ref": {"actor": {"ppo_epochs": 1, "ppo_mini_batch_size": 8}}, "data": {}}
    config |= {"data": {"train_batch_size": 8}, "algorithm": {"rollout_correction": {"bypass_mode": True}}}
    assert {"kl/old", "ratio/clip_frac"} <= log(METRICS, config).scalars.keys()


def test_ratios_of_the_fully_asynchronous_trainer_are_sent(log):
    """Its configuration has a batch size of 0, and it makes several updates with ratios to the policy before them."""
    config = {"actor_rollout_ref": {"actor": {"ppo_epochs": 1, "ppo_mini_batch_size": 8}}, "data": {}}
    config |= {"data": {"train_batch_size": 0}, "async_training": {"trigger_parameter_sync_step": 4}}
    assert {"kl/old", "ratio/clip_frac"} <= log(METRICS, config).scalars.keys()


def test_a_log_between_rejection_and_tokens_leaves_the_sampled_tokens_known(connect):
    """The fully asynchronous trainer logs how long the parameters took, before it sums the batch up."""
    logger = verl.VitalsLogger("project", "run", monitor=connect())
    sampled, kept = torch.tensor([[1, 1]]), torch.tensor([[1, 0]])
    logger.note_rejection(sampled, kept)
    logger.log({"timing_s/param_sync": 1.0}, 1)
    assert logger.sampled_mask(kept) is sampled
    assert logger.sampled_mask(kept) is kept


@pytest.mark.parametrize("mode", ["token-mean", "seq-mean-token-mean", "seq-mean-token-sum", "seq-mean-token-sum-norm"])
def test_a_sum_over_the_tokens_of_a_response_is_no_mean_of_tokens(mode, log):
    """With such an aggregation of the loss, verl's entropy and KL depend on the lengths of responses."""
    config = {"actor_rollout_ref": {"actor": {"loss_agg_mode": mode}}}
    scalars = log({"actor/entropy": 0.5, "actor/kl_loss": 0.25, "actor/pg_loss": 1.0}, config).scalars
    own = {"verl/actor/entropy": 0.5, "verl/actor/kl_loss": 0.25, "loss/policy": 1.0}
    means = {"entropy/mean": 0.5, "kl/ref": 0.25, "loss/policy": 1.0}
    assert scalars == (means if mode.endswith("-mean") else own)


def test_tokens_noted_before_the_log_go_with_it(log):
    """Noted arrays become signals of the step that is logged next, at level L2."""
    record = log({}, logprobs=[[-1.0, -3.0]], mask=[[1, 1]], rewards=[1.0])
    assert record.summaries["likelihood/correct"].value() == -2


@pytest.mark.parametrize("name", ["trainer.ppo.ray_trainer", "experimental.separation.ray_trainer"])
def test_the_tokens_of_each_trainer_with_a_batch_are_read(name, connect, collector, monkeypatch):
    """The trainers whose rollouts run apart import the function that sums a batch up by themselves."""
    module = ModuleType(f"verl.{name}")
    module.compute_data_metrics = lambda **_: {"critic/score/mean": 9.0}
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    wrappers.register()
    logger = verl.VitalsLogger("project", "run", monitor=connect())
    tensors = {
        "responses": torch.tensor([[5, 6], [7, 8]]),
        "response_mask": torch.tensor([[1, 1], [1, 0]]),
        "old_log_probs": torch.tensor([[-1.0, -3.0], [-4.0, 0.0]]),
        "advantages": torch.tensor([[1.0, 1.0], [-1.0, -1.0]]),
        "token_level_scores": torch.tensor([[0.0, 1.0], [0.0, 0.0]]),
    }
    batch = SimpleNamespace(batch=tensors, non_tensor_batch={"uid": ["q", "q"]})
    logger.log(module.compute_data_metrics(batch=batch, use_critic=False), 1)
    logger.finish()
    summaries = collector.records[0].summaries
    assert (summaries["likelihood/correct"].value(), summaries["reward/mean"].value()) == (-2, 0.5)


def test_sums_over_the_tokens_of_the_loss_become_signals(log):
    """Averages of sums and counts over two microbatches give the shares of both microbatches together."""

    def loss(old_log_prob, log_prob, advantages, response_mask, **_):  # noqa: ARG001 - verl's signature
        return torch.tensor(1.0), {"actor/pg_clipfrac": 0.5}

    wrapped = with_sums(loss, SUMS, guard)
    mask = torch.tensor([[1, 1, 1], [1, 1, 0]])
    old = torch.full((2, 3), -1.0)
    # Two kept responses of 3 and 2 tokens: changes −1, +2, −0.5 (sum above 0: not lost) and −1, −1 (lost).
    first = torch.tensor([[-1.0, 2.0, -0.5], [-1.0, -1.0, 9.0]])
    # One of two is kept, and none of its values is lost.
    second = torch.tensor([[0.5, 0.5, 0.5], [-3.0, -3.0, 9.0]])
    results = [
        wrapped(old_log_prob=old, log_prob=old + first, advantages=torch.ones(2, 3), response_mask=mask),
        wrapped(old, old + second, torch.tensor([[1.0] * 3, [-1.0] * 3]), mask),
    ]
    assert [loss for loss, _ in results] == [1, 1]
    assert results[0][1]["actor/pg_clipfrac"] == 0.5
    means = {name: (value + results[1][1][name]) / 2 for name, value in results[0][1].items()}
    scalars = log(means).scalars
    changes = torch.tensor([-1.0, 2.0, -0.5, -1.0, -1.0, 0.5, 0.5, 0.5, -3.0, -3.0])
    # Kept tokens: 5 + 3 = 8, of them lost: 4. Kept responses: 2 + 1 = 3, of them lost: 1.
    assert scalars["lld/penalty_tokens_frac"] == pytest.approx(4 / 8)
    assert scalars["lld/gated_responses_frac"] == pytest.approx(1 / 3)
    assert scalars["ratio/log_var"] == pytest.approx(changes.var(correction=0).item(), rel=1e-5)
    ratios = changes.exp()
    assert scalars["ratio/ess_frac"] == pytest.approx(
        (ratios.sum() ** 2 / (10 * ratios.square().sum())).item(), rel=1e-5
    )


def test_a_token_that_is_not_finite_is_in_no_sum_and_rounding_leaves_no_signal_outside_its_range(log):
    """Seven tokens moved by 0.1 alike, and beside them are a NaN, an underflow to 0, and NaN at padding.

    verl clips a token's underflow, so that neither its loss nor another metric shows it.
    """
    old = torch.full((1, 10), -1.0)
    new = old + 0.1
    new[0, 7:] = torch.tensor([torch.nan, -torch.inf, torch.nan])
    advantages, mask = torch.ones(1, 10), torch.ones(1, 10)
    advantages[0, 9], mask[0, 9] = torch.nan, 0
    wrapped = with_sums(lambda *_, **__: (torch.tensor(1.0), {}), SUMS, guard)
    record = log(wrapped(old, new, advantages, mask)[1])
    assert record.summaries["finite/bad_values"].value() == 2
    scalars = record.scalars
    assert scalars["ratio/log_var"] == 0.0
    assert scalars["ratio/ess_frac"] == 1.0
    assert scalars["lld/penalty_tokens_frac"] == 0.0


@pytest.mark.parametrize("outcome", [torch.tensor(2.0), (torch.tensor(2.0), 0.5, 0.25, 0.125), (1, None)])
def test_a_loss_without_metrics_gives_what_it_gave(outcome):
    """A loss that returns another shape, as in an older or a newer verl, is returned unchanged."""
    assert with_sums(lambda **_: outcome, SUMS, guard)(log_prob=None) is outcome


def test_an_error_in_the_sums_leaves_the_loss_alone(swallowed):
    """All keys are in the metrics after an error, because verl's aggregation over ranks fails without them."""
    wrapped = with_sums(lambda *_, **__: (torch.tensor(2.0), {}), SUMS, guard)
    loss, metrics = wrapped(old_log_prob=None, log_prob=None, advantages=None, response_mask=None)
    assert loss == 2
    assert set(metrics.values()) == {0.0}
    assert swallowed
    swallowed.clear()


NEWER = [
    (wrappers.wrap_trainer, "class PPOTrainer:\n    def _compute_step_metrics(self): ...", "_compute_metrics"),
    (wrappers.wrap_trainer, "class Trainer: ...", "PPOTrainer"),
    (wrappers.wrap_legacy_trainer, "class RayPPOTrainer: ...", "compute_data_metrics"),
    (wrappers.wrap_tracking, "class Tracker: ...", "Tracking"),
    (wrappers.wrap_tracking, "class Tracking: ...", "supported_backend"),
    (wrappers.wrap_losses, "POLICY_LOSS_REGISTRY = {}", "verl"),
]


@pytest.mark.parametrize(("watch", "source", "missing"), NEWER)
def test_a_newer_verl_without_a_name_is_imported_all_the_same(watch, source, missing, imported, caplog):
    """The import of verl succeeds although a name is missing, and one message names it."""
    imported(source, watch)
    (message,) = caplog.messages
    assert missing in message


TRACKING = """
class Tracking:
    supported_backend = ["console"]
    def __init__(self, project_name, experiment_name, default_backend="console", config=None, *, resume=False):
        self.logger, self.resume = {}, resume
"""


def test_a_newer_verl_may_give_its_loggers_more_to_know(imported, collector, monkeypatch):
    """Additional keywords reach verl, whether our logger is configured or not."""
    monkeypatch.setattr(verl.VitalsLogger, "current", None)
    monkeypatch.setenv("RLVITALS_URL", collector.url)
    tracking = imported(TRACKING, wrappers.wrap_tracking).Tracking
    alone = tracking("p", "e", ["console"], resume=True)
    assert (alone.resume, alone.logger) == (True, {})
    ours = tracking(project_name="p", experiment_name="e", default_backend="rlvitals", resume=True).logger["rlvitals"]
    ours.log(data={"actor/entropy": 0.5}, step=1, backend=None)
    ours.finish()
    assert {(batch.project, batch.run) for batch in collector.batches} == {("p", "e")}
    assert collector.records[0].scalars == {"entropy/mean": 0.5}


def test_a_newer_verl_that_names_its_arguments_otherwise_trains_unwatched(imported, swallowed):
    """Training goes on without our logger, and the error names the missing argument."""
    tracking = imported(TRACKING.replace("default_backend", "backends"), wrappers.wrap_tracking).Tracking
    assert tracking("p", "e", backends="rlvitals").logger == {}
    assert "default_backend" in str(swallowed.pop())


def test_verl_may_name_the_batch_in_its_calls(imported, connect, monkeypatch, swallowed):
    """The method of verl receives its arguments by position or by name, and without a collector nothing is read."""
    source = "class PPOTrainer:\n    def _compute_metrics(self, batch, *, more): return batch, more"
    trainer = imported(source, wrappers.wrap_trainer).PPOTrainer()
    monkeypatch.setattr(verl.VitalsLogger, "current", None)
    assert trainer._compute_metrics("batch", more=1) == ("batch", 1)
    verl.VitalsLogger("project", "run", monitor=trainer_hooks.NullMonitor())
    assert trainer._compute_metrics("batch", more=1) == ("batch", 1)
    assert swallowed == []
    verl.VitalsLogger("project", "run", monitor=connect())
    assert trainer._compute_metrics(batch="batch", more=2) == ("batch", 2)
    assert "'tq'" in str(swallowed.pop())


def test_the_environment_names_project_and_run_before_verl(collector, monkeypatch):
    """A person who sets `RLVITALS_PROJECT` and `RLVITALS_RUN` means this run, whatever the configuration names."""
    monkeypatch.setenv("RLVITALS_URL", collector.url)
    verl.VitalsLogger("of verl", "of verl").finish()
    monkeypatch.setenv("RLVITALS_PROJECT", "mine")
    monkeypatch.setenv("RLVITALS_RUN", "r")
    verl.VitalsLogger("of verl", "of verl").finish()
    assert {(batch.project, batch.run) for batch in collector.batches} == {("of verl", "of verl"), ("mine", "r")}
