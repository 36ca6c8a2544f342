"""The file of channels and routes is read strictly; problems are located, and no secret is shown."""

import re
import tomllib
from pathlib import Path

import pytest

from monitor_server.errors import StartupError
from monitor_server.notifications.configuration.loading import load_notifications
from monitor_server.notifications.delivery.usability import check_usable
from monitor_server.settings import Settings

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/notifications.md").read_text(encoding="utf-8")
GOOD = """
version = 1
[channels.team]
url = "slack://token-a/token-b/token-c"
[channels.bot]
type = "webhook"
url = "https://bot.example/path-secret"
secret = "0123456789abcdef"
[[routes]]
channels = ["team"]
"""


@pytest.fixture
def load(tmp_path):
    """Read a file that holds a text, with the variables of an environment."""

    def load(text, **environment):
        path = tmp_path / "notifications.toml"
        path.write_text(text, encoding="utf-8")
        return load_notifications(path, variable=environment.get)

    return load


def test_the_example_of_the_page_can_be_read(load, tmp_path):
    """Its secrets come from the environment and from a file."""
    (example,) = re.findall(r"```toml\n(.*?)```", PAGE, flags=re.DOTALL)
    secret = tmp_path / "pager"
    secret.write_text("pagerduty://key@api\n")
    example = example.replace("/run/secrets/pager", "pager")
    file = load(example, SLACK_URL="slack://a/b/c", BOT_SECRET="0123456789abcdef")  # noqa: S106 - of the test
    assert file.channels["oncall"].url.get_secret_value() == "pagerduty://key@api"
    assert [route.severity for route in file.routes] == ["critical", "warning"]
    assert file.fallback.channel == "bot"


@pytest.mark.parametrize(
    ("wrong", "right", "says"),
    [
        ('channels = ["team"]', 'channels = ["nobody"]', "routes[0].channels[0] must be the name of a channel"),
        ('channels = ["team"]', 'channels = ["team"]\nseverity = "paging"', "routes[0].severity must be 'info', "),
        ('channels = ["team"]', 'channels = ["team"]\nhours = "9-10"', "routes[0].hours must look like"),
        ('channels = ["team"]', 'channels = ["team"]\ntime_zone = "Mars/X"', "routes[0].time_zone must be the name"),
        ('channels = ["team"]', 'channels = ["team"]\ncolour = 1', "routes[0].colour is not known"),
        ('channels = ["team"]', 'channels = ["team"]\nresolved = "yes"', "routes[0].resolved must hold"),
        ('channels = ["team"]', "", "routes[0].channels must be set"),
        ("version = 1", "version = 2", "version must be 1, got 2"),
        ('type = "webhook"', 'type = "pager"', "channels.bot.type must be"),
        ('"0123456789abcdef"', '"hunter2"', "channels.bot.secret must have at least 16 characters"),
        ('"0123456789abcdef"', '"${NOT_SET}"', "channels.bot.secret names ${NOT_SET}"),
        ('secret = "0123456789abcdef"', 'secret_file = "nowhere"', "channels.bot.secret_file must be a readable file"),
        ("https://bot.example", "ftp://bot.example", "channels.bot.url must be an http or https URL"),
        ("https://bot.example", "https://me:pass@bot.example", "channels.bot.url must be an http or https URL"),
        ("slack://", "", "channels.team.url must be one URL of Apprise"),
        ("[channels.bot]", "[channels.'B t']", "channels.B t must have 1 to 40 small letters"),
        ("[channels.bot]", "[channels.webhook]\nformat = 1", "channels.webhook.format is not known"),
        ("[channels.team]", "[channels.apprise]\napprise = 1", "channels.apprise.apprise is not known"),
        ("[[routes]]", "[[routes", "must be TOML"),
        ("version = 1", "version = 0x" + "f" * 5_000, "64 bits, got a longer one at version"),
        ('url = "https://bot.example', "url_file = 0x" + "f" * 5_000 + "#", "a longer one at channels.bot.url_file"),
    ],
)
def test_a_problem_is_named_with_its_place_and_no_secret_is_shown(load, wrong, right, says):
    """The message has the condition and the given value, except for addresses and secrets."""
    assert wrong in GOOD
    with pytest.raises(StartupError, match=re.escape(says)) as caught:
        load(GOOD.replace(wrong, right))
    shown = str(caught.value)
    assert not [
        secret for secret in ("token-a", "path-secret", "hunter2", "0123456789abcdef", "pass@") if secret in shown
    ]


def test_a_file_that_cannot_be_read_ends_the_start(tmp_path):
    """The line names the setting and the file."""
    with pytest.raises(StartupError, match=r"RLVITALS_NOTIFICATIONS: .*missing\.toml cannot be read"):
        load_notifications(tmp_path / "missing.toml", variable=lambda _: None)


def test_no_form_of_the_file_shows_a_secret(load):
    """The secret is neither in its representation nor in the part of an address that may be shown."""
    file = load(GOOD)
    assert not [secret for secret in ("token-a", "path-secret", "0123456789abcdef") if secret in repr(file)]
    assert [channel.shown for channel in file.channels.values()] == ["slack://...", "https://bot.example/..."]


def test_every_field_of_the_file_is_documented(load):
    """The table of the page names each."""
    file = load(GOOD)
    tables = [file.routes[0], file.grouping, file.limits, *file.channels.values()]
    fields = {name for table in tables for name in type(table).model_fields}
    assert not [name for name in fields if f"`{name}`" not in PAGE and f".{name}`" not in PAGE]
    assert tomllib.loads(GOOD)["version"] == 1


def test_a_file_with_a_kind_that_no_alert_has_cannot_be_used(load):
    """The start and a reload refuse it, and the kinds are listed; its route would notify nobody."""
    file = load(GOOD.replace('channels = ["team"]', 'channels = ["team"]\nkinds = ["reward_dirft"]'))
    with pytest.raises(StartupError, match=r"routes\[0\]\.kinds\[0\] must be a kind of alert, got 'reward_dirft'; the"):
        check_usable(file, settings=Settings())


@pytest.mark.parametrize("host", ["bot..example", "b" * 64 + ".example", "."])
def test_a_file_with_a_host_that_no_name_can_be_cannot_be_used(load, host):
    """No connection to it can be tried."""
    file = load(GOOD.replace("bot.example", host))
    with pytest.raises(StartupError, match=r"channels\.bot\.url must have a host whose parts have 1 to 63 characters"):
        check_usable(file, settings=Settings())


@pytest.mark.parametrize("project", ["search ", "\\u200bsearch", ""])
def test_a_file_with_a_project_that_no_run_can_have_cannot_be_used(load, project):
    """A route that was copied with a blank or a hidden character would notify nobody."""
    file = load(GOOD.replace('channels = ["team"]', f'channels = ["team"]\nprojects = ["{project}"]'))
    with pytest.raises(StartupError, match=r"routes\[0\]\.projects\[0\] must have no hidden characters and no blanks"):
        check_usable(file, settings=Settings())
