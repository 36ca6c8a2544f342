"""The contents of sampled responses; an invalid response costs only itself."""

import math
import random

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.live import PATIENCE_SECONDS
from tests.trainer_hooks.recording.two_groups import rollouts
from trainer_hooks import Rollouts
from trainer_hooks.errors import ConfigurationError
from trainer_hooks.recording.responses.sampler import ResponseSampler
from trainer_hooks.recording.responses.selection import select_rows
from trainer_hooks.settings import ConnectionSettings
from trainer_hooks.signals.action_tokens.tokens import ActionTokens
from trainer_hooks.wire import Receipt, decode_record, decode_response, encode

SEED = "1 0 0"
SAMPLER = ResponseSampler(count=6, max_bytes=1 << 20)


def sampled(given_, **options):
    settings = {"count": 6, "max_bytes": 1 << 20} | options
    found = ResponseSampler(**settings).sample(ActionTokens.of(given_), seed=SEED)
    return [decode_response(bytes(raw)) for raw in found.encoded]


def test_a_response_arrives_with_its_actions_and_numbers():
    """Actions are places within the sent tokens; sums are of the whole response."""
    first = sampled(rollouts())[0]
    assert first.kinds[0] == "displaced"
    assert first.actions.to_numpy().tolist() == [[0, 2], [3, 6]]
    assert first.token_ids.to_numpy().tolist() == [0, 1, 2, 3, 4, 5]
    assert first.logprobs.dtype == "float16"
    assert first.logprobs.to_numpy().shape == (5,)
    assert first.displacement == pytest.approx(5 * -0.2)
    assert first.logprob == pytest.approx(5 * -0.7)
    assert (first.length, first.group, first.correct, first.trained, first.advantage) == (5, 0, True, True, 0.0)


def test_a_response_has_the_gap_between_trainer_and_sampler_of_each_token():
    """−0.5 under the old policy less the sampler's; without an old policy −0.7 less the sampler's. NaN and Inf stay."""
    sampler = np.full((6, 6), -0.75)
    sampler[0] = [-1.0, -0.25, 0.0, math.nan, -math.inf, -0.5]  # the third token is feedback
    expected = [0.5, -0.25, math.nan, math.inf, 0.0]
    first = sampled(rollouts(sampler_logprobs=sampler))[0]
    assert first.mismatches.dtype == "float16"
    assert np.array_equal(first.mismatches.to_numpy(), expected, equal_nan=True)
    alone = next(r for r in sampled(rollouts(sampler_logprobs=sampler, old_logprobs=None)) if r.advantage == 0)
    assert np.allclose(alone.mismatches.to_numpy(), np.array(expected) - 0.2, atol=1e-3, equal_nan=True)


def test_what_is_not_given_costs_no_bytes():
    """Without the sampler's log-probabilities the bytes and the version are those of an earlier release."""
    plain = SAMPLER.sample(ActionTokens.of(rollouts()), seed=SEED)
    compared = SAMPLER.sample(ActionTokens.of(rollouts(sampler_logprobs=np.full((6, 6), -0.75))), seed=SEED)
    assert (plain.schema_version, compared.schema_version) == (2, 5)
    assert all(decode_response(bytes(raw)).mismatches is not None for raw in compared.encoded)
    stripped = [msgspec.structs.replace(decode_response(bytes(raw)), mismatches=None) for raw in compared.encoded]
    assert [encode(response) for response in stripped] == [bytes(raw) for raw in plain.encoded]
    nothing = ResponseSampler(count=6, max_bytes=0).sample(
        ActionTokens.of(rollouts(sampler_logprobs=np.full((6, 6), -0.75))), seed=SEED
    )
    assert nothing == ([], 1)


def test_advantages_of_tokens_are_sent_only_where_they_differ_within_a_response():
    """One value a response has the same bytes in both forms."""
    by_token = np.repeat(np.arange(6.0)[:, None], 6, axis=1)
    same, plain = (
        SAMPLER.sample(ActionTokens.of(rollouts(**given_)), seed=SEED) for given_ in ({"advantages": by_token}, {})
    )
    assert same == plain
    by_token[0, 3] = -1.0
    found = SAMPLER.sample(ActionTokens.of(rollouts(advantages=by_token)), seed=SEED)
    assert found.schema_version == 5
    first = decode_response(bytes(found.encoded[0]))
    assert first.advantages.to_numpy().tolist() == [0.0, 0.0, -1.0, 0.0, 0.0]
    assert first.advantage == -0.2


