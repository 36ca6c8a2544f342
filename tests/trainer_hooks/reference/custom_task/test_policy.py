"""A model from a folder as a policy: sampling with feedback, statistics, and folders that hold no model."""

import shutil

import pytest
import torch

from tests.trainer_hooks.reference.custom_task.making import corpus, environment_of, questions
from trainer_hooks.reference.huggingface.policy import HuggingFacePolicy, load_tokenizer
from trainer_hooks.reference.policy import token_statistics as statistics
from trainer_hooks.reference.policy.token_statistics import token_statistics
from trainer_hooks.reference.updates.batch import answer_tokens


@pytest.fixture
def policy(taught_folder):
    return HuggingFacePolicy.load(taught_folder, context=160)


@pytest.fixture
def environment(tokenizer):
    return environment_of(tokenizer, corpus())


def sampled(policy, environment, *, group=4, seed=0):
    """Four responses to each question."""
    episodes = [environment.episode(question) for question in questions() for _ in range(group)]
    return policy.sample(environment, episodes, generator=torch.Generator().manual_seed(seed))


def test_the_mask_holds_sampled_tokens_and_never_prompt_or_feedback(policy, environment):
    """Replaying the mask's tokens through fresh episodes gives exactly the prompt and feedback in between."""
    rollout = sampled(policy, environment)
    assert 0 < rollout.rewards.mean() < 1
    assert sum(episode.tool_calls_valid for episode in rollout.episodes) > 12
    for row, played in enumerate(rollout.episodes):
        again = environment.episode(played.question)
        forced = list(again.prompt)
        for token, is_action in zip(rollout.tokens[row].tolist(), rollout.mask[row].tolist(), strict=True):
            if is_action:
                assert not forced
                forced = environment.feedback([again])[0] if again.step(token) else []
            elif forced:
                assert token == forced.pop(0)
            else:
                assert token == 0
        assert again.reward == rollout.rewards[row]
        assert bool(rollout.truncated[row]) is not again.is_over


def test_answer_tokens_are_action_tokens_of_responses_that_answer(policy, environment):
    """Every marked token is sampled, and every response that answered has some."""
    rollout = sampled(policy, environment)
    marked = answer_tokens(rollout)
    assert not (marked & ~rollout.mask).any()
    for row, episode in enumerate(rollout.episodes):
        assert marked[row].any() or episode.answer is None


def test_the_same_generator_samples_the_same_and_no_other_is_drawn_from(policy, environment):
    """Twice the same seed, the same tokens; the global generator stays."""
    before = torch.get_rng_state()
    one, two = sampled(policy, environment, seed=3), sampled(policy, environment, seed=3)
    assert torch.equal(one.tokens, two.tokens)
    assert torch.equal(before, torch.get_rng_state())


def test_a_context_that_is_too_short_cuts_the_response_and_says_so(taught_folder, environment):
    """The mark is set, nothing is earned, and no row is longer than the context."""
    rollout = sampled(HuggingFacePolicy.load(taught_folder, context=16), environment)
    assert rollout.tokens.shape[1] == 16
    assert rollout.truncated.all()
    assert not rollout.rewards.any()


def test_a_prompt_without_room_to_answer_is_refused(taught_folder, environment):
    """Both lengths stand in the message."""
    with pytest.raises(ValueError, match="leave room to answer in 4, got"):
        sampled(HuggingFacePolicy.load(taught_folder, context=4), environment)


def test_statistics_in_parts_are_those_of_the_whole(policy, environment, monkeypatch):
    """Log-probabilities, entropies and gradients agree with one projection of all positions."""
    rollout = sampled(policy, environment, group=1)
    found = []
    for most in (2**26, 2000):
        monkeypatch.setattr(statistics, "MOST_LOGITS", most)
        policy.zero_grad()
        logprobs, entropies = token_statistics(policy, rollout.tokens, rollout.mask)
        torch.autograd.backward(logprobs.sum())
        found.append([logprobs, entropies, *(weight.grad.clone() for weight in policy.parameters())])
    for whole, parts in zip(*found, strict=True):
        assert torch.allclose(whole, parts, atol=1e-4, rtol=1e-4)


def test_statistics_of_a_model_in_bfloat16_are_float32_and_near(taught_folder, policy, environment):
    """The same responses scored at both precisions: close, and never NaN."""
    rollout = sampled(policy, environment, group=1)
    half = HuggingFacePolicy.load(taught_folder, context=160, precision="bfloat16")
    with torch.no_grad():
        one, _ = token_statistics(policy, rollout.tokens, rollout.mask)
        two, entropies = token_statistics(half, rollout.tokens, rollout.mask)
    assert two.dtype == entropies.dtype == torch.float32
    assert two.isfinite().all()
    assert (one - two).abs()[rollout.mask].median() < 0.05


def test_a_folder_without_model_or_tokenizer_is_named(taught_folder, tmp_path):
    """The message names the missing one."""
    with pytest.raises(ValueError, match=r"nowhere must be a folder with a model"):
        HuggingFacePolicy.load(tmp_path / "nowhere", context=16)
    bare = tmp_path / "bare"
    bare.mkdir()
    for name in ("config.json", "model.safetensors"):
        shutil.copy(taught_folder / name, bare)
    HuggingFacePolicy.load(bare, context=16)
    with pytest.raises(ValueError, match=r"bare must hold a tokenizer beside the model"):
        load_tokenizer(bare)


@pytest.fixture
def less_precise_products():
    torch.set_float32_matmul_precision("medium")
    yield
    torch.set_float32_matmul_precision("highest")


@pytest.mark.usefixtures("less_precise_products")
def test_a_model_is_checked_in_full_precision_and_then_computes_as_chosen(taught_folder):
    """Two ways of computing logits differ by the rounding of bfloat16, on processors that multiply in it."""
    policy = HuggingFacePolicy.load(taught_folder, context=160)
    assert torch.get_float32_matmul_precision() == "medium"
    assert policy.vocabulary > 0
