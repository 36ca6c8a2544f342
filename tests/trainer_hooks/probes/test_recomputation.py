import random

import numpy as np
import pytest
import torch
from torch._dynamo.testing import CompileCounter
from transformers import Qwen2Config, Qwen2ForCausalLM

from tests.live import PATIENCE_SECONDS
from trainer_hooks import RolloutsError
from trainer_hooks.arrays.torch_backend import DeviceArrays
from trainer_hooks.probes.expected_mask import TurnGrammar
from trainer_hooks.probes.recomputation import RecomputationProbe, ReportedResponses, recompute
from trainer_hooks.probes.recomputed import Recomputed
from trainer_hooks.signals import fetch, finish_summaries
from trainer_hooks.signals.families import instrument

END, PADDING, PROMPT = 1, 0, 3
NOISE = 1e-5  # nats; float32 has a relative precision of 6e-8, and a log-probability here is about 4


@pytest.fixture
def model():
    """Return a random Qwen2 of two layers whose distributions are far from uniform, in training mode."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    built = Qwen2ForCausalLM(Qwen2Config(vocab_size=24, num_key_value_heads=1, max_position_embeddings=64, **sizes))
    with torch.no_grad():
        built.lm_head.weight.normal_(std=1.0)
    return built.train()


def responses(model, *, temperature=1.0):
    """Return two responses with what a correct trainer reports: prompts padded at the front, responses at the end."""
    tokens = torch.tensor([[PADDING, 5, 6, 7, 8, 9, 10, END, PADDING], [4, 5, 6, 11, 12, 13, 14, 15, END]])
    attention = torch.tensor([[0, 1, 1, 1, 1, 1, 1, 1, 0], [1] * 9])
    mask = torch.tensor([[0, 0, 0, 1, 1, 1, 1, 1, 0], [0, 0, 0, 1, 1, 1, 1, 1, 1]])
    with torch.no_grad():
        logits = model(input_ids=tokens, attention_mask=attention).logits / temperature
    table = logits.log_softmax(-1)
    logprobs, entropies = torch.zeros(2, 9), torch.zeros(2, 9)
    logprobs[:, 1:] = table[:, :-1].gather(2, tokens[:, 1:, None])[:, :, 0]
    entropies[:, 1:] = -(table.exp() * table).sum(-1)[:, :-1]
    return ReportedResponses(
        tokens,
        mask,
        logprobs,
        entropies,
        attention=attention,
        prompt_lengths=torch.tensor([PROMPT, PROMPT]),
        grammar=TurnGrammar(ends={END}, padding=PADDING),
    )


def signals(scores):
    """Return the signals as the collector would show them."""
    found = [item for each in scores for item in instrument.compute(each).items()]
    here = [fetch(scores[0].library, [part])[0] for _, part in found]
    named = zip([name for name, _ in found], here, strict=True)
    return {name: summary.value() for name, summary in finish_summaries(named).items()}


def test_what_a_correct_trainer_reports_differs_by_rounding(model):
    """Log-probabilities and entropies of a correct trainer are found again, and so is its mask."""
    found = signals(recompute(model, responses(model)))
    assert 0 <= found["instrument/logprob_abs"] <= found["instrument/logprob_max"] < NOISE
    assert found["instrument/entropy_abs"] < NOISE
    assert found["instrument/mask_frac"] == 0


def test_numbers_at_a_temperature_are_found_again_at_that_temperature(model):
    """The temperature of the trainer is the one of the comparison, and another one is a gap."""
    reported = responses(model, temperature=0.7)
    assert signals(recompute(model, reported._replace(temperature=0.7)))["instrument/logprob_abs"] < NOISE
    found = signals(recompute(model, reported))
    assert found["instrument/logprob_abs"] > 0.1
    assert found["instrument/entropy_abs"] > 0.1


def test_scores_of_stale_weights_are_a_gap(model):
    """Numbers from before an update differ from those of the weights after it, and the mask is still right."""
    reported = responses(model)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.1 * torch.randn_like(weight))
    found = signals(recompute(model, reported))
    assert found["instrument/logprob_abs"] > 0.1
    assert found["instrument/mask_frac"] == 0


def test_a_shifted_mask_is_found_without_its_log_probabilities(model):
    """A mask that is one token late covers another token at each end: 2 of 6 and 2 of 7 tokens disagree."""
    reported = responses(model)
    found = signals(recompute(model, reported._replace(mask=reported.mask.roll(1, dims=1) * reported.attention)))
    # Row 1: the first token is lost, padding is no token. Row 2: the first token is lost.
    assert found["instrument/mask_frac"] == pytest.approx(2 / 11)
    assert found["instrument/logprob_abs"] < NOISE


def test_log_probabilities_that_are_shifted_by_a_token_are_a_gap(model):
    """The numbers of the token before are those of another token."""
    reported = responses(model)
    found = signals(recompute(model, reported._replace(logprobs=reported.logprobs.roll(1, dims=1))))
    assert found["instrument/logprob_abs"] > 0.5


def test_old_log_probabilities_are_compared_too(model):
    """A gap of the old log-probabilities alone is half of the mean over both."""
    reported = responses(model)
    found = signals(recompute(model, reported._replace(old_logprobs=reported.logprobs + 0.5)))
    assert found["instrument/logprob_abs"] == pytest.approx(0.25, abs=NOISE)
    assert found["instrument/logprob_max"] == pytest.approx(0.5, abs=NOISE)


def test_what_cannot_be_computed_is_absent(model):
    """Without entropies and a grammar their signals are absent, and without a masked token all of them are."""
    reported = responses(model)._replace(entropies=None, grammar=None)
    assert signals(recompute(model, reported)).keys() == {"instrument/logprob_abs", "instrument/logprob_max"}
    assert signals(recompute(model, reported._replace(mask=torch.zeros(2, 9)))) == {}


def test_a_response_that_is_left_out_on_purpose_has_no_wrong_mask(model):
    """A response without any masked token, as trainers leave truncated ones out, is not compared."""
    reported = responses(model)
    found = signals(recompute(model, reported._replace(mask=reported.mask * torch.tensor([[1], [0]]))))
    assert found["instrument/mask_frac"] == 0


def test_a_long_response_is_cut(model):
    """With five tokens a row only the tokens before the cut are compared, and padding at the front does not count."""
    (scores,) = recompute(model, responses(model), most_tokens=5)
    assert scores.mask.shape == (2, 4)
    assert scores.mask.sum() == 3 + 2
    assert signals([scores])["instrument/logprob_abs"] < NOISE


def test_a_device_gives_the_same_signals(model):
    """On an accelerator's library the four signals are those of the host."""
    (scores,) = recompute(model, responses(model, temperature=0.7))
    given = [torch.tensor(part) for part in (*scores.reported, *scores.again, scores.mask, scores.expected_mask)]
    device = Recomputed(
        (given[0], given[1]),
        (given[2], given[3]),
        mask=given[4],
        expected_mask=given[5],
        library=DeviceArrays(torch.device("cpu")),
    )
    assert signals([device]) == pytest.approx(signals([scores]))


