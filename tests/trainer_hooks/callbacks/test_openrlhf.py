import argparse
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch

from tests.live import PATIENCE_SECONDS
from trainer_hooks.callbacks import openrlhf
from trainer_hooks.callbacks.openrlhf import wrappers
from trainer_hooks.callbacks.openrlhf.rollouts import rollout_arguments
from trainer_hooks.errors import ConfigurationError
from trainer_hooks.signals.loss_sums import NAMES
from trainer_hooks.wire import HIDDEN


@pytest.fixture
def args():
    """Return the arguments that the logger reads."""
    wandb = argparse.Namespace(key="0123456789abcdef" * 2, project="search", run_name="qwen")
    return argparse.Namespace(
        logger=argparse.Namespace(wandb=wandb),
        rollout=argparse.Namespace(batch_size=4, n_samples_per_prompt=2),
        train=argparse.Namespace(batch_size=4, max_epochs=1),
    )


class Inner:
    """A stand-in for OpenRLHF's logger; keeps the arguments of its calls."""

    def __init__(self):
        self.calls = []

    def __getattr__(self, name):
        return lambda *args: self.calls.append((name, *args))


def experience(index, scores, **fields):
    """Return an experience as the driver has it: right-padded, with prompts before actions in the sequences."""
    mask = torch.ones(len(index), len(scores[0]), dtype=torch.bool)
    nothing = dict.fromkeys(("rollout_log_probs", "base_action_log_probs", "advantages", "truncated"))
    return SimpleNamespace(
        **nothing
        | {
            "index": index,
            "sequences": torch.arange(3 + len(scores[0])).repeat(len(index), 1),
            "action_mask": mask,
            "action_log_probs": torch.tensor(scores),
            "rewards": torch.tensor([9.0] * len(index)),
            "info": {"reward": torch.tensor([float(place % 2) for place in index])},
        }
        | fields
    )


def test_experiences_of_different_lengths_become_one_step(args, connect, collector):
    """Groups follow the order of the rollout, rewards are those before the KL penalty, and ids those of the actions."""
    logger = openrlhf.VitalsLogger(None, args, monitor=connect())
    experiences = [experience([0, 3], [[-1.0, -3.0], [-4.0, -6.0]]), experience([1, 2], [[-2.0], [-8.0]])]
    found = rollout_arguments(experiences, 2)
    assert found["group_ids"].tolist() == [0, 1, 0, 1]
    assert found["token_ids"].tolist() == [[3, 4], [3, 4], [3, 0], [3, 0]]
    logger.note_rollouts(experiences, 2)
    logger.log_step(7, {"rollout/reward_mean": 0.5, "policy_loss": 0.25, "timing/ppo_train": 3.0})
    logger.close()
    (record,) = collector.records
    assert record.step == 7
    assert record.scalars == {"loss/policy": 0.25, "openrlhf/timing/ppo_train": 3.0}
    assert record.summaries["reward/mean"].value() == 0.5
    assert record.summaries["reward/zero_std_frac"].value() == 0
    # Places 3 and 1 are correct: −4, −6 and −2.
    assert record.summaries["likelihood/correct"].value() == -4
    assert next(batch for batch in collector.batches if batch.records).capability == "L2"


def test_sums_of_all_ranks_add_up_and_leave_the_status(args, connect, collector):
    """The driver receives each rank's sums under a name of their own, and the shares cover the tokens of all ranks."""
    monitor = connect()
    logger = openrlhf.VitalsLogger(None, args, monitor=monitor)
    first = dict.fromkeys(NAMES, 8.0) | {"tokens": 6.0, "kept_tokens": 4.0, "lost_tokens": 1.0, "ratio": 6.0}
    second = dict.fromkeys(NAMES, 8.0) | {"tokens": 2.0, "kept_tokens": 2.0, "lost_tokens": 2.0, "ratio": 2.0}
    status = {"policy_loss": 0.5, "rlvitals_sums_0": [*first.values()], "rlvitals_sums_12": [*second.values()]}
    logger.note_sums(status)
    assert status == {"policy_loss": 0.5}
    logger.log_step(1, status)
    assert monitor.flush(PATIENCE_SECONDS)
    scalars = collector.records[0].scalars
    assert scalars["lld/penalty_tokens_frac"] == pytest.approx(3 / 6)
    assert scalars["lld/gated_responses_frac"] == 1
    # 8 tokens: Σw = 8, Σw² = 16.
    assert scalars["ratio/ess_frac"] == pytest.approx(64 / (8 * 16))


