"""A file of rules: checked with places, applied by the command and by the collector itself."""

import logging

import pytest

from monitor_server.access.callers import Caller, Scope
from monitor_server.commands.main import main
from monitor_server.errors import InvalidField, StartupError
from monitor_server.rules.administration.changes import Author
from monitor_server.rules.administration.rule_file import AGAIN_SECONDS, AppliedFile, load_rules
from monitor_server.rules.administration.single_rules import create_rule, delete_rule
from monitor_server.rules.definition import read_rule
from tests.databases import sqlite_only

RULES = """
set = "team"
[[rules]]
name = "kl"
condition = "threshold"
signal = "kl/ref"
operator = ">"
value = 0.5
[[rules]]
name = "gone"
project = "p"
condition = "absence"
signal = "<b>eval</b>"
for_seconds = 60
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "rules.toml"
    path.write_text(RULES)
    return path


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rules = 1", "rules must be a valid list"),
        (RULES.replace("0.5", "nan"), "rules[0].value must be a finite number, got nan"),
        (RULES.replace("0.5", "9" * 5000), "must be TOML"),
        ("sett = 'a'\nrules = []", "sett is not known; remove it, or correct its name"),
        ("", "rules must be set"),
        ("set = 'team'", "rules must be set"),
        ("set = 'A/B'\nrules = []", "set must be at most 60 lower-case letters, digits and . _ -, the first a letter"),
        ("threshold = 1\nrules = []", ": threshold is not known; remove it, or correct its name"),
        (RULES.replace("value = 0.5", "value = 0.5\nthreshold = 1"), "rules[0].threshold is not known; remove it"),
        ("[[rules]]", "rules[0] must have the condition"),
        (RULES.replace('"gone"\nproject = "p"', '"kl"'), "rules: two rules of a file must differ in name, project or"),
        (RULES.replace('"kl/ref"', '" kl/ref"'), "rules[0]: signal must have no hidden characters and no blanks"),
        (RULES.replace('"p"', '"p\\u200b"'), "rules[1]: project must have no hidden characters and no blanks"),
        ("= 1", "must be TOML"),
        ("x" * (1024 * 1024 + 1), "must hold at most 1 MiB"),
        ("[[rules]]\n" * 1001, "rules"),
    ],
)  # fmt: skip
def test_every_problem_of_a_file_is_named_with_its_place(file, text, message, capsys):
    """The function names it, and the command does so in one line with status 1."""
    file.write_text(text)
    with pytest.raises(InvalidField) as refused:
        load_rules(file)
    assert message in str(refused.value)
    assert str(refused.value).startswith(str(file))
    assert main(["rules", "check", str(file)]) == 1
    assert capsys.readouterr().err.count("\n") == 1


@sqlite_only
def test_the_command_checks_applies_tries_lists_and_deletes(start_collector, file, capsys):
    """Applying twice changes nothing the second time."""
    live = start_collector()
    run_id = live.run(run="r", project="p", records=[{"step": n, "scalars": {"kl/ref": n / 10}} for n in range(9)])
    url = ["--url", live.url]

    def printed(*arguments, status=0):
        assert main(["rules", *arguments]) == status
        return capsys.readouterr().out.splitlines()

    assert printed("check", str(file)) == [f"{file} is valid: 2 rules of the set team"]
    assert printed("apply", str(file), *url) == ["created kl", "created gone", "0 as before"]
    assert printed("apply", str(file), *url) == ["2 as before"]
    file.write_text(RULES.replace("0.5", "0.6").replace('name = "gone"', 'name = "away"'))
    assert printed("apply", str(file), *url) == ["created away", "changed kl: value", "deleted gone", "0 as before"]
    no_data = "no data: no step that was read has what it needs"
    assert printed("dry-run", str(file), "--run", run_id, *url) == [
        "kl (kl/ref > 0.6): it would have fired once; 9 steps were read",
        "  step 7, not resolved: kl/ref > 0.6 (0.7 since step 7)",
        f"away (<b>eval</b> is not recorded for 60 s): {no_data}; 9 steps were read",
    ]
    listed = printed("list", *url)
    assert [line.split()[1] for line in listed[1:]] == ["away", "kl"]
    assert printed("list", "--project", "p", *url)[1].split()[1] == "away"
    assert printed("delete", listed[1].split()[0], *url) == [
        "rule away is deleted; its alerts are resolved within seconds"
    ]
    assert printed("delete", "nobody", *url, status=1) == []
    assert printed("dry-run", str(file), *url, status=1) == []
    assert printed("apply", status=1) == []


def test_the_collector_applies_the_file_of_its_settings(store, file, clock, caplog):
    """At the start and after a change; a changed file that cannot be used changes nothing, and the log says why."""
    caplog.set_level(logging.INFO)
    seconds = [0.0]
    applied = AppliedFile(file, store, clock=clock, monotonic=lambda: seconds[0])

    def names():
        with store.read() as repositories:
            return sorted(each.name for each in repositories.rules.all())

    def write(text):
        file.write_text(text)
        applied.tick()
        seconds[0] += 2.0
        applied.tick()

    assert names() == ["gone", "kl"]
    with store.read() as repositories:
        assert {each.file_set for each in repositories.rules.all()} == {"collector"}
        revision = repositories.rules.revision()
    write("[[rules]]\nname = 'kl'")
    assert names() == ["gone", "kl"]
    assert "cannot be used" in caplog.text
    assert "rules[0] must have the condition" in applied.problem
    assert [each.levelname for each in caplog.records if "was applied" in each.message] == ["INFO"]
    write(RULES.replace('name = "gone"', 'name = "away"'))
    assert names() == ["away", "kl"]
    with store.read() as repositories:
        assert repositories.rules.revision() > revision
    file.unlink()
    applied.tick()
    assert names() == ["away", "kl"]
    with pytest.raises(StartupError, match="RLVITALS_RULES_FILE"):
        AppliedFile(file, store, clock=clock)


@sqlite_only
@pytest.mark.parametrize("text", ["", "# a full disk has cut it off", 'set = "team"'])
def test_an_emptied_file_deletes_no_rule(store, file, clock, text):
    """An editor or a full disk may leave it so; ``rules = []`` says that there are none."""
    seconds = [0.0]
    applied = AppliedFile(file, store, clock=clock, monotonic=lambda: seconds[0])
    counts = []
    for written in (text, "rules = []"):
        file.write_text(written)
        applied.tick()
        seconds[0] += 2.0
        applied.tick()
        with store.read() as repositories:
            counts.append(repositories.rules.count_all())
    assert counts == [2, 0]


def test_a_file_that_could_not_be_read_is_applied_once_it_can(store, file, clock, monkeypatch):
    """Its content and its time of change stay the same, and only its permissions change."""
    seconds = [0.0]
    applied = AppliedFile(file, store, clock=clock, monotonic=lambda: seconds[0])

    def tick():
        applied.tick()
        seconds[0] += 2.0
        applied.tick()
        with store.read() as repositories:
            return sorted(each.name for each in repositories.rules.all())

    def refused(*_):
        raise PermissionError(13, "Permission denied")

    file.write_text(RULES.replace('name = "gone"', 'name = "away"'))
    file.chmod(0o200)
    with monkeypatch.context() as unreadable:
        unreadable.setattr("os.open", refused)  # root may read everything
        assert tick() == ["gone", "kl"]
    file.chmod(0o600)
    assert tick() == ["away", "kl"]


def test_a_name_that_a_person_has_taken_keeps_no_collector_from_starting(store, file, clock, caplog):
    """A key for one project is enough to take it; the log says so once, and the file is in force once it is free."""
    tenant = Author(caller=Caller(name="tenant", scope=Scope.OPERATE, project="p"), now=clock())
    rule = {"name": "gone", "condition": "threshold", "signal": "kl/ref", "operator": ">", "value": 1.0}
    with store.write() as repositories:
        taken = create_rule(repositories, read_rule(rule), author=tenant)
    seconds = [0.0]
    applied = AppliedFile(file, store, clock=clock, monotonic=lambda: seconds[0])

    def tick():
        seconds[0] += AGAIN_SECONDS
        applied.tick()
        with store.read() as repositories:
            return sorted((each.name, each.file_set) for each in repositories.rules.all())

    assert tick() == tick() == [("gone", None)]
    assert [record.message.partition(", which is tried every 60 s: ")[2] for record in caplog.records] == [
        "a rule named 'gone' for the same project and run was made by a person; choose another name"
    ]
    with store.write() as repositories:
        delete_rule(repositories, taken.id, author=tenant)
    assert tick() == [("gone", "collector"), ("kl", "collector")]
    assert applied.problem is None


@pytest.mark.parametrize(
    "named", ['run_id = "{}"', 'project = "default"\ncondition = "comparison"\nother_run_id = "{}"']
)
def test_a_run_that_was_deleted_does_not_keep_a_collector_from_starting(start_collector, file, caplog, named):
    """The other rules stay as they were, and the log names the run."""
    live = start_collector()
    run_id = live.run(run="r", records=[{"step": 0, "scalars": {"kl/ref": 1.0}}], end="finished")
    rule = f'[[rules]]\nname = "last-week"\nsignal = "kl/ref"\noperator = ">"\nvalue = 1.0\n{named.format(run_id)}\n'
    file.write_text(RULES + (rule if "condition" in rule else f'{rule}condition = "threshold"\n'))
    live = start_collector(rules_file=file)
    assert {item["kind"] for item in live.get("/rules")["items"]} == {"rule:kl", "rule:gone", "rule:last-week"}
    assert live.pool.request("DELETE", f"{live.url}/api/v1/runs/{run_id}?force=true").status == 200
    live = start_collector(rules_file=file)
    assert {item["kind"] for item in live.get("/rules")["items"]} >= {"rule:kl", "rule:gone"}
    assert run_id in caplog.text
    assert run_id in live.get("/status")["rules_file_problem"]
