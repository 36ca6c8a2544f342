import argparse
import os
from types import SimpleNamespace

import pytest
import torch

pytest.importorskip("openrlhf", reason="OpenRLHF has an environment of its own: make test-trainers")

# A trainer that is not watched is not wrapped, which is decided when OpenRLHF's modules are imported.
os.environ["RLVITALS_URL"] = "http://127.0.0.1:9"
from trainer_hooks.callbacks import openrlhf as adapter

# isort: split
from openrlhf.models import Actor, PolicyLoss
from openrlhf.trainer import ppo_trainer
from openrlhf.trainer.ppo_utils.experience import Experience
from openrlhf.trainer.ray import ppo_actor

import trainer_hooks
from tests.live import PATIENCE_SECONDS
from tests.trainer_hooks.callbacks import tiny_trl
from tests.trainers.untouched import fingerprint
from trainer_hooks.wire import HIDDEN

del os.environ["RLVITALS_URL"]

RESPONSES, TOKENS, VOCABULARY = 8, 7, 11


def namespace(**values):
    """Nest argparse namespaces, as OpenRLHF's command line does."""
    return argparse.Namespace(
        **{name: namespace(**value) if isinstance(value, dict) else value for name, value in values.items()}
    )


@pytest.fixture
def args():
    """The arguments that OpenRLHF's own code reads on the way."""
    return namespace(
        algo={
            "kl": {"target": None, "init_coef": 0.0, "use_loss": False},
            "advantage": {
                "estimator": "group_norm",
                "is_correction_level": "off",
                "is_correction_mode": "mask",
                "is_correction_gating": "ratio",
                "is_correction_threshold": (0.5, 5.0),
            },
        },
        actor={
            "eps_clip_low_high": (0.2, 0.2),
            "dual_clip": None,
            "loss_agg_mode": "token-mean",
            "policy_loss_type": "ppo",
            "aux_loss_coef": 0.0,
            "entropy_coef": None,
        },
        logger={
            "wandb": {"key": "0123456789" * 4, "org": None, "group": None, "project": "search", "run_name": "qwen"},
            "tensorboard_dir": None,
            "logging_steps": 1,
        },
        train={
            "max_epochs": 2,
            "batch_size": RESPONSES,
            "dynamic_batch_enable": False,
            "colocate_all": False,
            "async_enable": False,
        },
        rollout={"batch_size": 4, "n_samples_per_prompt": 2},
        ds={"packing_samples": False, "tensor_parallel_size": 1, "enable_sleep": False},
        critic={"freezing_steps": -1},
        ckpt={"save_steps": float("inf"), "best_metric_key": "none"},
        vllm={},
    )


class Policy(torch.nn.Module):
    """Scores the next token by the last one alone, and records its answers in training."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.table = torch.nn.Parameter(torch.randn(VOCABULARY, VOCABULARY))
        self.said = []

    def forward(self, sequences, action_mask, *_, **__):
        """Return log-probabilities of the actions as OpenRLHF's Actor does, 0 where there is none."""
        scores = self.table[sequences[:, :-1]].log_softmax(dim=-1)
        scores = scores.gather(2, sequences[:, 1:, None])[:, :, 0]
        found = scores[:, -action_mask.shape[1] :] * action_mask.float()
        self.said.append(found.detach().clone())
        return found, SimpleNamespace()


class Strategy:
    """Updates the policy itself; one process, so that there is nothing to reduce."""

    ring_attn_group = None
    accumulated_gradient = 1

    def __init__(self, args):
        self.args = args

    def is_rank_0(self):
        """Keep the progress bar away."""
        return False

    def backward(self, loss, *_):
        """Do the work of DeepSpeed."""
        loss.backward()

    def optimizer_step(self, optimizer, *_, **__):
        """Do the work of DeepSpeed."""
        optimizer.step()
        optimizer.zero_grad()

    def get_grad_norm(self, _):
        """Return a number that the test looks for."""
        return 1.5

    def all_reduce(self, data):
        """Record the values for which OpenRLHF would use a collective."""
        self.reduced = set(data)
        return data


@pytest.fixture
def rollout():
    """The same at every call."""
    torch.manual_seed(1)
    return sampled(Policy())