@given(st.lists(st.floats(-65504, 0), min_size=1, max_size=40))
def test_the_error_of_float16_is_bounded(values):
    """The error of float16 is at most max(2⁻¹¹ |x|, 2⁻²⁵), as the docstring of the wire says."""
    logprobs = np.array([[*values, -1.0]])  # certainty everywhere would be refused
    (response,) = sampled(Rollouts(logprobs, np.ones_like(logprobs, dtype=bool), [1.0]))
    error = np.abs(response.logprobs.to_numpy().astype(np.float64) - logprobs[0])
    assert (error <= np.maximum(2.0**-11 * np.abs(logprobs[0]), 2.0**-25)).all()


@pytest.mark.parametrize("max_bytes", [0, 1, 700, 5_000, 20_000])
@pytest.mark.parametrize("more", [(), ("old_logprobs", "sampler_logprobs")], ids=["", "compared"])
@pytest.mark.parametrize("texts", [False, True])
def test_a_step_never_takes_more_bytes_than_allowed(max_bytes, texts, more):
    """Long responses are cut; short ones leave the rest of their share to long ones."""
    generator = np.random.default_rng(1)
    logprobs = -generator.random((20, 900))
    mask = np.arange(900) < generator.integers(1, 900, (20, 1))
    held = Rollouts(
        logprobs,
        mask,
        np.ones(20),
        entropies=-logprobs,
        token_ids=np.arange(18_000).reshape(20, 900),
        texts=["ä" * 5000] * 20,
        vocabulary=["token"] * 18_000,
        **dict.fromkeys(more, 1.5 * logprobs),
    )
    raws = ResponseSampler(count=4, max_bytes=max_bytes, texts=texts).sample(ActionTokens.of(held), seed=SEED).encoded
    assert sum(len(bytes(raw)) for raw in raws) <= max_bytes
    if max_bytes == 20_000:
        responses = [decode_response(bytes(raw)) for raw in raws]
        assert len(responses) == len(select_rows(ActionTokens.of(held), 4, random.Random(SEED)))  # noqa: S311 - no secret
        assert any(response.length > len(response.logprobs.to_numpy()) for response in responses)


def test_texts_are_sent_only_if_they_are_turned_on():
    """By default neither texts nor the texts of tokens are sent."""
    given_texts = {"texts": [f"text {row}" for row in range(6)], "vocabulary": list("abcdefghij")}
    assert all(r.text is None and r.pieces is None for r in sampled(rollouts(**given_texts)))
    first = sampled(rollouts(**given_texts), texts=True)[0]
    assert (first.text, first.pieces) == ("text 0", list("abcdef"))


def test_a_redacted_response_is_sent_without_token_ids():
    """A tokenizer turns ids into text, so ids are sent only where nothing was redacted."""
    given_texts = {"texts": ["secret", *(["open"] * 5)], "vocabulary": list("abcdefghij")}
    responses = sampled(rollouts(**given_texts), texts=True, redact=lambda text: text.replace("secret", "…"))
    hidden, *others = responses
    assert (hidden.text, hidden.pieces, hidden.token_ids) == ("…", None, None)
    assert all(response.text == "open" and response.token_ids is not None for response in others)


@pytest.mark.parametrize("texts", [True, False])
def test_token_ids_without_a_text_to_redact_are_not_sent(texts):
    """With a redaction some text may be secret, and the ids contain the whole text."""
    shown = []
    first = sampled(rollouts(), texts=texts, redact=shown.append)[0]
    assert (first.text, first.pieces, first.token_ids) == (None, None, None)
    assert not shown


def test_a_redaction_is_called_also_where_texts_are_not_sent():
    """A redaction is called in both cases, because it decides about the token ids."""
    given_texts = {"texts": ["secret", *(["open"] * 5)], "vocabulary": list("abcdefghij")}
    hidden, *others = sampled(rollouts(**given_texts), redact=lambda text: text.replace("secret", "…"))
    assert hidden.token_ids is None
    assert all(response.token_ids is not None for response in others)
    assert all(response.text is None and response.pieces is None for response in (hidden, *others))