def test_one_update_a_rollout_says_nothing_about_ratios(args, connect, collector):
    """Ratios are left out where one training batch has all responses and there is one epoch."""
    args.train.batch_size = 8
    logger = openrlhf.VitalsLogger(None, args, monitor=connect())
    logger.log_step(1, {"ppo_kl": 0.0, "ppo_clip_ratio": 0.0, "kl": 0.1})
    logger.close()
    assert collector.records[0].scalars == {"kl/ref": 0.1}


def test_a_term_of_the_loss_is_no_mean_over_tokens(args, connect, collector):
    """Entropy, and KL where it is in the loss, are shares of the step, and depend on the lengths of responses."""
    args.algo = argparse.Namespace(kl=argparse.Namespace(use_loss=True))
    logger = openrlhf.VitalsLogger(None, args, monitor=connect())
    logger.log_step(1, {"policy_loss": 0.5, "entropy_loss": 0.025, "kl": 0.1})
    logger.close()
    assert collector.records[0].scalars == {"loss/policy": 0.5, "openrlhf/entropy_loss": 0.025, "openrlhf/kl": 0.1}


def test_what_openrlhf_logs_reaches_its_own_logger(args, connect, collector):
    """Logs of training, of evaluation and of the end are forwarded; an evaluation is also sent to the collector."""
    inner = Inner()
    logger = openrlhf.VitalsLogger(inner, args, monitor=connect())
    logger.log_train(3, {"policy_loss": 1.0})
    logger.log_eval(3, {"eval_default_pass1": 0.25})
    logger.close()
    assert inner.calls == [
        ("log_train", 3, {"policy_loss": 1.0}),
        ("log_eval", 3, {"eval_default_pass1": 0.25}),
        ("close",),
    ]
    assert [record.scalars for record in collector.records] == [{"openrlhf/eval_default_pass1": 0.25}]
    assert collector.batches[-1].end == "finished"


def test_an_evaluation_that_arrives_late_begins_no_attempt(args, connect, collector):
    """In asynchronous training it has the step before the update under way, which would be a rewind."""
    inner = Inner()
    logger = openrlhf.VitalsLogger(inner, args, monitor=connect())
    logger.log_step(5, {"policy_loss": 1.0})
    logger.log_eval(4, {"eval_default_pass1": 0.25})
    logger.log_step(6, {"policy_loss": 2.0})
    logger.log_eval(6, {"eval_default_pass1": 0.5})
    logger.close()
    assert [record.step for record in collector.records] == [5, 5, 6, 6]
    assert inner.calls[0] == ("log_eval", 4, {"eval_default_pass1": 0.25})


def test_no_key_to_another_service_is_sent(args, collector, monkeypatch):
    """The configuration holds the arguments, without the keys of the loggers."""
    monkeypatch.setenv("RLVITALS_URL", collector.url)
    openrlhf.VitalsLogger(None, args).close()
    assert {(batch.project, batch.run) for batch in collector.batches} == {("search", "qwen")}
    config = next(batch.config for batch in collector.batches if batch.config)
    assert config == {
        "logger": {"wandb": {"key": HIDDEN, "project": "search", "run_name": "qwen"}},
        "rollout": {"batch_size": 4, "n_samples_per_prompt": 2},
        "train": {"batch_size": 4, "max_epochs": 1},
    }


def test_a_training_that_a_signal_handler_exits_is_stopped(collector):
    """OpenRLHF and SkyRL close at the end of each training, so one that is still open has been ended."""
    script = """
import argparse, sys
from types import SimpleNamespace
from trainer_hooks.callbacks import openrlhf, skyrl

logger = openrlhf.VitalsLogger(None, argparse.Namespace(logger=SimpleNamespace(wandb=SimpleNamespace(run_name="a"))))
skyrl.VitalsCallback().on_train_start(SimpleNamespace(cfg=SimpleNamespace(trainer=SimpleNamespace(run_name="b"))))
logger.log_step(1, {"policy_loss": 0.25})
sys.exit(143)
"""
    environ = {**os.environ, "RLVITALS_URL": collector.url}
    done = subprocess.run([sys.executable, "-c", script], env=environ, check=False, timeout=60)
    assert done.returncode == 143
    assert {(batch.run, batch.end) for batch in collector.batches if batch.end} == {("a", "stopped"), ("b", "stopped")}


