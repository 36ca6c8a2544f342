"""The model, its cache, and sampling with feedback between actions."""

import random
from dataclasses import replace

import torch

from trainer_hooks.reference.builtin_task.environment import FactsEnvironment, vocabulary_of
from trainer_hooks.reference.builtin_task.episode import FactsEpisode
from trainer_hooks.reference.distributed import SINGLE_PROCESS, Ranks
from trainer_hooks.reference.policy.model import Cache, ModelShape, PolicyModel
from trainer_hooks.reference.policy.token_statistics import token_statistics
from trainer_hooks.reference.updates.batch import answer_tokens, prepare


def rollout_of(config, model, *, seed=0, rows=24):
    environment = FactsEnvironment(config)
    episodes = [environment.episode(question) for question in environment.held_out(random.Random(seed), rows)]
    return model.sample(environment, episodes, generator=torch.Generator().manual_seed(seed))


def test_decoding_with_the_cache_equals_the_full_forward():
    """One token at a time or all at once, with rows dropped on the way: the same logits to 1e-5."""
    torch.manual_seed(0)
    model = PolicyModel(ModelShape(vocabulary=30, positions=24, width=32, layers=2, heads=4)).eval()
    tokens = torch.randint(0, 30, (6, 24))
    with torch.no_grad():
        full = model.logits(model.hidden_states(tokens))
        cache, rows = Cache(model.shape, 6), torch.arange(6)
        for position in range(24):
            if position == 10:
                cache.keep(torch.tensor([0, 2, 5]))
                rows = rows[[0, 2, 5]]
            step = model.next_logits(tokens[rows, position], cache)
            assert torch.allclose(step, full[rows, position], atol=1e-5)


def test_log_probabilities_and_entropies_are_those_of_the_softmax(tiny, model):
    """Gathered statistics equal a plain log-softmax over all positions, and are 0 outside the mask."""
    rollout = rollout_of(tiny, model)
    with torch.no_grad():
        logprobs, entropies = token_statistics(model, rollout.tokens, rollout.mask)
        log_pi = model.logits(model.hidden_states(rollout.tokens))[:, :-1].log_softmax(dim=-1)
    chosen = log_pi.gather(2, rollout.tokens[:, 1:, None])[..., 0]
    entropy = -(log_pi.exp() * log_pi).sum(dim=-1)
    where = rollout.mask[:, 1:]
    assert torch.allclose(logprobs[:, 1:][where], chosen[where], atol=1e-5)
    assert torch.allclose(entropies[:, 1:][where], entropy[where], atol=1e-5)
    assert not logprobs[~rollout.mask].any()


def test_the_mask_holds_sampled_tokens_and_never_prompt_or_feedback(tiny, model):
    """Replaying the mask's tokens through fresh episodes gives exactly the prompt and feedback in between."""
    rollout = rollout_of(tiny, model)
    for row, played in enumerate(rollout.episodes):
        again = FactsEpisode(played.facts, played.question, played.max_actions, played.max_action_tokens, played.retry)
        forced = list(played.question.prompt)
        for token, is_action in zip(rollout.tokens[row].tolist(), rollout.mask[row].tolist(), strict=True):
            if is_action:
                assert not forced, "the policy spoke while prompt or feedback was due"
                forced = again.feedback() if again.step(token) else []
            elif forced:
                assert token == forced.pop(0)
            else:
                assert token == 0, "only padding may follow the end"
        assert again.reward == rollout.rewards[row]
        assert again.searches == played.searches


def test_the_same_generator_samples_the_same(tiny, model):
    """Sampling draws from the given generator and nothing else."""
    torch.manual_seed(1)
    one = rollout_of(tiny, model, seed=3)
    torch.manual_seed(2)
    before = torch.get_rng_state()
    two = rollout_of(tiny, model, seed=3)
    assert torch.equal(one.tokens, two.tokens)
    assert torch.equal(before, torch.get_rng_state())


