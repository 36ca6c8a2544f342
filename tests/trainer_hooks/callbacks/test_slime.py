import sys
from enum import Enum
from types import ModuleType, SimpleNamespace

import pytest
import torch

from tests.fresh_slime import fresh_slime
from trainer_hooks.callbacks import slime
from trainer_hooks.callbacks.shared.sample_lists import pad

# The batch of a data-parallel rank before training, packed in another order than the rollout's: samples 3 and 0 of 4.
SHARE = {
    "tokens": [[9, 9, 4, 5, 6], [9, 7]],
    "response_lengths": [3, 1],
    "loss_masks": [torch.tensor([1, 0, 1]), torch.tensor([1])],
    "log_probs": [torch.tensor([-1.0, -50.0, -3.0]), torch.tensor([-4.0])],
    "rollout_log_probs": [torch.tensor([-1.5, -50.0, -3.5]), torch.tensor([-4.5])],
    "advantages": [torch.ones(3), -torch.ones(1)],
    "rewards": [1.0, 0.0],
    "raw_reward": [0.0, 0.0, 1.0, 1.0],
    "sample_indices": [11, 8],
}
PPO = {"advantage_estimator": "ppo", "rewards_normalization": True}
GRPO = {"advantage_estimator": "grpo", "rewards_normalization": True}


@pytest.fixture(autouse=True)
def close_monitors():
    """Reset the module to its state before the first rollout, and return what closes the monitors of a test."""
    with fresh_slime() as (_, close):
        yield close


@pytest.fixture
def collected(collector, monkeypatch):
    """Return a function that passes a rank's rollout to the hook and returns the records that have arrived since."""
    monkeypatch.setenv("RLVITALS_URL", collector.url)
    monkeypatch.setenv("RLVITALS_RUN", "r1")
    monkeypatch.setenv("RLVITALS_ATTEMPT", "7")

    def collected(data, options=PPO, *, rollouts=1, **place):
        seen = len(collector.records)
        if place:
            monkeypatch.setitem(sys.modules, "megatron.core.parallel_state", megatron(**place))
        with fresh_slime() as (first, _):
            for rollout in range(6, 6 + rollouts):
                first.watch(SimpleNamespace(lr=1e-6, wandb_key="a secret", **options), rollout, data)
        return collector.records[seen:]

    return collected


def megatron(*, tp=0, pp=(0, 1), cp=(0, 1), dp=(0, 1)):
    """Return a stand-in for Megatron's parallel_state on one rank; pairs are the rank and the size."""
    state = ModuleType("megatron.core.parallel_state")
    state.model_parallel_is_initialized = lambda: True
    state.get_tensor_model_parallel_rank = lambda: tp
    state.is_pipeline_last_stage = lambda ignore_virtual: ignore_virtual and pp[0] == pp[1] - 1
    state.get_context_parallel_rank, state.get_context_parallel_world_size = lambda: cp[0], lambda: cp[1]
    state.get_data_parallel_rank = lambda with_context_parallel: with_context_parallel or dp[0]
    state.get_data_parallel_world_size = lambda with_context_parallel: with_context_parallel or dp[1]
    return state


def response_signals(record):
    """Return the signals of a record, except those of our own cost and losses."""
    signals = record.scalars | record.summaries
    return {name: value for name, value in signals.items() if not name.startswith(("hooks/", "finite/"))}


def test_a_share_of_a_rollout_becomes_a_step(collected):
    """Lists of different lengths are padded, masked tokens are feedback, and rollout n is step n + 1."""
    (record,) = collected(SHARE)
    assert record.step == 7
    # (−1 − 3) / 2 and −4; each 0.5 away from the sampler.
    assert record.summaries["likelihood/correct"].value() == -2
    assert record.summaries["likelihood/incorrect"].value() == -4
    assert record.summaries["mismatch/logprob_abs"].value() == pytest.approx(0.5)
    assert record.summaries["reward/mean"].value() == 0.5


def test_the_first_batch_says_how_much_is_seen_and_holds_no_secret(collected, collector):
    """The level is L2, for tokens of the rollout only, and the configuration has no keys of other services."""
    collected(SHARE)
    first = next(batch for batch in collector.batches if batch.records)
    assert first.capability == "L2"
    assert {batch.config["lr"] for batch in collector.batches if batch.config} == {1e-6}
    assert "a secret" not in str([batch.config for batch in collector.batches])


