"""The explanation of an alert, from hand-written answers."""

import json
import math
import re

import pytest
from dash import html
from dash.development.base_component import Component

from dashboard.components.alert.explanation import explanation
from dashboard.components.alert.listing import alert_head
from dashboard.components.responses.card import response_card
from dashboard.components.responses.measure_note import measure_note
from dashboard.components.responses.measures import MEASURES
from dashboard.components.responses.token_strip import MOST_SENT, MOST_TOKENS, SHARED_SHOWN, token_strip
from dashboard.html_text import html_text

NOTHING = {
    "moved": [],
    "actions": [],
    "crossed_step": None,
    "sampled_actions": [],
    "measure": None,
    "displaced": [],
    "tokens": [],
    "resembling": [],
    "responses": [],
    "remedies": [],
    "first_steps": "look at the evidence.",
    "not_observed": [{"what": "responses and tokens", "needs": "token ids"}],
}


def response(**given):
    return {
        "id": "1",
        "step": 9,
        "kinds": ["displaced"],
        "correct": True,
        "reward": 1.0,
        "advantage": None,
        "truncated": None,
        "length": 3,
        "displacement": -0.6,
        "trained": False,
        "actions": [[0, 2], [3, 4]],
        "answers": [],
        "answer_source": None,
        "logprobs": [-0.5, -0.5, -5.0],
        "displacements": [-0.5, 0.25, -0.1],
        "token_ids": [7, 8, 9, 7],
        "pieces": ["so", "\t\n", "tool", ""],
        "text": None,
    } | given


def described(strip):
    """Return the data from which the browser draws a strip."""
    return json.loads(getattr(strip, "data-tokens"))


def chips(strip):
    """Return state, text and heat of every token of a strip."""
    return [(state.split()[0], text, f"{heat}%") for state, text, heat, _ in described(strip)["tokens"]]


def classes(component):
    """Return every class in a tree, in order."""
    if isinstance(component, list | tuple):
        return [name for child in component for name in classes(child)]
    if not isinstance(component, Component):
        return []
    return [*(getattr(component, "className", None) or "").split(), *classes(getattr(component, "children", None))]


def test_tokens_are_coloured_by_how_far_they_fell():
    """0.25 of three is full (nine in ten are below it, rounded down); feedback has no colour; no text gives the id."""
    assert chips(token_strip(response())) == [
        ("fell", "so", "100%"),
        ("rose", "⇥⏎", "100%"),
        ("feedback", "tool", "0%"),
        ("fell", "7", "40%"),
    ]


def test_actions_are_bracketed_where_there_are_several():
    """The first two tokens are an action and so is the last; a response of one action has no brackets."""
    states = [
        state for state, *_ in json.loads(token_strip(response()).to_plotly_json()["props"]["data-tokens"])["tokens"]
    ]
    assert [state.split()[1:] for state in states] == [["begins"], ["ends"], [], ["begins", "ends"]]
    single = token_strip(response(actions=[[0, 4]], logprobs=[-0.5] * 4, displacements=[-0.1] * 4))
    assert not re.search("begins|ends", json.dumps(single.to_plotly_json()["props"]["data-tokens"]))


def test_an_answer_is_marked_and_its_card_says_how_it_is_known():
    """Its first token opens it, and the title of each says so."""
    marked = response(answers=[[3, 4]], answer_source="last_action")
    assert [state for state, *_ in described(token_strip(marked))["tokens"]] == [
        "fell begins",
        "rose ends",
        "feedback",
        "fell answer opens begins ends",
    ]
    assert described(token_strip(marked))["tokens"][3][3].endswith(", answer")
    assert "last action marked as the answer" in str(response_card(marked))
    assert "answer" not in str(response_card(response()))


def test_the_line_of_facts_has_the_advantage_and_says_what_was_cut_off():
    """The line stands beside the reward on every page; values that the trainer did not send are not mentioned."""
    facts = response_card(response(advantage=-0.25, truncated=True)).children[0].children
    assert "reward 1 · advantage −0.25 · 3 tokens · cut off at the length limit" in facts
    plain_facts = response_card(response(truncated=False)).children[0].children
    assert not {"advantage", "cut off"} & set(re.findall("advantage|cut off", plain_facts))


def test_without_texts_ids_stand_and_without_ids_dots():
    """A strip never shows a word that is not known."""
    assert [text for _, text, _ in chips(token_strip(response(pieces=None)))] == ["7", "8", "9", "7"]
    assert [text for _, text, _ in chips(token_strip(response(pieces=None, token_ids=None)))] == ["·"] * 4


