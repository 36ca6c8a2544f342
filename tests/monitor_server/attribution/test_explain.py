"""Actions, responses, tokens, resemblance and remedies: by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor_server.attribution.action_likelihoods import action_changes, find_crossing
from monitor_server.attribution.displaced import displaced_responses, sampled_actions, tokens
from monitor_server.attribution.explain import explain
from monitor_server.attribution.remedies import NONE_KNOWN, REMEDIES, remedies
from monitor_server.attribution.resemblance import resembling
from monitor_server.attribution.sampled_responses import Sampled
from monitor_server.detection.registry import DETECTORS
from trainer_hooks.wire import ALERT_KINDS


def sampled(name, ids, *, changes=None, correct=True, actions=None, **given_):
    """Return a response whose tokens are all of one action, unless the arguments differ."""
    places = np.array(actions or [[0, len(ids)]])
    count = int((places[:, 1] - places[:, 0]).sum())
    held = None if changes is None else np.array(changes, dtype=np.float64)
    fields = {"step": 10, "group": (1,), "logprob": -1.0, "length": count} | given_
    return Sampled(
        id=name,
        correct=correct,
        actions=places,
        logprobs=np.full(count, -0.5),
        displacements=held,
        displacement=None if changes is None else sum(changes),
        token_ids=np.array(ids),
        **fields,
    )


def test_correct_responses_that_fell_lead_by_their_mean():
    """−0.3 over 3 tokens is −0.1 a token; −0.2 over 1 is −0.2, and leads; the wrong one that fell more is left out."""
    responses = [
        sampled("long", [1, 2, 3], changes=[-0.1] * 3),
        sampled("short", [1], changes=[-0.2]),
        sampled("wrong", [1], changes=[-9.0], correct=False),
        sampled("rose", [1], changes=[0.2]),
    ]
    assert [r.id for r in displaced_responses(responses, most=5)[1]] == ["short", "long"]
    assert [r.id for r in displaced_responses(responses[2:], most=5)[1]] == ["wrong"]
    assert displaced_responses(responses[3:], most=5) == ("displacement", [])


def test_without_displacement_the_least_likely_correct_ones_lead():
    """The answer states that the order is by likelihood; a displacement of NaN is none."""
    responses = [
        sampled("likely", [1, 2], logprob=-1.0),
        sampled("unlikely", [1], logprob=-3.0),
        sampled("wrong", [1], logprob=-9.0, correct=False),
    ]
    measure, leading = displaced_responses(responses, most=1)
    assert (measure, [r.id for r in leading]) == ("likelihood", ["unlikely"])
    lost = sampled("lost", [1], changes=[np.nan])
    assert displaced_responses([lost, *responses], most=1)[1] == leading
    assert displaced_responses([lost, sampled("rose", [1], changes=[0.2])], most=1) == ("displacement", [])
    assert displaced_responses([], most=1) == (None, [])


def test_tokens_are_summed_over_responses_and_feedback_is_left_out():
    """Of a fall of 0.5, id 7 has 0.1 + 0.3 and id 8 has 0.1; id 9 rose, id 5 is feedback, and NaN is left out."""
    responses = [
        sampled("a", [7, 8, 5, 9], changes=[-0.1, -0.1, 0.2], actions=[[0, 2], [3, 4]], pieces=["x", "y", "f", "z"]),
        sampled("b", [7, 8], changes=[-0.3, np.nan]),
    ]
    first, second = tokens(responses, most=5)
    assert (first.token_id, first.text, first.count) == (7, "x", 2)
    assert (first.fall, first.share) == (pytest.approx(-0.4), pytest.approx(0.8))
    assert (second.token_id, second.share) == (8, pytest.approx(0.2))


def test_a_token_whose_share_would_be_shown_as_0_percent_is_left_out():
    """Token 2 carries 0.4 % of the fall, and token 3 carries 0.6 %."""
    responses = [sampled("a", [1, 2, 3], changes=[-9.9, -0.04, -0.06])]
    assert [token.token_id for token in tokens(responses, most=5)] == [1, 3]


def test_the_token_that_fell_furthest_is_shown_even_if_its_share_is_small():
    """Each of 300 tokens carries a third of a percent."""
    falls = [-1.0] * 299 + [-1.1]
    assert [token.token_id for token in tokens([sampled("a", list(range(300)), changes=falls)], most=5)] == [299]


def test_actions_of_samples_are_averaged_over_tokens_of_correct_responses():
    """First action: −0.1, −0.3 and 0.1 make −0.1; second: 0.4."""
    responses = [
        sampled("a", [1, 2, 0, 3], changes=[-0.1, -0.3, 0.4], actions=[[0, 2], [3, 4]]),
        sampled("b", [1], changes=[0.1]),
        sampled("wrong", [1], changes=[-9.0], correct=False),
    ]
    first, second = sampled_actions(responses)
    assert (first.action, first.mean, first.tokens) == (0, pytest.approx(-0.1), 3)
    assert (second.action, second.mean, second.tokens) == (1, pytest.approx(0.4), 1)


def test_resemblance_is_the_mean_of_prefix_and_overlap():
    """Right 1 2 3 4 5 6, wrong 1 2 3 4 9: 4 of 5 tokens of prefix; 4-grams 1234 of (1234, 2349): 1 of 2."""
    right = sampled("right", [1, 2, 3, 4, 5, 6], changes=[-0.1] * 6)
    wrong = sampled("wrong", [1, 2, 3, 4, 9], correct=False)
    stranger = sampled("stranger", [1, 2, 3, 4, 5], correct=False, group=(2,))
    brother = sampled("brother", [1, 2, 3, 4, 5, 6])
    far = sampled("far", [8, 8, 8], correct=False)
    first, second = resembling([right], [right, far, wrong, stranger, brother], most=5)
    assert (first.response, first.displaced, first.shared_prefix) == ("wrong", "right", 4)
    assert (first.prefix_share, first.overlap, first.resemblance) == (0.8, 0.5, pytest.approx(0.65))
    assert (second.response, second.resemblance) == ("far", 0.0)


def test_four_grams_do_not_span_feedback():
    """Two actions of two tokens have none, for any tokens between them."""
    right = sampled("right", [1, 2, 3, 4, 5], changes=[-0.1] * 5)
    wrong = sampled("wrong", [1, 2, 3, 4, 5], actions=[[0, 2], [3, 5]], correct=False)
    (pair,) = resembling([right], [wrong], most=1)
    assert (pair.prefix_share, pair.overlap) == (1.0, 0.0)


def test_the_first_action_falls_below_the_second():
    """−0.1 and −0.2 before step 10; then the first is −0.4: it changed by −0.3 and crossed within three rows."""
    steps = np.arange(20)
    signals = {
        "likelihood/action0": (steps, np.where(steps < 10, -0.1, -0.4)),
        "likelihood/action1": (steps, np.full(20, -0.2)),
    }
    first, second = action_changes(signals, onset_step=10, opened_step=19)
    assert (first.before, first.at_alert, first.change) == (-0.1, -0.4, pytest.approx(-0.3))
    assert second.change == 0.0
    # The median of three rows falls below from rows 9 to 11 on.
    assert find_crossing(signals, opened_step=19) == 11
    assert find_crossing(signals, opened_step=9) is None


def test_only_the_steps_around_the_alert_are_read():
    """The newest eight that were sampled, within 24 before it, none after; of a rarer sampling the newest before."""

    def read(sampled_steps, opened_step):
        # Older responses are more displaced: all that were read are shown up to the bound.
        responses = [sampled(str(step), [1], changes=[-1 / (1 + step)], step=step) for step in sampled_steps]
        found = explain(kind="death_spiral", opened_step=opened_step, signals={}, responses=responses)
        return [response.step for response in found.displaced]

    assert read(range(30), 20) == [13, 14, 15, 16, 17]
    assert read(range(0, 60, 3), 47) == [24, 27, 30, 33, 36]
    assert read(range(0, 60, 10), 47) == [30, 40]
    assert read(range(30), 90) == [29]


def test_of_equal_responses_one_is_shown():
    """Two correct and two incorrect ones of a group are the same to the token; another group's is another response."""
    one, other = ([1, 2, 3, 4, 5], [1, 2, 3, 4, 6])
    responses = [
        sampled("a", one, changes=[-0.1] * 5),
        sampled("b", one, changes=[-0.1] * 5),
        sampled("c", one, changes=[-0.1] * 5, group=(2,)),
        sampled("wrong", other, correct=False),
        sampled("twin", other, correct=False),
    ]
    explained = explain(kind="death_spiral", opened_step=10, signals={}, responses=responses)
    assert [response.id for response in explained.displaced] == ["a", "c"]
    assert [(pair.response, pair.displaced) for pair in explained.resembling] == [("wrong", "a")]