def test_it_leaves_no_trace(model):
    """Modes of modules, gradients, random generators, autocast and weights are the same afterwards."""
    model.model.norm.eval()
    modes = [module.training for module in model.modules()]
    before = [weight.detach().clone() for weight in model.parameters()]
    state, drawn = torch.get_rng_state(), []
    others = random.getstate(), str(np.random.get_state())  # noqa: NPY002

    def forward(tokens, attention):
        drawn.append((torch.rand(1), random.random(), np.random.rand()))  # noqa: NPY002, S311 - as models draw
        assert not model.training
        return model(input_ids=tokens, attention_mask=attention).logits

    reported = responses(model)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        (scores,) = RecomputationProbe(1).recompute(model, reported, forward=forward)
        # A weight that autocast had cast without gradients would now give none.
        model(input_ids=reported.tokens).logits.sum().backward()
    assert drawn
    assert torch.equal(state, torch.get_rng_state())
    assert others == (random.getstate(), str(np.random.get_state()))  # noqa: NPY002
    assert [module.training for module in model.modules()] == modes
    assert torch.is_autocast_cache_enabled()
    assert all(torch.equal(*pair) for pair in zip(before, model.parameters(), strict=True))
    assert all(weight.grad is not None for weight in model.parameters())
    # bfloat16 keeps 8 bits: a logit of up to 4 is rounded by up to 2⁻⁷ of a nat.
    assert 1e-5 < signals([scores])["instrument/logprob_abs"] < 0.05


