import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from trainer_hooks.callbacks import verl as adapter
from trainer_hooks.callbacks.verl.logger import SUMS, guard
from trainer_hooks.callbacks.verl.rollouts import NO_TRAINER_SCORES
from trainer_hooks.losses import llds_loss
from trainer_hooks.losses.verl import last_actions, register_llds, with_sums
from trainer_hooks.signals.loss_sums import NAMES
from trainer_hooks.wire import decode_response

pytest.importorskip("verl", reason="verl has an environment of its own: make test-trainers")

from tensordict import TensorDict
from verl import DataProto
from verl.trainer.ppo import ray_trainer, rollout_corr_helper
from verl.trainer.ppo.core_algos import get_policy_loss_fn
from verl.utils.tracking import Tracking
from verl.workers.config import FSDPActorConfig

from tests.live import PATIENCE_SECONDS

try:
    from verl.trainer.ppo.v1 import trainer_base
except ImportError:  # verl 0.6 to 0.8
    trainer_base = None


@pytest.fixture(autouse=True)
def no_logger_left(monkeypatch):
    """Each test has its own logger."""
    monkeypatch.setattr(adapter.VitalsLogger, "current", None)


@pytest.fixture
def tokens():
    """Four responses of at most three tokens, two prompts, one feedback token."""
    generator = torch.Generator().manual_seed(1)
    return {
        "old_log_prob": -torch.rand(4, 3, generator=generator),
        "log_prob": -torch.rand(4, 3, generator=generator),
        "advantages": torch.tensor([1.0, -1.0, 0.0, 1.0])[:, None].expand(4, 3),
        "response_mask": torch.tensor([[1, 1, 1], [1, 0, 1], [1, 1, 0], [1, 1, 1]]),
    }


@pytest.fixture
def config():
    """Make verl's own actor configuration."""
    return FSDPActorConfig(
        strategy="fsdp", rollout_n=2, ppo_mini_batch_size=4, ppo_micro_batch_size_per_gpu=4, use_dynamic_bsz=True
    )


def test_the_logger_is_one_of_verls(collector, monkeypatch):
    """`trainer.logger=["console","rlvitals"]` passes verl's own check, and steps arrive."""
    assert "rlvitals" in Tracking.supported_backend
    monkeypatch.setenv("RLVITALS_URL", collector.url)
    tracking = Tracking("project", "experiment", ["console", "rlvitals"], config={"seed": 1})
    tracking.log(data={"actor/entropy": 0.5}, step=4)
    tracking.finish() if hasattr(tracking, "finish") else tracking.logger["rlvitals"].finish()
    assert collector.records[0].scalars == {"entropy/mean": 0.5}
    assert {batch.run for batch in collector.batches} == {"experiment"}
    assert collector.batches[-1].end == "finished"


def test_another_logger_alone_is_left_alone():
    """Without our name in the list none of our objects is made."""
    assert list(Tracking("project", "experiment", "console").logger) == ["console"]
    assert adapter.VitalsLogger.current is None


@pytest.mark.parametrize("base", ["vanilla", "gspo", "clip_cov"])
def test_sums_leave_a_policy_loss_as_it_is(base, tokens, config):
    """Losses of verl's own give the same value and gradient, and ten more numbers."""
    original = get_policy_loss_fn(base)
    arguments = tokens | {"loss_agg_mode": "token-mean", "config": config}
    torch.manual_seed(0)
    loss, metrics = original(**arguments)
    torch.manual_seed(0)
    watched, more = with_sums(original, SUMS, guard)(**arguments)
    assert torch.equal(loss, watched)
    assert more.keys() - metrics.keys() == {SUMS + name for name in NAMES}
    assert more[SUMS + "tokens"] == 10


def preserved(tokens, **options):
    """Return `llds_loss` of all four responses, times the share of their ten tokens that is preserved."""
    arrays = tokens["log_prob"], tokens["old_log_prob"], tokens["response_mask"].bool(), tokens["advantages"][:, 0]
    return llds_loss(*arrays, **{"gate": "action"} | options).item() * 8 / 10


def loss_difference(name, base, tokens, config):
    """Return the difference of a registered loss from its base, and its metrics."""
    arguments = tokens | {"loss_agg_mode": "token-mean", "config": config}
    loss, metrics = get_policy_loss_fn(name)(**arguments)
    return (loss - get_policy_loss_fn(base)(**arguments)[0]).item(), metrics


def test_llds_is_vanilla_plus_lambda_times_our_penalty(tokens, config):
    """The registered loss equals verl's own plus 0.1 of `llds_loss`, times the share of preserved tokens."""
    assert preserved(tokens) > 0
    found, metrics = loss_difference("llds", "vanilla", tokens, config)
    assert found == pytest.approx(0.1 * preserved(tokens), rel=1e-4)
    assert metrics["actor/llds_loss"] == pytest.approx(preserved(tokens))