def sampled(policy):
    """Eight responses to four prompts, in two experiences of different lengths; a feedback token in the second."""
    found = []
    for first, length in ((0, TOKENS), (4, TOKENS - 2)):
        sequences = torch.randint(0, VOCABULARY, (4, length + 1))
        mask = torch.ones(4, length, dtype=torch.bool)
        mask[:, 0] = False
        if first:
            mask[0, 2] = False
        with torch.no_grad():
            scores = policy(sequences, mask, torch.ones_like(sequences), return_output=True)[0]
        advantages = torch.tensor([1.0, -1.0, 0.5, -0.5])[:, None] * mask
        rewards = torch.tensor([1.0, 0.0, 1.0, 0.0])
        found.append(
            Experience(
                sequences=sequences,
                attention_mask=torch.ones_like(sequences),
                action_mask=mask,
                action_log_probs=scores,
                rollout_log_probs=scores - 0.25 * mask,
                advantages=advantages,
                returns=advantages,
                rewards=rewards,
                response_length=mask.sum(dim=1),
                truncated=torch.tensor([False, False, False, True]),
                total_length=torch.full((4,), length + 1),
                index=list(range(first, first + 4)),
                prompts=["p"] * 4,
                labels=[""] * 4,
                info={"reward": rewards.clone()},
            )
        )
    return found


@pytest.fixture
def train(args, rollout, monkeypatch):
    """A function that runs OpenRLHF's own driver and worker for a step, and gives them."""
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(Experience, "to_device", lambda self, _: self)
    monkeypatch.setattr(ppo_actor, "torch_dist_barrier_and_cuda_sync", lambda: None)
    monkeypatch.setattr(ppo_trainer, "ray", SimpleNamespace(get=lambda refs: refs))

    def train(steps=1, policy=None, lr=2.0):
        torch.manual_seed(3)
        strategy, policy = Strategy(args), policy or Policy()
        optimizer = torch.optim.SGD(policy.parameters(), lr=lr)
        scheduler = torch.optim.lr_scheduler.ConstantLR(optimizer, factor=1.0)
        worker = ppo_actor.ActorPPOTrainer(
            strategy, policy, None, optimizer, scheduler, micro_train_batch_size=4, dataloader_pin_memory=False
        )

        def async_run_method_batch(*, method_name, experience):
            assert method_name == "append"
            for one in experience:
                worker.replay_buffer.append(one)
            return []

        def async_run_method(*, method_name, **options):
            return [worker.ppo_train(**options)] if method_name == "fit" else []

        group = SimpleNamespace(async_run_method=async_run_method, async_run_method_batch=async_run_method_batch)
        tokenizer = SimpleNamespace(decode=lambda *_, **__: ["text"], pad_token_id=0)
        driver = ppo_trainer.BasePPOTrainer(strategy, group, None, None, None, None, tokenizer)
        monkeypatch.setattr(driver.experience_maker, "make_experience_batch", lambda _: rollout)
        for before in range(4, 4 + steps):
            if steps > 1:
                monkeypatch.setattr(driver.experience_maker, "make_experience_batch", lambda _: sampled(policy))
            status, step = driver.train_step(None, before)
            driver.save_logs_and_checkpoints(step, status, {})
        return driver, policy, status

    return train


def test_the_classes_of_openrlhf_are_the_ones_that_are_wrapped():
    """Driver, worker and loss; plain classes, which Ray's workers look up by name."""
    for owner, name in (
        (ppo_trainer.BasePPOTrainer, "__init__"),
        (ppo_trainer.BasePPOTrainer, "save_logs_and_checkpoints"),
        (ppo_trainer.BasePPOTrainer, "_compute_rollout_stats"),
        (ppo_trainer.BasePPOTrainer, "ppo_train"),
        (ppo_actor.ActorPPOTrainer, "ppo_train"),
        (PolicyLoss, "forward"),
    ):
        assert getattr(owner, name).__wrapped__
        assert owner.__module__.startswith("openrlhf.")


def test_a_step_of_openrlhfs_own_code_arrives(train, rollout, collector, monkeypatch):
    """Metrics, the rollout's tokens and the sums of the loss, in one record at the step's number."""
    monkeypatch.setenv("RLVITALS_URL", collector.url)
    driver, _, status = train()
    driver.wandb_logger.close()
    (record,) = collector.records
    assert record.step == 5
    carrying = next(batch for batch in collector.batches if batch.records)
    assert (carrying.run, carrying.project, carrying.capability) == ("qwen", "search", "L2")
    assert collector.batches[-1].end == "finished"
    config = next(batch.config for batch in collector.batches if batch.config)
    assert config["rollout"]["n_samples_per_prompt"] == 2
    assert config["logger"]["wandb"]["key"] == HIDDEN
    assert config["logger"]["wandb"]["run_name"] == "qwen"

    assert record.scalars["grad/norm"] == 1.5
    assert record.scalars["lr"] == 2.0
    assert record.scalars["ratio/clip_frac"] == pytest.approx(status["ppo_clip_ratio"])
    assert record.scalars["kl/old"] == pytest.approx(status["ppo_kl"])
    scores = torch.cat([one.action_log_probs[one.action_mask] for one in rollout])
    correct = torch.cat([one.action_log_probs[::2][one.action_mask[::2]] for one in rollout])
    assert record.summaries["likelihood/correct"].value() == pytest.approx(correct.mean().item(), rel=1e-5)
    assert record.summaries["length/mean"].value() == pytest.approx(len(scores) / 8)
    assert record.summaries["length/truncated_frac"].value() == 0.25
    assert record.summaries["mismatch/logprob_abs"].value() == pytest.approx(0.25)
    assert record.summaries["reward/zero_std_frac"].value() == 0
    assert record.summaries["reward/mean"].value() == 0.5