def test_without_displacement_what_is_unlikely_is_red():
    """−5 nat is full."""
    strip = chips(token_strip(response(displacements=None)))
    assert [heat for _, _, heat in strip] == ["10%", "10%", "0%", "100%"]


def test_tokens_are_coloured_by_mismatch_on_a_scale_of_its_own():
    """Half of ln 2 is half of the colour, twice ln 2 the whole; red where the trainer's probability is lower."""
    half = math.log(2) / 2
    strip = token_strip(response(mismatches=[-half, half, 4 * half]), measure="mismatch")
    assert chips(strip) == [
        ("fell", "so", "50%"),
        ("rose", "⇥⏎", "50%"),
        ("feedback", "tool", "0%"),
        ("rose", "7", "100%"),
    ]
    assert described(strip)["tokens"][0][3] == "token 0, id 7: mismatch −0.3466 nat"
    large = token_strip(response(advantages=[2.0, -1.0, 0.0]), measure="advantage")
    assert described(large)["tokens"][1][3] == "token 1, id 8: advantage −1"


@pytest.mark.parametrize("lacking", [{}, {"mismatches": None}])
def test_tokens_without_a_measure_say_so_and_have_no_colour(lacking):
    """The message also stands where an older collector does not have the measure."""
    tokens = described(token_strip(response(**lacking), measure="mismatch"))["tokens"]
    assert [(state.split()[0], heat) for state, _, heat, _ in tokens] == [
        ("unmeasured", 0),
        ("unmeasured", 0),
        ("feedback", 0),
        ("unmeasured", 0),
    ]
    assert tokens[0][3] == "token 0, id 7: not observed"