def test_token_ids_become_text_in_the_background():
    """The ids that are sent are decoded; where that fails, the loss is counted and the rest is sent."""
    losses = []
    assert sampled(rollouts(decode=str), texts=True)[0].text == "[0, 1, 2, 3, 4, 5]"
    assert sampled(rollouts(decode=str), texts=True, redact=lambda _: "…")[0].text == "…"
    first = sampled(rollouts(decode=lambda ids: ids["no"]), texts=True, on_loss=losses.append)[0]
    assert (first.text, first.token_ids.to_numpy().tolist()) == (None, [0, 1, 2, 3, 4, 5])
    assert "decode raised TypeError" in losses[0]


class Unreadable:
    """A value of a user that is no text."""

    def __str__(self):
        raise RuntimeError("no text")


@pytest.mark.parametrize("redact", [None, lambda text: text])
def test_a_text_that_cannot_be_sent_costs_no_response(redact):
    """Half of a surrogate pair is escaped; a value that is no text is sent as one, or left out and counted."""
    losses = []
    given_texts = ["half \ud83d", 1.5, None, Unreadable(), "open", "é"]
    held = rollouts(texts=given_texts, vocabulary=["\udc80", *"bcdefghij"], trained=np.True_)
    responses = sampled(held, texts=True, redact=redact, on_loss=losses.append)
    assert {response.text for response in responses} == {"half \\ud83d", "1.5", None, "open", "é"}
    assert len(responses) == 6
    assert all(response.trained for response in responses)
    assert responses[0].pieces[0] == "\\udc80"
    assert losses == ["str raised RuntimeError: no text; the text was left out"]


@pytest.mark.parametrize("source", [{"decode": lambda ids: "".join(map(str, ids))}, {"vocabulary": list("0123456789")}])
def test_a_redaction_receives_the_whole_response(source):
    """Half of a secret is not recognised: where a cut divides it, neither the text nor the ids are sent."""
    cut = 0
    for max_bytes in range(400, 3000, 50):
        responses = sampled(
            rollouts(**source), texts=True, redact=lambda text: text.replace("12", "…"), max_bytes=max_bytes
        )
        longer = [response for response in responses if response.length > 2]
        leaving = [response.token_ids.to_numpy().tolist() for response in longer if response.token_ids is not None]
        assert not any(1 in ids for ids in leaving)
        assert not any("1" in (response.text or "") for response in longer)
        cut += any(len(ids) == 2 for ids in leaving)
    assert cut


def test_each_text_is_redacted_once_however_often_it_is_cut():
    """The size of texts is known only when they are encoded, so that they are cut again until they fit."""
    seen, losses = [], []

    def redact(text):
        seen.append(text)
        if text == "0" * 4000:
            raise RuntimeError(text)
        return text

    held = rollouts(texts=[str(row) * 4000 for row in range(6)], vocabulary=["字" * 400] * 10)
    assert sampled(held, texts=True, redact=redact, on_loss=losses.append, max_bytes=4000)
    assert sorted(seen) == [str(row) * 4000 for row in range(6)]
    assert len(losses) == 1


def test_after_a_redaction_raises_only_numbers_are_sent():
    """The text, the token texts and the ids are left out, and the loss is counted."""
    losses = []

    def redact(text):
        raise RuntimeError(text)

    held = rollouts(texts=["a"] * 6, vocabulary=list("abcdefghij"))
    first = sampled(held, texts=True, redact=redact, on_loss=losses.append)[0]
    assert (first.text, first.pieces, first.token_ids) == (None, None, None)
    assert first.logprobs.to_numpy().shape == (5,)
    assert "RuntimeError" in losses[0]


def test_the_trainings_generators_are_left_alone():
    """Python's and numpy's states do not change, and the same record draws the same responses."""
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002 - the test watches the global generator
    before = (random.getstate(), np.random.get_state()[1].tolist())  # noqa: NPY002
    once, again = sampled(rollouts(), count=1), sampled(rollouts(), count=1)
    assert before == (random.getstate(), np.random.get_state()[1].tolist())  # noqa: NPY002
    assert [response.kinds for response in once] == [response.kinds for response in again]


