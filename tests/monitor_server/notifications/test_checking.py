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
    assert check_text(USABLE) == expected


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("version = ", "the text must be TOML"),
        (USABLE.replace('"critical"', '"paging"'), "routes[1].severity must be 'info', 'warning' or 'critical'"),
        (USABLE.replace('["page"]', '["nobody"]'), "nobody"),
        (USABLE.replace('"${SECRET}"', '"short"'), "must have at least 16 characters (it is not shown)"),
        (USABLE + "[extra]\n", "extra is not known; remove it, or correct its name"),
        ("channels = 3\n", "version must be set"),
    ],
    ids=["no TOML", "severity", "unknown channel", "short secret", "unknown table", "no version"],
)
def test_each_problem_is_named_with_its_place(text, problem):
    """What may be a secret is not repeated."""
    problems = "; ".join(check_text(text).problems)
    assert problem in problems
    assert '"short"' not in problems


def test_a_text_is_checked_over_the_api_and_nothing_is_stored(collector):
    """The answer has the problems; no channel is there afterwards, and a text that is too long is refused."""

    def ask(text):
        body = json.dumps({"text": text})
        url = f"{collector.url}/api/v1/notifications/check"
        return collector.pool.request("POST", url, body=body, headers={"Content-Type": "application/json"})

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
    assert collector.get("/audit")["items"] == []