def test_what_is_missing_is_named():
    """Without any data, every part of the explanation is listed as missing."""
    found = explain(kind="reward_fall", opened_step=5, signals={}, responses=[])
    assert (found.moved, found.measure, found.displaced) == ([], None, [])
    missing = [gap.what for gap in found.not_observed]
    assert missing[:2] == ["likelihood of correct responses", "paired entropy change"]
    assert "responses and tokens" in missing
    bare = sampled("bare", [1], changes=[-0.1], group=None)
    found = explain(kind="reward_fall", opened_step=10, signals={}, responses=[bare])
    assert "which incorrect responses resemble them" in [gap.what for gap in found.not_observed]


@pytest.mark.parametrize(("rows", "is_lost"), [(55, True), (56, False)])
def test_a_signal_that_was_lost_long_before_the_alert_explains_nothing(rows, is_lost):
    """It had departed when its values ended. Of the newest 25 steps it has none, or one."""
    steps = np.arange(80)
    values = np.where(steps >= 40, -3.0, -0.4) + 0.001 * (-1.0) ** steps
    first, second, distance = (steps, values), (steps[:rows], values[:rows]), (steps[:rows], -values[:rows])
    signals = {"likelihood/action0": first, "likelihood/action1": second, "kl/ref": distance}
    found = explain(kind="death_spiral", opened_step=79, signals=signals, responses=[])
    lost = {"likelihood/action1", "kl/ref"} if is_lost else set()
    assert {each.signal for each in found.moved} == {*signals} - lost
    assert [each.action for each in found.actions] == ([0] if is_lost else [0, 1])
    assert ("likelihood/action1, kl/ref" in [gap.what for gap in found.not_observed]) == is_lost