def test_a_step_arrives_with_its_responses(collector, connect, monkeypatch):
    """The responses are in the step's record, whose version is the lowest that reads them."""
    monkeypatch.setenv("RLVITALS_RESPONSE_SECONDS", "0")
    monitor = connect(responses=1)
    logged = (None, rollouts(), rollouts(sampler_logprobs=np.full((6, 6), -0.75)))
    for step, held in enumerate(logged, 1):
        monitor.log_step(step, {"x": 1.0}, rollouts=held)
        assert monitor.flush(PATIENCE_SECONDS)
    plain, full, compared = [batch for batch in collector.batches if batch.records]
    assert [batch.schema_version for batch in (plain, full, compared)] == [1, 2, 5]
    record = decode_record(full.records[0])
    assert decode_response(record.responses[0]).kinds[0] == "displaced"
    assert decode_response(decode_record(compared.records[0]).responses[0]).mismatches.to_numpy()[0] == 0.25
    assert record.scalars["x"] == 1.0


def test_responses_can_be_turned_off(collector, connect):
    """With 0 responses only signals are sent."""
    monitor = connect(responses=0)
    monitor.log_step(1, rollouts=rollouts())
    assert monitor.flush(PATIENCE_SECONDS)
    assert collector.records[0].responses == []


def test_a_sampler_that_fails_costs_only_the_responses(collector, connect, swallowed, monkeypatch):
    """The signals of the step are sent although the sampler fails."""

    def fail(*_, **__):
        raise ArithmeticError("made to fail")

    monkeypatch.setattr(ResponseSampler, "sample", fail)
    monitor = connect()
    monitor.log_step(1, rollouts=rollouts())
    assert monitor.flush(PATIENCE_SECONDS)
    assert collector.records[0].summaries["reward/mean"].value() == pytest.approx(1 / 3)
    assert [type(error) for error in swallowed] == [ArithmeticError]
    swallowed.clear()


def test_arguments_take_precedence_over_settings_of_responses():
    """Invalid settings are refused before training starts."""
    environ = {
        "RLVITALS_RESPONSES": "5",
        "RLVITALS_RESPONSE_BYTES": "9",
        "RLVITALS_RESPONSE_SECONDS": "0.5",
        "RLVITALS_TEXTS": "true",
    }
    ask = {"url": "http://127.0.0.1:1", "run": "r"}
    held = ConnectionSettings.resolve(environ=environ, **ask)
    assert (held.responses, held.response_bytes, held.response_seconds, held.texts) == (5, 9, 0.5, True)
    held = ConnectionSettings.resolve(environ=environ, responses=0, texts=False, **ask)
    assert (held.responses, held.texts) == (0, False)
    held = ConnectionSettings.resolve(environ={}, **ask)
    assert (held.responses, held.response_bytes, held.response_seconds, held.texts) == (2, 65536, 1.0, False)
    wrong = {"RESPONSES": "-1", "RESPONSE_BYTES": "-1", "TEXTS": "perhaps"}
    for name, value in [*wrong.items(), *(("RESPONSE_SECONDS", text) for text in ("-1", "nan", "inf", "often"))]:
        with pytest.raises(ConfigurationError, match=f"RLVITALS_{name} must be"):
            ConnectionSettings.resolve(environ={f"RLVITALS_{name}": value}, **ask)


def test_responses_that_the_collector_refused_are_counted_in_the_next_record(collector, connect):
    """The count is a total since the process started."""
    collector.receipt = lambda batch: Receipt(
        run_id="r", accepted=len(batch.records), refused_responses=2 * len(batch.records)
    )
    monitor = connect()
    monitor.log_step(1, rollouts=rollouts())
    assert monitor.flush(PATIENCE_SECONDS)
    monitor.log_step(2, {"x": 1.0})
    assert monitor.flush(PATIENCE_SECONDS)
    first, second = collector.records
    assert "hooks/rejected_responses" not in first.summaries
    assert second.summaries["hooks/rejected_responses"].value() == 2