def test_a_module_that_changes_weights_with_its_mode_is_not_told(model):
    """A module whose `train` rounds its weights, as one that merges adapters does, keeps them to the last bit."""

    class Merging(torch.nn.Linear):
        def train(self, *mode):
            with torch.no_grad():
                self.weight.add_(1e-3 if all(mode) else -1e-3)
            return super().train(*mode)

    model.extra = Merging(2, 2)
    before = model.extra.weight.detach().clone()
    assert len(recompute(model, responses(model))) == 1
    assert torch.equal(model.extra.weight, before)
    assert model.extra.training


def test_rounding_of_bfloat16_stays_below_the_bound_of_the_detector(model):
    """With logits above 32 and a softmax in bfloat16 the mean gaps of both are below 0.05 nat."""
    with torch.no_grad():
        model.lm_head.weight.mul_(4)

    def forward(tokens, attention):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return model(input_ids=tokens, attention_mask=attention).logits

    reported = responses(model)
    with torch.no_grad():
        logits = forward(reported.tokens, reported.attention).bfloat16()
    assert logits.abs().max() > 32
    table = logits.log_softmax(-1)
    logprobs = torch.nn.functional.pad(table[:, :-1].gather(2, reported.tokens[:, 1:, None])[:, :, 0], (1, 0))
    entropies = torch.nn.functional.pad(-(table.exp() * table).sum(-1)[:, :-1], (1, 0))
    given = reported._replace(logprobs=logprobs, entropies=entropies)
    found = signals(recompute(model, given, forward=forward))
    assert 0 < found["instrument/logprob_abs"] < 0.05
    assert 0 < found["instrument/entropy_abs"] < 0.05


@pytest.mark.parametrize("setting", ["attention_dropout", "module"])
def test_a_model_with_active_dropout_is_not_observed(setting, model, caplog):
    """Numbers with dropout cannot be computed again: there is no signal, and one warning."""
    if setting == "module":
        model.extra = torch.nn.Dropout(0.1)
    else:
        model.model.layers[0].self_attn.attention_dropout = 0.1
    probe = RecomputationProbe(1)
    assert probe.recompute(model, responses(model)) == []
    assert probe.recompute(model, responses(model)) == []
    assert caplog.text.count("active dropout") == 1
    assert len(probe.recompute(model.eval(), responses(model))) == 1


def test_a_flag_that_is_named_as_a_rate_of_dropout_hides_nothing(model):
    """A module with `use_dropout = True` and a rate of 0 drops nothing."""
    model.model.layers[0].self_attn.use_dropout = True
    assert len(RecomputationProbe(1).recompute(model, responses(model))) == 1


def test_an_error_is_counted_and_not_raised(model, connect, collector, swallowed):
    """Arrays that contradict each other cost the comparison alone, and a monitor counts the error."""
    monitor = connect()
    probe = RecomputationProbe(2, on_error=monitor.drops.count_error)
    assert [step for step in range(1, 7) if probe.is_due(step)] == [2, 4, 6]
    wrong = responses(model)._replace(logprobs=torch.zeros(2, 3))
    monitor.log_step(2, {"lr": 0.1}, recomputed=probe.recompute(model, wrong))
    monitor.log_step(4, {"lr": 0.1}, recomputed=probe.recompute(model, responses(model)))
    assert monitor.flush(PATIENCE_SECONDS)
    first, second = collector.records
    assert first.summaries["hooks/internal_errors"].value() == 1
    assert "instrument/logprob_abs" not in first.summaries
    assert second.summaries["instrument/logprob_abs"].value() < NOISE
    assert collector.batches[-1].capability == "L1"
    swallowed.clear()
    with pytest.raises(RolloutsError, match=r"logprobs must have the shape of tokens \(2, 9\), got \(2, 3\)"):
        recompute(model, wrong)