def test_the_sums_are_those_of_the_loss(train, collector, monkeypatch):
    """Variance of the log ratio, effective sample size and lost shares, from the policy's answers in four passes."""
    monkeypatch.setenv("RLVITALS_URL", collector.url)
    watched = []
    original = PolicyLoss.forward

    def forward(self, log_probs, old_log_probs, advantages, action_mask=None, **options):
        kept = advantages.sum(dim=1) >= 0
        watched.append(((log_probs - old_log_probs).detach(), action_mask.bool(), kept))
        return original(self, log_probs, old_log_probs, advantages, action_mask=action_mask, **options)

    monkeypatch.setattr(PolicyLoss, "forward", forward)
    driver, *_ = train()
    driver.wandb_logger.close()
    assert len(watched) == 4
    changes = torch.cat([change[mask] for change, mask, _ in watched]).double()
    assert changes.abs().max() > 0.01
    scalars = collector.records[0].scalars
    assert scalars["ratio/log_var"] == pytest.approx(changes.var(correction=0).item(), rel=1e-4)
    ratios = changes.exp()
    ess = ratios.sum() ** 2 / (len(ratios) * ratios.square().sum())
    assert scalars["ratio/ess_frac"] == pytest.approx(ess.item(), rel=1e-5)
    lost = sum(int((change[kept][mask[kept]] < 0).sum()) for change, mask, kept in watched)
    of = sum(int(mask[kept].sum()) for _, mask, kept in watched)
    assert scalars["lld/penalty_tokens_frac"] == pytest.approx(lost / of)


def test_nothing_of_ours_is_reduced_over_ranks_or_left_in_the_status(train, collector, monkeypatch):
    """OpenRLHF spends a collective on each metric of a microbatch; its own logger receives only its own metrics."""
    monkeypatch.setenv("RLVITALS_URL", collector.url)
    driver, _, status = train()
    assert not [name for name in status if "rlvitals" in name]
    assert not [name for name in driver.strategy.reduced if "rlvitals" in name]


@pytest.fixture
def actor(tmp_path):
    """A function that gives OpenRLHF's own model around a tiny Qwen2 that draws random numbers."""
    tiny_trl.model(tmp_path)

    def actor():
        found = Actor(str(tmp_path), attn_implementation="eager").float()
        for layer in found.model.model.layers:
            layer.self_attn.attention_dropout = 0.1
        return found.train()

    return actor


def test_weights_and_generators_are_the_same_to_the_bit_whatever_fails(
    train, actor, collector, every_collector, monkeypatch
):
    """Against OpenRLHF's own methods: three steps of its model, driver, worker and loss, with every collector."""
    watched, defaults = [], trainer_hooks.Monitor.__init__.__kwdefaults__
    for url, spool in every_collector:
        monkeypatch.setitem(defaults, "close_timeout_seconds", PATIENCE_SECONDS if url == collector.url else 2.0)
        monkeypatch.setenv("RLVITALS_URL", url)
        monkeypatch.setenv("RLVITALS_SPOOL_DIR", spool)
        driver, policy, _ = train(steps=3, policy=actor(), lr=0.01)
        watched.append(fingerprint(policy.parameters()))
        driver.wandb_logger.close()
    assert [record.step for record in collector.records] == [5, 6, 7]
    for owner in (ppo_trainer.BasePPOTrainer, ppo_actor.ActorPPOTrainer, PolicyLoss):
        for name, method in list(vars(owner).items()):
            if hasattr(method, "__wrapped__") and "openrlhf" in method.__module__:
                monkeypatch.setattr(owner, name, method.__wrapped__)
    driver, policy, _ = train(steps=3, policy=actor(), lr=0.01)
    assert not isinstance(driver.wandb_logger, adapter.VitalsLogger)
    assert all(weight.isfinite().all() for weight in policy.parameters())
    assert watched == [fingerprint(policy.parameters())] * len(every_collector)


def test_with_one_update_a_rollout_ratios_are_left_out(train, args, collector, monkeypatch):
    """They are then 1 by construction."""
    monkeypatch.setenv("RLVITALS_URL", collector.url)
    args.train.max_epochs = 1
    driver, *_ = train()
    driver.wandb_logger.close()
    assert not [name for name in collector.records[0].scalars if name.startswith(("ratio/", "lld/", "kl/old"))]