@pytest.mark.parametrize("rows", [1, 2, 4])
@pytest.mark.parametrize("ranks", [1, 2])
def test_llds_does_not_depend_on_how_a_minibatch_is_cut(ranks, rows, tokens, config):
    """Microbatches of one, two and four responses, also of two ranks whose gradients are averaged, add the same."""
    if not hasattr(config, "global_batch_info"):
        pytest.skip("verl 0.6 passes nothing of its minibatch to a policy loss")
    config.global_batch_info.update(dp_size=ranks, batch_num_tokens=10)
    parts = [{name: array[at : at + rows] for name, array in tokens.items()} for at in range(0, 4, rows)]
    found = sum(loss_difference("llds", "vanilla", part, config)[0] for part in parts) / ranks
    assert found == pytest.approx(0.1 * preserved(tokens), rel=1e-4)


@pytest.mark.parametrize("gate", ["response", "action", "none"])
@pytest.mark.parametrize("base", ["vanilla", "gspo"])
def test_llds_can_be_registered_with_another_weight_gate_and_base(gate, base, tokens, config):
    """The loss is the base plus λ times `llds_loss` with this gate, times the share of preserved tokens."""
    register_llds("mine", coef=0.5, gate=gate, base=base)
    assert loss_difference("mine", base, tokens, config)[0] == pytest.approx(
        0.5 * preserved(tokens, gate=gate), rel=1e-4
    )


def test_llds_ma_leaves_the_last_action_out(tokens, config):
    """With answer_weight 0 the last action of a response with several is not penalised."""
    register_llds("masked", answer_weight=0.0)
    expected = preserved(tokens, answer_mask=last_actions(tokens["response_mask"].bool()))
    assert loss_difference("masked", "vanilla", tokens, config)[0] == pytest.approx(0.1 * expected, rel=1e-4)


@pytest.fixture
def held():
    """The contents of the new trainer's queue: two responses, and a row that fills the batch up."""
    held = TensorDict(
        {
            "responses": torch.tensor([[5, 6], [7, 8], [0, 0]]),
            "response_mask": torch.tensor([[1, 1], [1, 0], [1, 1]]),
            "old_log_probs": torch.tensor([[-1.0, -3.0], [-4.0, 0.0], [-9.0, -9.0]]),
            "advantages": torch.tensor([[1.0, 1.0], [-1.0, -1.0], [0.0, 0.0]]),
            "rm_scores": torch.tensor([[0.0, 1.0], [0.0, 0.0], [9.0, 9.0]]),
        },
        batch_size=3,
    )
    held.to_padded_tensor = lambda: held
    return held


@pytest.fixture
def end_of_step(held, connect, collector, monkeypatch):
    """A function that has the new trainer make a step's metrics and gives the summaries that arrived."""

    def kv_batch_get(*, keys, partition_id, select_fields):
        """Refuse keys that are not held, as the queue does."""
        assert (len(keys), partition_id) == (3, "train")
        missing = set(select_fields) - set(held.keys())
        if missing:
            raise KeyError(missing)
        return held

    batch = SimpleNamespace(
        keys=["q_0_0", "q_1_0", "pad_0_0"], partition_id="train", tags=[{}, {}, {"is_padding": True}]
    )
    monkeypatch.setattr(trainer_base, "tq", SimpleNamespace(kv_batch_get=kv_batch_get))
    monitor = connect()
    logger = adapter.VitalsLogger("project", "run", monitor=monitor)

    def end_of_step():
        with pytest.raises(AttributeError):  # the original goes on and finds no configuration
            trainer_base.PPOTrainer._compute_metrics(SimpleNamespace(), batch, {}, {}, 1, 0)
        logger.log(data={}, step=1)
        assert monitor.flush(PATIENCE_SECONDS)
        return collector.records[-1].summaries

    return end_of_step


@pytest.mark.skipif(trainer_base is None, reason="this verl has the legacy trainer alone")
def test_the_trainers_tokens_reach_the_logger(held, end_of_step):
    """The new PPOTrainer: the wrapped method reads the queue, leaves padding rows out, and calls the original."""
    summaries = end_of_step()
    assert summaries["reward/mean"].value() == 0.5
    assert summaries["likelihood/correct"].value() == -2
    assert summaries["likelihood/incorrect"].value() == -4
    assert summaries["length/mean"].value() == 1.5
    held["entropy"], held["rollout_log_probs"] = -held["old_log_probs"], held["old_log_probs"] - 1
    held["ref_log_prob"] = held["old_log_probs"] - math.log(2)
    assert end_of_step()["kl/ref"].value() == pytest.approx(math.log(2) - 0.5)


