"""The text of a file of channels and routes is checked before it is put in its place."""

import json

import pytest

from monitor_server.notifications.configuration.checking import CheckedText, check_text

USABLE = """
version = 1
[channels.team]
url = "${TEAM_URL}"
[channels.page]
type = "webhook"
url_file = "/run/secrets/url"
secret = "${SECRET}"
[[routes]]
channels = ["team", "page"]
[[routes]]
severity = "critical"
channels = ["page"]
"""


def test_a_text_that_can_be_used_states_what_it_needs(monkeypatch):
    """Variables and files are named, and neither is looked up."""
    monkeypatch.setenv("TEAM_URL", "no address at all")
    expected = CheckedText((), channels=2, routes=2, variables=("TEAM_URL", "SECRET"), files=("/run/secrets/url",))
    assert check_text(f"# not ${{THIS}}\n{USABLE}") == expected


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("version = ", "the text must be TOML"),
        (USABLE.replace('"critical"', '"paging"'), "routes[1].severity must be 'info', 'warning' or 'critical'"),
        (USABLE.replace('["page"]', '["nobody"]'), "nobody"),
        ("version = 0x" + "f" * 900, "the text must be TOML: an integer must have at most 64 bits"),
        (USABLE.replace('"${SECRET}"', '"short"'), "must have at least 16 characters (it is not shown)"),
        (USABLE + "[extra]\n", "extra is not known; remove it, or correct its name"),
        ("channels = 3\n", "version must be set"),
        (
            USABLE.replace("secret =", 'secret_file = "a"\nsecret ='),
            "channels.page.secret and secret_file must not both be set",
        ),
        (
            USABLE + 'projects = ["${TEAM}"]\n',
            "routes[1].projects[0] must name no variable, got ${TEAM}: only the addresses and secrets of channels are",
        ),
        (
            USABLE + 'kinds = ["death_spiral", "deathspiral", "rule:mine"]\n',
            "routes[1].kinds[1] must be a kind of alert, got 'deathspiral'; the kinds are ",
        ),
    ],
    ids=[
        "no TOML",
        "severity",
        "unknown channel",
        "hexadecimal",
        "short secret",
        "unknown table",
        "no version",
        "a secret twice",
        "variable in a route",
        "unknown kind",
    ],
)
def test_each_problem_is_named_with_its_place(text, problem):
    """The message does not repeat a text that may be a secret."""
    problems = "; ".join(check_text(text).problems)
    assert problem in problems
    assert '"short"' not in problems


@pytest.mark.parametrize("part", ["a.", '"\u2028".'], ids=["bare", "line separators"])
def test_a_key_of_thousands_of_parts_is_refused_before_it_is_read(part):
    """Reading it would take a minute; the line is named."""
    (problem,) = check_text("version = 1\n" + part * 16_000 + "a = 1\n").problems
    assert problem.startswith("line 2 must have at most 1,000 characters")


def test_a_text_with_thousands_of_problems_has_a_short_answer():
    """Fifty are named, and the others counted."""
    problems = check_text("".join(f"[channels.c{number}]\nx = 1\n" for number in range(4_000))).problems
    assert len(problems) == 51
    assert problems[-1].startswith("and ")


def test_a_text_is_checked_over_the_api_and_nothing_is_stored(collector):
    """The answer has the problems; no channel is there afterwards, and a text that is too long is refused."""

    def ask(text):
        body = json.dumps({"text": text})
        url = f"{collector.url}/api/v1/notifications/check"
        return collector.pool.request("POST", url, body=body, headers={"Content-Type": "application/json"})

    before = collector.get("/audit")  # other tests use this collector as well
    assert ask(USABLE).json() == {
        "problems": [],
        "channels": 2,
        "routes": 2,
        "variables": ["TEAM_URL", "SECRET"],
        "files": ["/run/secrets/url"],
    }
    assert ask("version = 1\nchannels = 3\n").json()["problems"] != []
    assert ask("x" * 100_001).status == 422
    assert collector.get("/notifications/channels")["items"] == []
    assert collector.get("/audit") == before