@pytest.mark.parametrize(("opened_step", "is_lost"), [(540, False), (541, True)])
def test_a_signal_that_is_sent_in_few_rows_is_lost_after_twice_its_usual_distance(opened_step, is_lost):
    """An evaluation at every thirtieth step, the newest at step 480: its fall is seen, until one has been left out."""
    steps, rare = np.arange(600), np.arange(0, 481, 30)
    often = np.where(steps >= 400, -3.0, -0.4) + 0.001 * (-1.0) ** steps
    signals = {"likelihood/correct": (steps, often), "likelihood/action1": (rare, often[rare])}
    found = explain(kind="death_spiral", opened_step=opened_step, signals=signals, responses=[])
    assert {each.signal for each in found.moved} == {*signals} - ({"likelihood/action1"} if is_lost else set())
    assert ("likelihood/action1" in [gap.what for gap in found.not_observed]) == is_lost


def test_remedies_answer_known_kinds_and_each_has_a_source():
    """Every remedy is for an alert that a detector raises; some wait for an observation."""
    kinds = {detector.kind for detector in DETECTORS.values()}
    for remedy in REMEDIES:
        assert remedy.kinds <= kinds
        assert remedy.source
    plain = [remedy.change for remedy in remedies("death_spiral")]
    seen = [remedy.change for remedy in remedies("death_spiral", observed=frozenset({"resembling"}))]
    assert any("LLDS" in change for change in plain)
    assert [change for change in seen if change not in plain] == [
        "Scale down the negative advantage of tokens that resemble correct responses (NTHR)"
    ]
    assert remedies("trainer_lost") == []


def test_each_kind_of_finding_has_a_remedy_or_is_known_to_have_none():
    """A detector that is added must be thought about; the last two are kinds that `LikelihoodDrift` also gives."""
    kinds = {detector.kind for detector in DETECTORS.values()} | {"difficulty_shift", "entropy_drift"}
    answered = frozenset[str]().union(*(remedy.kinds for remedy in REMEDIES))
    assert kinds == answered | NONE_KNOWN
    # The SDK's list also has the kind that `step_detection` opens when a detector fails.
    assert kinds | {"monitor_degraded"} == ALERT_KINDS
    assert not answered & NONE_KNOWN


numbers = st.floats(allow_nan=True, allow_infinity=True)


@given(
    st.lists(
        st.builds(
            lambda ids, change, correct, logprob, group: sampled(
                "r", ids, changes=[change] * len(ids), correct=correct, logprob=logprob, group=group
            ),
            st.lists(st.integers(0, 3), min_size=1, max_size=6),
            numbers,
            st.booleans(),
            numbers,
            st.none() | st.tuples(st.integers(0, 1)),
        ),
        max_size=6,
    )
)
def test_any_responses_are_explained(responses):
    """No response causes an exception, and shares and resemblances stay within [0, 1]."""
    found = explain(kind="death_spiral", opened_step=10, signals={}, responses=responses)
    assert all(0 <= token.share <= 1.000001 for token in found.tokens)
    assert all(0 <= pair.resemblance <= 1 for pair in found.resembling)