def test_data_parallel_ranks_stream_their_shares(collected, collector, steps):
    """Rank and number of ranks are those of data parallelism, so a step is complete when all shares have arrived."""
    other = SHARE | {"rewards": [1.0, 1.0], "log_probs": [torch.full((3,), -6.0), torch.tensor([-6.0])]}
    collected(SHARE, dp=(0, 2), tp=0)
    collected(other, dp=(1, 2), tp=0)
    assert {(batch.rank, batch.world_size) for batch in collector.batches} == {(0, 2), (1, 2)}
    # −1 and −3 of the first share, three times −6 of the second.
    assert steps()[7]["likelihood/correct"] == pytest.approx((-1 - 3 - 3 * 6) / 5)
    assert steps()[7]["reward/mean"] == 0.75


@pytest.mark.parametrize("place", [{"tp": 1}, {"pp": (0, 2)}, {"cp": (1, 2)}], ids=str)
def test_ranks_with_the_same_responses_are_silent(place, collected, collector):
    """Tensor-parallel rank 0 of the last stage sends, as in slime's own logging."""
    without = {name: rows for name, rows in SHARE.items() if name != "log_probs"}
    assert collected(without, **place) == collector.batches == []


def test_the_last_stage_of_the_pipeline_sends(collected, collector):
    """Only the last stage has the trainer's log-probabilities, so it sends as the only rank."""
    (record,) = collected(SHARE, pp=(1, 2))
    assert record.summaries["likelihood/correct"].value() == -2
    assert {(batch.rank, batch.world_size) for batch in collector.batches} == {(0, 1)}


def test_context_parallelism_is_refused_aloud_once(collected, caplog):
    """Only the mean reward is sent, because a rank has only parts of the responses' log-probabilities."""
    sliced = SHARE | {"log_probs": [torch.tensor([-1.0]), torch.tensor([])]}
    _, record = collected(sliced, rollouts=2, cp=(0, 2))
    assert response_signals(record) == {"reward/mean": 0.5}
    assert caplog.messages == [f"rlvitals: {slime.CONTEXT_PARALLEL}"]


def test_log_probabilities_of_a_part_of_a_response_are_no_zeros(collected, caplog):
    """Log-probabilities of a part of a response are not sent: values filled with 0 would mean a probability of 1."""
    short = SHARE | {"log_probs": [torch.tensor([-1.0]), torch.tensor([-4.0])], "rollout_log_probs": [[-1.0], [-4.0]]}
    (record,) = collected(short)
    assert "likelihood/correct" not in record.summaries
    assert caplog.messages == [f"rlvitals: {slime.NO_LOGPROBS}"]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (GRPO, "normalised by their group"),
        (GRPO | {"rewards_normalization": False, "custom_reward_post_process_path": "mine"}, "made into others"),
        ({}, "of an estimator that is not known"),
    ],
)
def test_normalised_rewards_are_never_taken_for_rewards(options, reason, collected, caplog):
    """Only the mean of the raw rewards is sent, because it is not known which of them are this rank's."""
    (record,) = collected(SHARE | {"rewards": [0.7, -0.7]}, options)
    assert response_signals(record) == {"reward/mean": 0.5}, reason
    assert caplog.messages == [f"rlvitals: {slime.NO_RAW_REWARDS}"]


def test_raw_rewards_are_taken_where_they_are_those_of_these_responses(collected):
    """Raw rewards are used where one rank has all responses in the rollout's order, and not in another order."""
    whole = SHARE | {"rewards": [0.7, -0.7], "raw_reward": [1.0, 0.0], "sample_indices": [8, 9]}
    (record,) = collected(whole, GRPO)
    assert record.summaries["likelihood/correct"].value() == -2
    (record,) = collected(whole | {"sample_indices": [9, 8]}, GRPO)
    assert response_signals(record) == {"reward/mean": 0.5}


def test_the_samplers_log_probabilities_stand_in_but_are_no_match_of_themselves(collected):
    """The sampler's log-probabilities replace the policy's where these are absent, and no mismatch is sent."""
    (record,) = collected({name: values for name, values in SHARE.items() if name != "log_probs"})
    assert record.summaries["likelihood/correct"].value() == -2.5
    assert "mismatch/logprob_abs" not in record.summaries


def test_without_log_probabilities_the_step_still_counts(collected):
    """The step has no token signals, and no error is raised."""
    (record,) = collected({"raw_reward": [1.0], "rewards": [1.0], "loss_masks": [[1]]})
    assert (record.step, record.scalars["reward/mean"]) == (7, 1)


@pytest.mark.parametrize("missing", ["RLVITALS_RUN", "RLVITALS_ATTEMPT"])
def test_what_cannot_be_connected_is_reported_and_slime_trains_on(missing, collected, collector, monkeypatch, caplog):
    """A connection that cannot work is logged and not raised, because slime calls the hook after the first rollout."""
    monkeypatch.delenv(missing)
    collected(SHARE, dp=(0, 2))
    slime.watch(SimpleNamespace(lr=1e-6, **PPO), 7, SHARE)
    assert collector.batches == []
    (message,) = caplog.messages
    assert f"set {missing}" in message