@pytest.fixture
def watched(collector, monkeypatch):
    """Set an address, because OpenRLHF's classes are wrapped only then."""
    monkeypatch.setenv("RLVITALS_URL", collector.url)


NEWER = [
    (wrappers.wrap_driver, "class Trainer: ...", "BasePPOTrainer"),
    (wrappers.wrap_worker, "class ActorPPOTrainer: ...", "ppo_train"),
    (wrappers.wrap_loss, "class PolicyLoss:\n    def __call__(self): ...", "forward"),
]


@pytest.mark.usefixtures("watched")
@pytest.mark.parametrize(("watch", "source", "missing"), NEWER)
def test_a_newer_openrlhf_without_a_name_is_imported_all_the_same(watch, source, missing, imported, caplog):
    """OpenRLHF is imported, and one warning names the missing name."""
    imported(source, watch)
    (message,) = caplog.messages
    assert missing in message


def test_an_address_that_cannot_work_is_reported_when_openrlhf_is_imported(imported, monkeypatch, caplog):
    """The error is logged and not raised, because nobody catches it in Ray's processes."""
    monkeypatch.setenv("RLVITALS_URL", "nowhere")
    imported("class PolicyLoss:\n    def forward(self): ...", wrappers.wrap_loss)
    assert "http://host:8600" in caplog.text


DRIVER = """
class BasePPOTrainer:
    def __init__(self, args):
        self.args, self.wandb_logger = args, None
    def _compute_rollout_stats(self, experiences, extra=None):
        return extra
    def save_logs_and_checkpoints(self, global_step, logs_dict=None, client_states=None):
        self.wandb_logger.log_train(global_step, logs_dict)
        self.wandb_logger.log_table(global_step, rows=[])
        return global_step
"""


@pytest.mark.usefixtures("watched")
def test_a_newer_openrlhf_trains_on_whatever_it_calls_with(imported, collector, caplog, swallowed):
    """Metrics are sent without a run name, with an additional argument and with a method missing."""
    trainer = imported(DRIVER, wrappers.wrap_driver).BasePPOTrainer(argparse.Namespace(seed=1))
    assert caplog.messages == [
        "rlvitals: BasePPOTrainer has no ppo_train, so the signals that are read there are not observed"
    ]
    assert trainer._compute_rollout_stats(experiences=[], extra=1) == 1
    assert "rollout" in str(swallowed.pop())
    assert trainer.save_logs_and_checkpoints(global_step=3, logs_dict={"kl": 0.5}) == 3
    trainer.wandb_logger.close()
    assert collector.records[0].scalars == {"kl/ref": 0.5}
    assert {batch.project for batch in collector.batches} == {"default"}


@pytest.mark.usefixtures("watched")
def test_a_worker_that_keeps_its_loss_elsewhere_trains_on(imported, swallowed):
    """The step has no sums, a warning says so, and no error is raised."""
    source = "class ActorPPOTrainer:\n    def ppo_train(self, kl): return {'policy_loss': kl}"
    trainer = imported(source, wrappers.wrap_worker).ActorPPOTrainer()
    assert trainer.ppo_train(kl=0.5) == {"policy_loss": 0.5}
    assert "actor_loss_fn" in str(swallowed[0])
    swallowed.clear()


def test_a_setting_that_cannot_work_is_reported_before_training(args, monkeypatch, imported, collector):
    """The error is raised before the first step, because nobody may read the log."""
    monkeypatch.setenv("RLVITALS_URL", collector.url)
    trainer_class = imported(DRIVER, wrappers.wrap_driver).BasePPOTrainer
    monkeypatch.setenv("RLVITALS_URL", "ftp://nowhere")
    with pytest.raises(ConfigurationError, match="url must look like"):
        trainer_class(args)


def test_the_environment_names_project_and_run_before_the_arguments(args, collector, monkeypatch):
    """`RLVITALS_PROJECT` and `RLVITALS_RUN` go before the names for W&B."""
    monkeypatch.setenv("RLVITALS_URL", collector.url)
    monkeypatch.setenv("RLVITALS_PROJECT", "mine")
    monkeypatch.setenv("RLVITALS_RUN", "r")
    openrlhf.VitalsLogger(None, args).close()
    assert {(batch.project, batch.run) for batch in collector.batches} == {("mine", "r")}
