import re
from pathlib import Path

from trainer_hooks.delivery.drop_counter import DROPPED_RECORD_REASONS
from trainer_hooks.settings import ConnectionSettings
from trainer_hooks.signals import NAMES
from trainer_hooks.signals.families import instrument, paired

DOCS = Path(__file__).parents[2] / "docs"
OWN = {
    "hooks/blocking_seconds",
    "hooks/dropped_records",
    *(f"hooks/dropped/{reason}" for reason in DROPPED_RECORD_REASONS),
    "hooks/internal_errors",
    "hooks/lost_rollouts",
    "hooks/partial_step",
    "hooks/rejected_responses",
    "hooks/rejected_rollouts",
    "hooks/rejected_scalars",
    "hooks/spool_bytes",
    "hooks/unspooled_records",
}


def documented(title):
    """Return the signals in the first column of a section's table; `a0` to `a7` stands for all between."""
    section = (DOCS / "signals.md").read_text().partition(f"## {title}\n")[2].partition("\n## ")[0]
    names = []
    for row in re.findall(r"^\| (`[^|]*) \|", section, re.MULTILINE):
        found = re.findall(r"`([^`]+)`", row)
        if " to " in row:
            stem, last = re.fullmatch(r"(.*?)(\d+)", found[1]).groups()
            found = [f"{stem}{index}" for index in range(int(last) + 1)]
        names += found
    return names


def test_every_signal_is_documented_and_nothing_else():
    """The table of docs/signals.md and the code name the same signals, each once."""
    assert sorted(documented("From `Rollouts`")) == sorted(NAMES)


def test_what_a_probe_gives_is_documented():
    """The signals of scores before and after an update, likewise."""
    assert sorted(documented("From scores before and after an update")) == sorted(paired.NAMES)


def test_what_is_computed_again_is_documented():
    """The signals of numbers that are computed again, likewise."""
    assert sorted(documented("From numbers that are computed again")) == sorted(instrument.NAMES)


def test_our_own_signals_are_documented():
    """The signals of the hooks' cost and losses are documented too."""
    assert set(documented("Our own cost and losses")) == OWN


def test_what_the_model_monitors_measure_is_documented():
    """Every name that the package writes stands in the table, and the other way round."""
    source = Path(__file__).parents[2] / "trainer_hooks" / "model_monitors"
    written = {name for path in source.glob("*.py") for name in re.findall(r'"((?:qk|moe)/\w+)"', path.read_text())}
    assert set(documented("Inside the model")) == written | {"grad/norm/<module>"}


def test_every_variable_that_the_sdk_reads_is_documented():
    """The settings module is the only one that reads the environment, and each name it reads is on a page."""
    source = Path(__file__).parents[2] / "trainer_hooks"
    read = set(re.findall(r'"([A-Z]+(?:_[A-Z]+)*)"', (source / "settings.py").read_text()))
    page = (DOCS / "sdk.md").read_text() + (DOCS / "configuration.md").read_text()
    assert {"RLVITALS_URL", "RANK"} <= read
    assert {name for name in read if f"`{name}`" not in page} == set()
    assert ConnectionSettings.resolve(environ={}) is None
    others = [path for path in source.glob("*.py") if path.name != "settings.py"]
    others += [*(source / "delivery").glob("*.py"), *(source / "signals").glob("*.py")]
    assert [path.name for path in others if re.search(r"os\.environ|getenv", path.read_text())] == []