def test_a_long_response_shows_where_trainer_and_sampler_differ_most():
    """A token that the trainer finds likelier is as bad as one that it finds less likely."""
    count = 3 * MOST_TOKENS
    gaps = [-0.1] * count
    gaps[2 * MOST_TOKENS] = 3.0
    held = {"actions": [[0, count]], "logprobs": [-1.0] * count, "token_ids": [5] * count, "pieces": None}
    first, after = described(token_strip(response(**held, mismatches=gaps), measure="mismatch"))["shown"]
    assert (first, after) == (2 * MOST_TOKENS - MOST_TOKENS // 2, 2 * MOST_TOKENS + MOST_TOKENS // 2)


def test_the_note_says_what_colours_mean_and_what_sends_a_measure_that_is_missing(texts):
    """The note differs for a measure of all responses, of some, and of none."""
    seen, unseen = response(mismatches=[0.0, 0.0, 0.0]), response(mismatches=None)
    assert texts(measure_note([seen, seen], "mismatch")) == [MEASURES["mismatch"].colours]
    some = texts(measure_note([seen, unseen], "mismatch"))
    assert some[0].startswith("Red: less likely for the trainer than for the sampler")
    assert some[1:] == [
        "Mismatch is not observed for 1 of these 2 responses",
        ": needs the sampler's log-probabilities: ",
        "Rollouts(..., sampler_logprobs=sampler)",
    ]
    assert texts(measure_note([unseen], "mismatch"))[0] == "Mismatch is not observed"


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_token_without_a_number_is_marked(bad):
    """It is outlined, and not coloured as a small value would be."""
    assert chips(token_strip(response(displacements=[bad, 0.0, 0.0])))[0][0] == "broken"


def test_a_long_response_shows_where_it_fell_most_and_what_was_left_out():
    """The drawn window and the data of the browser hold the worst token; the other tokens are counted."""
    count = 2 * MOST_SENT
    changes = [0.0] * count
    changes[2000] = -1.0
    long = response(
        actions=[[0, count]], displacements=changes, logprobs=[-1.0] * count, token_ids=[5] * count, pieces=None
    )
    strip = token_strip(long | {"length": count + 10})
    first, after = described(strip)["shown"]
    assert (len(chips(strip)), after - first) == (MOST_SENT, MOST_TOKENS)
    assert [state for state, _, _ in chips(strip)].index("fell") == first + MOST_TOKENS // 2
    assert described(strip)["before"] == 2000 - MOST_SENT // 2
    assert described(strip)["after"] == count - 2000 - MOST_SENT // 2 + 10
    short = described(token_strip(response()))
    assert (short["before"], short["shown"]) == (0, [0, len(short["tokens"])])


def test_a_long_shared_beginning_is_folded_up_to_its_last_tokens():
    """The differing tokens stand at the front, and the tokens before them can be unfolded."""
    count = 100
    long = response(
        actions=[[0, count]],
        displacements=[-1.0] * count,
        logprobs=[-1.0] * count,
        token_ids=[5] * count,
        pieces=None,
        length=count,
    )
    assert described(token_strip(long, shared_prefix=60))["folded"] == 60 - SHARED_SHOWN
    assert described(token_strip(long, shared_prefix=5))["folded"] == 0
    assert described(token_strip(long, shared_prefix=60))["tokens"][59][0] == "fell shared"


def test_nothing_observed_is_reported_and_nothing_is_made_up(texts):
    """Four cards: no signal stood clear, no record exists, the missing inputs, and the numbers of the alert."""
    found = texts(explanation(NOTHING, html.Div("the numbers"), opened_step=9))
    assert any("No signal had clearly left" in text for text in found)
    assert any("To do first: look at the evidence." in text for text in found)
    assert "responses and tokens" in found
    assert "the numbers" in found
    assert "Which responses lead" not in found


def test_a_signal_that_is_not_finite_is_said_to_be(texts):
    """Neither its level nor its best level is "none"."""
    moved = {"direction": "not finite", "level": None, "deviations": None, "is_surely_later": False, "onset": [4, 4]}
    never, later = moved | {"signal": "grad/norm", "baseline": None}, moved | {"signal": "ratio/max", "baseline": 2.0}
    found = texts(explanation(NOTHING | {"moved": [never, later]}, html.Div("the numbers"), opened_step=9))
    assert "never finite" in found
    assert "2 → not finite" in found


def test_an_explanation_is_written_out(texts):
    """Onsets in order, the strip, the pair with its measure, the remedy with its source."""
    moved = {"direction": "rise", "baseline": 1.0, "level": 4.0, "deviations": 9.0, "is_surely_later": False}
    observed = NOTHING | {
        "moved": [
            moved | {"signal": "ratio/max", "onset": [3, 5]},
            moved | {"signal": "grad/norm", "onset": [8, 9], "is_surely_later": True},
        ],
        "measure": "displacement",
        "displaced": ["1"],
        "responses": [response(), response(id="2", correct=False)],
        "resembling": [
            {
                "response": "2",
                "displaced": "1",
                "shared_prefix": 2,
                "prefix_share": 1,
                "overlap": 0.5,
                "resemblance": 0.75,
            }
        ],
        "tokens": [
            {"token_id": token_id, "text": text, "count": 2, "fall": -0.6, "share": 0.5}
            for token_id, text in ((707, None), (8, " \t\nthe"))
        ],
        "remedies": [{"change": "Add LLDS", "how": "λ = 0.1", "source": "arXiv 2512.04220"}],
    }
    parts = explanation(observed, html.Div("the numbers"), opened_step=9)
    found = texts(parts)
    assert found.index("ratio/max") < found.index("grad/norm")
    assert "surely later" in found
    assert "75 % alike: 2 tokens of beginning shared, 50 % of its 4-grams" in " ".join(found)
    assert "arXiv 2512.04220" in found
    assert {"707", "␣⇥⏎the"} <= set(found)
    assert len(re.findall(r' shared(?: begins| ends)*"', str(parts))) == 2


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "Acknowledge"),
        ({"kind": "trainer_lost"}, "Give up this run"),
        ({"acknowledged_at": 5.0, "acknowledged_by": "ann", "note": "on it"}, "acknowledged by ann, "),
    ],
)
def test_the_head_says_who_knows_or_offers_to_say_it(texts, given, says):
    """A firing alert that is not acknowledged has a button; a resolved one needs none."""
    alert = {"id": "a", "run_id": "r", "run": "r", "kind": "death_spiral", "severity": "critical", "state": "firing"}
    alert |= {"opened_step": 9, "severity_step": 9, "summary": "It falls.", "phase": "acceleration"} | given
    assert says in texts(alert_head(alert, run="r"))
    assert "Acknowledge" not in texts(alert_head(alert | {"state": "resolved"}, run="r"))


def test_the_head_says_since_when_and_what_to_do():
    """Who is woken by a page sees both without scrolling, by the clock too; a resolved alert needs nothing done."""
    alert = {"id": "a", "run_id": "r", "run": "r", "kind": "death_spiral", "severity": "critical", "state": "firing"}
    alert |= {"opened_step": 9, "severity_step": 9, "summary": "It falls.", "opened_at": 1796067700.0}
    head = html_text(alert_head(alert, run="r", to_do="Lower the learning rate"))
    assert "what to do: <b>Lower the learning rate</b>" in head
    assert re.search(r'opened <time class="since" data-epoch="1796067700\.000">', head)
    assert 'data-until="1796067700.000"' in head
    past = html_text(alert_head(alert | {"state": "resolved"}, run="r", to_do="Lower the learning rate"))
    assert "what to do" not in past
    assert "opened <time" in past