def test_at_most_the_given_number_of_responses_is_computed_and_they_change(model):
    """With one response at a time the first comparison is of the first response, and the second of the second."""
    probe, sizes = RecomputationProbe(1, responses=1), []
    for _ in range(2):
        (scores,) = probe.recompute(model, responses(model))
        sizes.append(int(scores.mask.sum()))
    assert sizes == [5, 6]


def test_as_many_responses_as_a_bound_without_meaning_take_no_time(model):
    """A bound far above the number of responses means all of them; a loop up to it would last hours."""
    (scores,) = RecomputationProbe(1, responses=10**12).recompute(model, responses(model))
    assert len(scores.mask) == 2


def test_a_compiled_model_is_not_compiled_for_a_recomputation(model):
    """Another compilation takes minutes, and after a few of them torch leaves the training uncompiled."""
    reported, compilations = responses(model), CompileCounter()
    compiled = torch.compile(model, backend=compilations)

    def train():
        compiled(input_ids=reported.tokens).logits.sum().backward()

    train()
    before = compilations.frame_count
    (scores,) = RecomputationProbe(1).recompute(compiled, reported)
    train()
    assert compilations.frame_count == before
    assert signals([scores])["instrument/logprob_abs"] < NOISE


def test_an_id_that_no_model_has_is_refused_before_the_model_sees_it(model):
    """Labels with -100 in place of padding would end an accelerator's process; with attention they are not read."""
    seen, errors = [], []
    probe = RecomputationProbe(1, on_error=errors.append)

    def forward(tokens, attention):
        seen.append(tokens)
        return model(input_ids=tokens, attention_mask=attention).logits

    reported = responses(model)
    labels = reported._replace(tokens=torch.where(reported.attention.bool(), reported.tokens, -100))
    assert len(probe.recompute(model, labels, forward=forward)) == 1
    assert probe.recompute(model, labels._replace(attention=None), forward=forward) == []
    assert len(seen) == 1
    assert "token ids must be at least 0, got -100" in str(errors[0])


def test_a_response_without_a_token_of_the_policy_still_has_one_that_is_attended_to(model):
    """Attention to nothing is NaN for some kernels and an error for others."""
    seen = []

    def forward(tokens, attention):
        seen.append(attention)
        return model(input_ids=tokens, attention_mask=attention).logits

    reported = responses(model)._replace(mask=torch.zeros(2, 9), grammar=None)
    assert signals(RecomputationProbe(1).recompute(model, reported, forward=forward)) == {}
    assert seen[0].sum(1).tolist() == [1, 1]


def test_no_responses_are_nothing_to_compare_and_no_error(model):
    """A rank whose batch is empty has an empty comparison."""
    errors = []
    none = ReportedResponses(torch.zeros(0, 9, dtype=torch.long), torch.zeros(0, 9), torch.zeros(0, 9))
    assert RecomputationProbe(1, on_error=errors.append).recompute(model, none) == []
    assert errors == []


@pytest.mark.parametrize("bound", ["every", "responses", "tokens"])
def test_a_bound_that_is_too_small_is_refused(bound):
    """The error's message has the bound and the value."""
    with pytest.raises(ValueError, match=f"{bound} must be at least [12], got 0"):
        RecomputationProbe(**{"every": 1, bound: 0})


def test_turns_after_feedback_and_turns_without_an_end_are_found():
    """Feedback lasts until the policy is given the turn again, and a turn ends at its longest length."""
    grammar = TurnGrammar(ends={1}, resumes=(5, 6), longest_turn=3)
    # A turn of two tokens, feedback with half of the mark, the mark, and a turn that is cut after three tokens.
    assert grammar.mask_of([7, 1, 5, 9, 5, 6, 8, 8, 8, 2]) == [True] * 2 + [False] * 4 + [True] * 3 + [False]
    assert TurnGrammar(ends={1}).mask_of([7, 1, 5, 6]) == [True, True, False, False]
    assert TurnGrammar(ends={0}, padding=0).mask_of([7, 0, 0]) == [True, True, False]
    assert TurnGrammar(ends={1}, padding=0).mask_of([]) == []