def reject(correction, tensors):
    """Have verl reject tokens whose ratio to the sampler's is not about 1, and return its batch."""
    settings = {"rollout_rs": "token_k1", "rollout_rs_threshold": "0.5_2.0"}
    if not hasattr(rollout_corr_helper, "SUPPORTED_ROLLOUT_RS_OPTIONS"):  # verl 0.6
        settings = {"rollout_rs": "token", "rollout_rs_threshold": 2.0, "rollout_rs_threshold_lower": 0.5}
    return correction(DataProto.from_dict(tensors=tensors), settings)[0]


@pytest.mark.skipif(trainer_base is None, reason="this verl has the legacy trainer alone")
def test_the_mismatch_is_not_observed_where_the_sampler_scores_for_the_trainer(held, end_of_step, caplog):
    """The bypass mode of verl has one array in both places, from which the mismatch would be 0, also beside a NaN."""
    held["old_log_probs"][1, 1] = float("nan")
    held["rollout_log_probs"] = held["old_log_probs"].clone()
    for _ in range(2):
        summaries = end_of_step()
        assert summaries["likelihood/correct"].value() == -2
        assert not any(name.startswith("mismatch/") for name in summaries)
    assert [record.message for record in caplog.records if "bypass_mode" in record.message] == [
        f"rlvitals: {NO_TRAINER_SCORES}"
    ]
    held["rollout_log_probs"][0, 1] -= 3
    assert end_of_step()["mismatch/logprob_abs"].value() == 1


@pytest.mark.skipif(trainer_base is None, reason="this verl has the legacy trainer alone")
def test_tokens_that_the_new_trainer_rejects_were_sampled_all_the_same(held, end_of_step):
    """The loss leaves them out, and verl writes that over the mask before its metrics are made."""
    scores = {"old_log_probs": held["old_log_probs"], "rollout_log_probs": held["old_log_probs"].clone()}
    scores["rollout_log_probs"][0, 1] = -9.0
    mask = {"response_mask": held["response_mask"]}
    batch = reject(trainer_base.compute_rollout_correction_and_add_to_batch, scores | mask)
    held["response_mask"] = batch.batch["response_mask"]
    assert held["response_mask"][0].tolist() == [1, 0]
    held["rollout_log_probs"] = scores["rollout_log_probs"]
    summaries = end_of_step()
    assert summaries["likelihood/correct"].value() == -2
    assert summaries["length/mean"].value() == 1.5
    # 0, 6 and 0.
    assert summaries["mismatch/logprob_abs"].value() == 2
    # Another step's mask is its own.
    held["response_mask"] = torch.tensor([[1, 0], [1, 0], [1, 1]])
    assert end_of_step()["likelihood/correct"].value() == -1


@pytest.mark.parametrize("is_rejecting", [False, True])
def test_the_legacy_trainers_tokens_reach_the_logger(is_rejecting, connect, collector):
    """RayPPOTrainer: the function that sums a batch up is wrapped where the trainer looks for it, after rejection."""
    monitor = connect()
    logger = adapter.VitalsLogger("project", "run", monitor=monitor)
    batch = DataProto.from_dict(
        tensors={
            "prompts": torch.ones(2, 1, dtype=torch.long),
            "responses": torch.tensor([[5, 6], [7, 8]]),
            "attention_mask": torch.ones(2, 3, dtype=torch.long),
            "response_mask": torch.tensor([[1, 1], [1, 0]]),
            "old_log_probs": torch.tensor([[-1.0, -3.0], [-4.0, 0.0]]),
            "rollout_log_probs": torch.tensor([[-1.0, -9.0], [-4.0, 0.0]]),
            "advantages": torch.tensor([[1.0, 1.0], [-1.0, -1.0]]),
            "returns": torch.zeros(2, 2),
            "token_level_scores": torch.tensor([[0.0, 1.0], [0.0, 0.0]]),
            "token_level_rewards": torch.tensor([[0.0, 1.0], [0.0, 0.0]]),
        },
        non_tensors={"uid": np.array(["q", "q"], dtype=object)},
    )
    if is_rejecting:
        whole = {name: batch.batch[name] for name in ("old_log_probs", "rollout_log_probs", "response_mask")}
        kept = reject(rollout_corr_helper.compute_rollout_correction_and_add_to_batch, whole)
        batch.batch["response_mask"] = kept.batch["response_mask"]
        assert batch.batch["response_mask"].tolist() == [[1, 0], [1, 0]]
    metrics = ray_trainer.compute_data_metrics(batch=batch, use_critic=False)
    assert metrics["critic/score/mean"] == 0.5
    logger.log(data=metrics, step=1)
    assert monitor.flush(PATIENCE_SECONDS)
    summaries = collector.records[0].summaries
    assert summaries["reward/zero_std_frac"].value() == 0
    responses = [decode_response(bytes(raw)) for raw in collector.records[0].responses]
    assert sorted(response.mismatches.to_numpy().tolist() for response in responses) == [[0], [0, 6]]
    assert summaries["likelihood/correct"].value() == -2