def test_a_slime_that_shows_nothing_is_reported(collector, monkeypatch, caplog, close_monitors):
    """A warning is logged for versions of early 2026, which call the hook with their arguments alone."""
    monkeypatch.setenv("RLVITALS_URL", collector.url)
    slime.watch(SimpleNamespace())
    close_monitors()
    assert caplog.messages == [f"rlvitals: {slime.NO_DATA}"]


class Status(Enum):
    """The states of a sample in slime."""

    COMPLETED = "completed"
    TRUNCATED = "truncated"


def sample(tokens, scores, reward, **fields):
    """A sample as slime's rollout manager passes it to its logging."""
    fields = {"loss_mask": None, "group_index": 5, "status": Status.COMPLETED} | fields
    score = lambda args: reward[args.reward_key] if args.reward_key else reward  # noqa: E731
    length = len(scores or fields["loss_mask"])
    return SimpleNamespace(
        tokens=tokens, rollout_log_probs=scores, response_length=length, get_reward_value=score, **fields
    )


@pytest.fixture
def logged(collector, monkeypatch, close_monitors):
    """Return a function that passes samples to the hook and returns the record that arrived."""
    monkeypatch.setenv("RLVITALS_URL", collector.url)
    # The process that makes rollouts may have any rank in its environment.
    monkeypatch.setenv("RANK", "3")

    def logged(samples, **options):
        args = SimpleNamespace(lr=1e-6, reward_key=None, **options)
        assert slime.watch_samples(6, args, samples, {"metric": 1.0}, 2.5) is False
        close_monitors()
        return collector.records[-1]

    return logged


SAMPLES = [
    sample([9, 9, 4, 5, 6], [-1.0, 0.0, -3.0], 1.0, loss_mask=[1, 0, 1]),
    sample([9, 7], [-4.0], 0.0, status=Status.TRUNCATED),
]


def test_samples_become_a_step_whatever_the_trainer_is_parallelised_by(logged, collector):
    """All responses are sent with their own rewards and groups, and slime continues with its own logging."""
    record = logged(SAMPLES, **GRPO)
    assert record.step == 7
    assert record.summaries["likelihood/correct"].value() == -2
    assert record.summaries["likelihood/incorrect"].value() == -4
    assert record.summaries["reward/zero_std_frac"].value() == 0
    assert record.summaries["length/truncated_frac"].value() == 0.5
    assert {(batch.rank, batch.world_size) for batch in collector.batches} == {(0, 1)}
    assert next(batch for batch in collector.batches if batch.records).capability == "L2"


def test_samples_without_log_probabilities_have_rewards(logged, caplog):
    """The mean reward is sent where the sampler returned no log-probabilities."""
    record = logged([*SAMPLES, sample([9, 7], None, 1.0, loss_mask=[1])])
    assert record.scalars["reward/mean"] == pytest.approx(2 / 3)
    assert caplog.messages == [f"rlvitals: {slime.NO_LOGPROBS}"]


def test_a_rollout_without_a_single_token_has_rewards(logged):
    """Where every response was aborted there are no token arrays, and the mean reward is sent."""
    record = logged([sample([9], None, 0.0, loss_mask=[]), sample([9], [], 1.0, loss_mask=[])], **GRPO)
    assert record.scalars["reward/mean"] == 0.5


def test_an_empty_sample_without_log_probabilities_costs_the_others_nothing(logged):
    """An aborted response has no token, and no list of their numbers."""
    record = logged([*SAMPLES, sample([9], None, 0.0, loss_mask=[])], **GRPO)
    assert record.summaries["likelihood/correct"].value() == -2


def test_samples_of_a_shape_that_we_do_not_know_reach_nobody(collector, monkeypatch, swallowed, close_monitors):
    """Samples of an unknown shape are not sent, and slime continues."""
    monkeypatch.setenv("RLVITALS_URL", collector.url)
    assert slime.watch_samples(0, SimpleNamespace(), [object()]) is False
    close_monitors()
    assert "get_reward_value" in str(swallowed.pop())


def test_nothing_is_read_where_nobody_listens(swallowed):
    """Without an address the hook does not read the samples."""
    assert slime.watch_samples(0, SimpleNamespace(), [object()]) is False
    slime.watch(SimpleNamespace(), 0, {"loss_masks": object()})
    assert swallowed == []


def test_rows_are_filled_up_to_the_longest():
    """Tensors in half precision and lists are padded in the same way."""
    assert pad([torch.tensor([1.0, 2.0], dtype=torch.bfloat16), [3]], fill=-1).tolist() == [[1, 2], [3, -1]]