def test_tokens_are_sampled_from_the_policy_at_temperature_one(tiny):
    """Frequencies of 4,000 first tokens match the model's probabilities within four standard errors."""
    torch.manual_seed(0)
    environment = FactsEnvironment(replace(tiny, entities=4))
    model = PolicyModel(ModelShape(len(environment.facts.vocabulary), positions=6, width=16, layers=1, heads=2)).eval()
    question = next(question for question in environment.questions if len(question.prompt) == 5)
    episodes = [environment.episode(question) for _ in range(4000)]
    rollout = model.sample(environment, episodes, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected = model.logits(model.hidden_states(torch.tensor([question.prompt])))[0, -1].softmax(dim=0)
    counted = torch.bincount(rollout.tokens[:, 5], minlength=len(expected)) / 4000
    error = (expected * (1 - expected) / 4000).sqrt()
    assert ((counted - expected).abs() < 4.5 * error + 1e-3).all()


def test_a_context_that_is_too_short_cuts_the_episode_and_says_so(tiny):
    """A model with room for the prompt and three tokens marks every response as truncated."""
    torch.manual_seed(0)
    model = PolicyModel(ModelShape(len(vocabulary_of(tiny)), positions=8, width=16, layers=1, heads=2)).eval()
    rollout = rollout_of(tiny, model, rows=4)
    assert rollout.tokens.shape[1] <= 8
    assert rollout.truncated.any()
    assert not rollout.rewards[rollout.truncated].any()


def test_minibatches_are_whole_groups_and_cover_the_batch(tiny, model):
    """Every response is in exactly one minibatch, with the rest of its group; the ratio starts at exactly 1."""
    rollout = rollout_of(tiny, model, rows=16)
    batch = prepare(model, rollout, tiny, generator=torch.Generator().manual_seed(0))
    assert sorted(torch.cat([part.rows for part in batch.minibatches]).tolist()) == list(range(16))
    for part in batch.minibatches:
        rows = part.rows
        groups = batch.group_ids[rows]
        assert part.tokens == batch.mask[rows].sum()
        assert part.preserved == batch.mask[rows][batch.advantages[rows] >= 0].sum()
        assert all((groups == group).sum() == 4 for group in groups.unique())
        logprobs, _ = token_statistics(model, batch.tokens[rows], batch.mask[rows])
        assert torch.equal(logprobs.detach(), batch.old_logprobs[rows])


def test_two_ranks_share_each_minibatch_in_whole_groups(tiny, model):
    """The ranks together keep the groups of one rank: the same minibatch for each, none twice, none lost."""
    rollout = rollout_of(tiny, model, rows=16)
    whole, first, second = (
        prepare(model, rollout, tiny, generator=torch.Generator().manual_seed(0), ranks=ranks)
        for ranks in (SINGLE_PROCESS, Dealt(0, 2), Dealt(1, 2))
    )
    for part, *shares in zip(whole.minibatches, first.minibatches, second.minibatches, strict=True):
        groups = [
            set(batch.group_ids[share.rows].tolist()) for batch, share in zip((first, second), shares, strict=True)
        ]
        assert groups[0].isdisjoint(groups[1])
        assert groups[0] | groups[1] == set(whole.group_ids[part.rows].tolist())
    for batch in (first, second):
        rows = torch.isin(whole.group_ids, batch.group_ids)
        assert torch.equal(whole.tokens[rows], batch.tokens)
        assert torch.equal(whole.advantages[rows], batch.advantages)


class Dealt(Ranks):
    """A rank that has a place and sums nothing: sharing out the prompts needs no other process."""

    def sum(self, tensor):
        """Return the own part."""
        return tensor


def test_answer_tokens_run_from_tag_to_tag(tiny, model):
    """Marked tokens are action tokens, begin with <answer>, and end with </answer> or the action."""
    rollout = rollout_of(tiny, model)
    marked = answer_tokens(rollout)
    mark = vocabulary_of(tiny).mark
    assert not (marked & ~rollout.mask).any()
    starts = marked.clone()
    starts[:, 1:] &= ~marked[:, :-1]
    assert (rollout.tokens[starts] == mark["<answer>"]).all()
    assert (marked | ~((rollout.tokens == mark["<answer>"]) & rollout.mask)).all()
