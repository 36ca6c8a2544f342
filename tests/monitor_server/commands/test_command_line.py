"""The command line: lists over HTTP, its help, its version, and the characters that reach a terminal."""

import ast
import contextlib
import os
import re
import socket
import sqlite3
import subprocess
import sys
from importlib.metadata import version

import pytest
from sqlalchemy import create_engine, text, update

from monitor_server.access.keys.administration import MAX_KEYS
from monitor_server.commands.main import COMMANDS, main
from monitor_server.commands.terminal import printable
from monitor_server.store.database import Store
from monitor_server.store.tables import alerts, api_keys
from tests.bad_collectors import answering
from tests.live import eventually


def test_runs_and_alerts_are_listed(start_collector, scripted, capsys):
    """A table with a heading and a line for each."""
    live = start_collector(engine=scripted)
    live.send(run="r", project="p", records=[{"step": 3, "scalars": {"warn": 1.0}}])
    assert main(["runs", "--url", live.url]) == 0
    heading, line = capsys.readouterr().out.splitlines()
    assert heading.split()[:4] == ["project", "name", "status", "phase"]
    assert line.split()[:6] == ["p", "r", "running", "healthy", "3", "1"]
    assert main(["alerts", "--url", live.url]) == 0
    _, line = capsys.readouterr().out.splitlines()
    assert line.split()[:6] == ["p", "r", "warning", "firing", "scripted", "3"]


def test_an_alert_is_acknowledged(start_collector, scripted, capsys):
    """The id is the one in the list; an id that no alert has is reported in one line."""
    live = start_collector(engine=scripted)
    live.send(run="r", records=[{"step": 3, "scalars": {"warn": 1.0}}])
    (alert,) = live.get("/alerts")["items"]
    assert main(["alerts", "--url", live.url, "--ack", alert["id"], "--by", "ann", "--note", "seen"]) == 0
    assert capsys.readouterr().out == "scripted of r: firing, acknowledged by ann\n"
    (alert,) = live.get("/alerts")["items"]
    assert (alert["acknowledged_by"], alert["note"]) == ("ann", "seen")
    assert main(["alerts", "--url", live.url, "--ack", "nobody/../runs"]) == 1
    assert "404" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["runs", "alerts"])
def test_a_collector_that_does_not_answer_is_reported_in_one_line(command, capsys, unused_port):
    """The status is 1, and the line has the address and the remedy."""
    assert main([command, "--url", f"http://127.0.0.1:{unused_port}"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert str(unused_port) in line
    assert "rlvitals serve" in line


def test_https_at_a_collector_without_tls_is_reported_with_the_remedy(start_collector, capsys):
    """A collector answers there, so that starting another one would not help."""
    live = start_collector()
    assert main(["runs", "--url", live.url.replace("http://", "https://")]) == 1
    line = capsys.readouterr().err
    assert "give its address with http://" in line
    assert "rlvitals serve" not in line


def test_an_address_without_a_scheme_is_reported_in_one_line(capsys):
    """The status is 1, and the line has the given value and the needed form; no request is sent."""
    assert main(["runs", "--url", "localhost:8600"]) == 1
    assert (
        capsys.readouterr().err
        == "rlvitals: --url (RLVITALS_URL) must look like http://127.0.0.1:8600, got 'localhost:8600'\n"
    )


@pytest.mark.parametrize(
    "address",
    [
        "http://bob:hidden@127.0.0.1:9",
        "http://bob:hid/den@127.0.0.1:9",
        "bob:hidden@127.0.0.1:9",
        "http://bob:hidden@[",
        "http://127.0.0.1:9?bob:hidden@x",
    ],
)
def test_a_password_in_an_address_is_refused_and_not_shown(address, capsys, monkeypatch):
    """A trainer refuses the same variable; the output of the doctor is what people paste into tickets."""
    monkeypatch.setenv("RLVITALS_URL", address)
    assert main(["runs"]) == 1
    line = capsys.readouterr().err
    assert "must have no user or password, got one before" in line
    assert main(["doctor", "--json", "--database", "sqlite:////nowhere/x.db"]) == 1
    printed = capsys.readouterr().out
    assert "RLVITALS_API_KEY" in printed
    assert not any(part in line + printed for part in ("bob", "hid"))


@pytest.mark.parametrize("slash", ["", "/", "/\n"])
def test_the_address_comes_from_the_option_then_from_the_environment(
    slash, start_collector, tmp_path, capsys, monkeypatch
):
    """`RLVITALS_URL`, as trainers read it, with or without a slash or a line break at its end; an option is first."""
    live = start_collector()
    log = tmp_path / "log.jsonl"
    log.write_text('{"step": 1, "reward": 0.5}\n')
    monkeypatch.setenv("RLVITALS_URL", live.url + slash)
    for command in (["replay", str(log)], ["runs"], ["alerts"], ["silence", "list"], ["keys", "list"], ["audit"]):
        assert main(command) == 0
    assert f"{live.url}/runs/" in capsys.readouterr().out
    monkeypatch.setenv("RLVITALS_URL", "no address")
    assert main(["runs", "--url", live.url + slash]) == 0
    assert main(["keys", "list", "--url", live.url + slash]) == 0
    assert main(["runs"]) == 1
    assert "--url (RLVITALS_URL) must look like http://127.0.0.1:8600, got 'no address'" in capsys.readouterr().err


def test_every_command_with_an_address_reads_it_from_the_environment(capsys):
    """The help page of each command states it; no command has a different rule."""
    for name in COMMANDS:
        assert main([name, "--help"]) == 0
        page = capsys.readouterr().out
        assert ("--url" in page) == ("RLVITALS_URL" in page), name


def test_keys_are_made_in_a_database_that_is_named_and_not_at_the_address_of_trainers(
    database_url, capsys, monkeypatch, unused_port
):
    """`RLVITALS_URL` counts only where neither the option nor the environment names a database."""
    monkeypatch.setenv("RLVITALS_URL", f"http://127.0.0.1:{unused_port}")
    assert main(["keys", "create", "a", "--scope", "read", "--database", database_url]) == 0
    monkeypatch.setenv("RLVITALS_DATABASE_URL", database_url)
    assert main(["keys", "list"]) == 0
    monkeypatch.delenv("RLVITALS_DATABASE_URL")
    assert main(["keys", "list"]) == 1
    assert str(unused_port) in capsys.readouterr().err


ESCAPES = "\x1b]0;mine\x07\x1b[2J\r\nforged line\u202e\u2028\x9b31m"


def test_text_from_a_collector_is_escaped_in_the_terminal(start_collector, database_url, scripted, capsys):
    """Stored names and answers cannot move the cursor, set the title or forge a line; new names must be plain."""
    live = start_collector(engine=scripted)
    live.send(run="r", project="p", records=[{"step": 3, "scalars": {"warn": 1.0}}])
    (alert,) = live.get("/alerts")["items"]
    acknowledge = ["alerts", "--url", live.url, "--ack", alert["id"], "--by"]
    assert main([*acknowledge, "ann" + ESCAPES, "--note", ESCAPES]) == 1
    assert main([*acknowledge, "ann", "--note", "seen"]) == 0
    engine = create_engine(database_url)
    with engine.begin() as connection:  # as an earlier version has stored it
        connection.execute(update(alerts).values(acknowledged_by="ann" + ESCAPES))
    engine.dispose()
    assert main(["alerts", "--url", live.url]) == 0
    assert main(["runs", "--url", live.url]) == 0
    assert main(["alerts", "--url", live.url, "--ack", ESCAPES]) == 1
    printed = capsys.readouterr()
    assert [
        character for character in printed.out + printed.err if not (character.isprintable() or character == "\n")
    ] == []
    assert r"ann\x1b]0;mine\x07\x1b[2J\r\nforged line\u202e\u2028\x9b31m" in printed.out
    assert len(printed.out.splitlines()) == 1 + 2 + 2
    assert len(printed.err.splitlines()) == 2


@pytest.mark.parametrize("text", ["a\x1b[2J", "two\nlines", "\ud800", "\u202eevil", "\x85", "tab\t"])
def test_a_character_that_is_not_printable_is_written_as_an_escape(text):
    """This includes line ends, C1 controls, direction marks and lone surrogates, which a terminal cannot encode."""
    assert printable(text).isprintable()
    assert printable(text).encode().decode("unicode_escape") == text


def test_printable_text_is_left_alone():
    """Accents, CJK characters and emoji are printed unchanged."""
    assert printable("réward 奖励 🙂 [bold]") == "réward 奖励 🙂 [bold]"


def test_the_version_is_that_of_the_distribution(capsys):
    """`rlvitals --version` prints one line."""
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"rlvitals {version('rlvitals')}\n"


def test_the_help_page_lists_every_command_without_importing_one(capsys):
    """The page of the root waits for no numpy and no web framework; a pipe gets no colours; each command has a page."""
    code = "import sys; from monitor_server.commands.main import main; main(['--help']); print(sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    page, modules = done.stdout.rstrip().rsplit("\n", 1)
    assert all(f" {name} " in page for name in COMMANDS)
    assert "\x1b" not in page
    assert not {"numpy", "fastapi", "pydantic", "sqlalchemy", "urllib3"} & set(ast.literal_eval(modules))
    for name in COMMANDS:
        assert main([name, "--help"]) == 0
        page = capsys.readouterr().out
        assert f"rlvitals {name}" in page
        assert not re.search(r"<[\w-]+\|[\w|-]*\s", page), "a list of choices is broken within a word"


def ending_early(command, *, lines=0):
    """Run a command whose reader closes the output after some lines; return its standard error."""
    script = [sys.executable, "-m", "monitor_server", *command]
    with subprocess.Popen(script, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        for _ in range(lines):
            process.stdout.readline()
        process.stdout.close()
        return process.stderr.read()


def test_an_output_that_is_closed_early_ends_a_command_quietly(start_collector, scripted, tmp_path):
    """As with `| head -1`, there is no traceback and no error line, also where the command writes to its own file."""
    live = start_collector(engine=scripted)
    live.send(run="r", records=[{"step": 3, "scalars": {"warn": 1.0}}])
    (alert,) = live.get("/alerts")["items"]
    log = tmp_path / "log.jsonl"
    log.write_text("".join(f'{{"step": {step}, "reward": 0.5}}\n' for step in range(1, 40)))
    for command, lines in (
        (["replay", str(log), "--url", live.url], 0),
        (["check", str(log), "--html", "/dev/stdout"], 0),
        (["check", str(log), "--html", "/dev/stdout"], 1),
        (["incident", alert["id"], "-o", "/dev/stdout", "--url", live.url], 0),
        (["runs", "--url", live.url], 1),
        (["--help"], 0),
    ):
        assert ending_early(command, lines=lines) == "", command


def test_an_unknown_command_or_option_or_value_is_status_2(capsys):
    """Tools of the shell do the same; the message names the option, and no variable."""
    assert main(["bakctest"]) == 2
    assert main(["runs", "--urll", "x"]) == 2
    assert "bakctest" in capsys.readouterr().err
    assert main(["serve", "--port", "70000"]) == 2
    assert main(["serve", "--role", "bogus"]) == 2
    printed = capsys.readouterr().err
    assert "--port" in printed
    assert "--role" in printed
    assert "a setting cannot be used" not in printed


def test_a_shell_can_complete_the_commands():
    """Typer's completion has every subcommand."""
    asked = {"_RLVITALS_COMPLETE": "complete_bash", "COMP_WORDS": "rlvitals ca", "COMP_CWORD": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "monitor_server"], env=os.environ | asked, capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["calibrate"]


def test_a_run_and_a_project_are_deleted(start_collector, capsys):
    """A run that trains needs --force; the rest of its project goes with the project."""
    live = start_collector()
    first = live.run(run="first", project="my project/1", records=[{"step": 0, "scalars": {"a": 1.0}}])
    live.send(run="second", project="my project/1", end="finished")
    ask = ["runs", "--url", live.url]
    assert main([*ask, "--delete", first]) == 1
    refusal = capsys.readouterr().err
    assert "'first' is running" in refusal
    assert "`rlvitals runs --force`" in refusal
    assert main([*ask, "--delete", first, "--force"]) == 0
    assert main([*ask, "--delete-project", "my project/1"]) == 0
    assert capsys.readouterr().out.count("1 run deleted") == 2
    assert live.get("/runs")["items"] == []
    assert main([*ask, "--force"]) == 1
    assert main([*ask, "--delete", "a", "--reset", "a"]) == 1


ASKING = [
    ["runs"],
    ["runs", "--reset", "x"],
    ["runs", "--delete", "x"],
    ["alerts"],
    ["alerts", "--ack", "x"],
    ["alerts", "--history", "x"],
    ["alerts", "--right", "x"],
    ["audit"],
    ["silence", "list"],
    ["silence", "end", "x"],
    ["silence", "add", "--project", "p", "--hours", "1"],
    ["rules", "list"],
    ["rules", "delete", "x"],
    ["keys", "list"],
    ["keys", "create", "x", "--scope", "read"],
    ["keys", "revoke", "x"],
    ["notifications", "list"],
    ["notifications", "test", "x"],
    ["notifications", "reload"],
    ["notifications", "end-links"],
    ["warranty"],
    ["warranty", "x"],
    ["watch"],
    ["reassess"],
    ["replay"],
]


@pytest.mark.parametrize(
    "answer", [b'{"status": "ok"}', b'{"items": [{}], "next": null}', b'{"items": null, "next": null}']
)
@pytest.mark.parametrize("command", ASKING, ids=" ".join)
def test_an_answer_that_is_no_collectors_is_reported_in_one_line(command, answer, tmp_path, capsys):
    """For any JSON of the other program the status is 1 and the line has the remedy; there is no traceback."""
    if command[0] == "replay":
        log = tmp_path / "log.jsonl"
        log.write_text('{"step": 1, "reward/mean": 0.5}\n')
        command = ["replay", str(log)]
    with answering(200, answer) as url:
        assert main([*command, "--url", url]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "give the address of a collector as --url" in line


def test_the_links_of_a_collector_that_does_not_say_whether_its_secret_is_new_are_ended(capsys):
    """An older collector always makes a new one, and has no word for it."""
    with answering(200, b'{"ended": 3}') as url:
        assert main(["notifications", "end-links", "--url", url]) == 0
    assert "3 links no longer hold; messages from now on are signed with a new secret" in capsys.readouterr().out


def test_the_doctor_names_a_server_that_answers_otherwise(capsys):
    """Its status has nothing of a collector's: a problem, and no traceback."""
    with answering(200, b'{"status": "ok"}') as url:
        assert main(["doctor", "--url", url, "--database", "sqlite:///none.db"]) == 1
    assert "the answer must have 'version'" in capsys.readouterr().out


@pytest.mark.parametrize("named", ["", ".", ".."])
def test_an_id_that_leads_to_another_path_is_refused(named, capsys, unused_port):
    """An empty id, or dots that an address loses, are named before anything is asked."""
    url = f"http://127.0.0.1:{unused_port}"
    for command in (["alerts", "--ack", named], ["incident", named], ["export", named, "-o", "x.jsonl"]):
        assert main([*command, "--url", url]) == 1
        assert f"must not be empty or dots, got {named!r}" in capsys.readouterr().err


def test_arguments_that_are_no_text_are_reported_in_one_line(start_collector, tmp_path, capsys):
    """A shell gives bytes that are no UTF-8 as lone surrogates; they name nothing, and nothing is sent in a body."""
    live = start_collector()
    file = str(tmp_path / "x.jsonl")
    for command in (["runs", "--delete", "\udcff"], ["export", "--project", "\udcff", "-o", file]):
        assert main([*command, "--url", live.url]) == 1
        assert "answered 404" in capsys.readouterr().err
    assert main(["silence", "add", "--project", "\udcff", "--hours", "1", "--url", live.url]) == 1
    assert "must be text in UTF-8, got" in capsys.readouterr().err


@pytest.mark.parametrize("key", ["rlv_secret\nrlv_second", "rlv_secret\x7f", "rlv_secret\u043a"])
def test_a_key_that_cannot_be_one_is_not_printed(key, capsys, monkeypatch, unused_port):
    """A file of two keys may have been read into the variable: the line names the variable and not its value."""
    monkeypatch.setenv("RLVITALS_API_KEY", key)
    assert main(["runs", "--url", f"http://127.0.0.1:{unused_port}"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "RLVITALS_API_KEY must hold one key" in line
    assert "secret" not in line


def test_options_of_alerts_that_exclude_each_other_are_refused(capsys, unused_port):
    """No such option is ignored silently."""
    url = ["--url", f"http://127.0.0.1:{unused_port}"]
    assert main(["alerts", "--ack", "a", "--comment", "a", "--note", "n", *url]) == 1
    assert "--ack, --comment cannot be given together" in capsys.readouterr().err
    assert main(["alerts", "--wrong", "a", "--failed-at", "3", *url]) == 1
    assert "--failed-at needs --right ID" in capsys.readouterr().err
    assert main(["alerts", "--note", "known", *url]) == 1
    assert "--by and --note need --ack, --comment, --right or --wrong ID" in capsys.readouterr().err


def test_a_user_without_a_name_signs_with_a_number(start_collector, scripted, capsys, monkeypatch):
    """Containers run as users without an entry on the machine."""

    def unknown(number):
        raise KeyError(f"getpwuid(): uid not found: {number}")

    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", unknown)
    live = start_collector(engine=scripted)
    live.send(run="r", records=[{"step": 3, "scalars": {"warn": 1.0}}])
    (alert,) = live.get("/alerts")["items"]
    assert main(["alerts", "--url", live.url]) == 0
    assert main(["alerts", "--url", live.url, "--ack", alert["id"]]) == 0
    assert f"acknowledged by user {os.getuid()}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([""], "name: String should have at least 1 character"),
        (["n" * 201], "name: String should have at most 200 characters"),
        (["a\u202eb"], r"name: must be one line of characters that are shown, got a\u202eb"),
        (["a\udcff"], r"name: must be one line of characters that are shown, got a\udcff"),
        (["a", "--project", ""], "project: String should have at least 1 character"),
        (["a", "--project", "p\udcff"], "project: must be one line of characters that are shown"),
        (["a", "--days", "inf"], "days: Input should be less than or equal to 36500"),
        (["a", "--days", "0"], "days: Input should be greater than 0"),
    ],
)
def test_a_key_is_made_on_the_machine_as_over_http(arguments, said, database_url, capsys):
    """A name, a project or an end that the API refuses is refused, and no key is printed."""
    assert main(["keys", "create", "--scope", "read", "--database", database_url, *arguments]) == 1
    printed = capsys.readouterr()
    assert (printed.out, said in printed.err) == ("", True)


@pytest.mark.parametrize("arguments", [["list"], ["revoke", "a"]], ids=" ".join)
def test_the_keys_of_a_database_that_is_not_there_are_not_said_to_be_none(arguments, tmp_path, capsys):
    """An empty list would hide that the path is mistyped; no database is left behind either."""
    database = tmp_path / "mistyped.db"
    assert main(["keys", *arguments, "--database", f"sqlite:///{database}"]) == 1
    printed = capsys.readouterr()
    assert (printed.out, list(tmp_path.iterdir())) == ("", [])
    assert printed.err.startswith(f"rlvitals: there is no database sqlite:///{database}; set RLVITALS_DATABASE_URL")
    with contextlib.closing(sqlite3.connect(database)) as connection:
        connection.execute("CREATE TABLE theirs (id INTEGER)")
    assert main(["keys", *arguments, "--database", f"sqlite:///{database}"]) == 1
    assert "with tables of rlvitals; set RLVITALS_DATABASE_URL" in capsys.readouterr().err


def test_a_key_beyond_those_that_a_project_may_have_is_refused_without_a_traceback(database_url, capsys):
    """The row of the first key is copied, because making 1,000 keys one by one takes long."""
    create = ["keys", "create", "--scope", "read", "--project", "p", "--database", database_url]
    assert main([*create, "first"]) == 0
    engine = create_engine(database_url)
    with engine.begin() as connection:
        (first,) = connection.execute(api_keys.select()).mappings()
        copies = [
            dict(first) | {"id": f"{number:016x}", "hash": b"%032d" % number, "number": number, "name": f"k{number}"}
            for number in range(first["number"] + 1, first["number"] + MAX_KEYS)
        ]
        connection.execute(api_keys.insert(), copies)
    engine.dispose()
    capsys.readouterr()
    assert main([*create, "one more"]) == 1
    printed = capsys.readouterr()
    assert (printed.out, printed.err.startswith("rlvitals: a project can have at most 1,000 keys")) == ("", True)


def test_a_key_in_a_database_that_is_made_for_it_is_said_to_be_unknown_to_collectors(tmp_path, capsys):
    """The command may run in another folder than the collector; a second key there is no surprise any more."""
    create = ["keys", "create", "--scope", "read", "--database", f"sqlite:///{tmp_path / 'stray.db'}"]
    noted = []
    for name in ("a", "b"):
        assert main([*create, name]) == 0
        noted.append("stray.db was created for this key" in capsys.readouterr().err)
    assert noted == [True, False]
    (tmp_path / "empty.db").touch()
    assert main([*create[:-1], f"sqlite:///{tmp_path / 'empty.db'}", "a"]) == 0
    assert "empty.db had no tables of rlvitals, which were made for this key" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["list"], ["revoke", "a"], ["create", "b", "--scope", "read"]], ids=" ".join)
def test_the_keys_of_an_older_database_are_left_to_its_collector(arguments, database_url, capsys):
    """A migration by a command, for which nobody has made a backup, would stop the collector that runs on it."""
    Store.open(database_url).close()
    engine = create_engine(database_url)
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '0011'"))
    assert main(["keys", *arguments, "--database", database_url]) == 1
    printed = capsys.readouterr()
    assert (printed.out, "has the schema 0011" in printed.err) == ("", True)
    with engine.connect() as connection:
        assert connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one() == "0011"
    engine.dispose()


def test_an_end_that_no_calendar_has_is_listed(database_url, capsys):
    """An earlier version has stored such an end; the other keys are listed as well."""
    assert main(["keys", "create", "a", "--scope", "read", "--database", database_url]) == 0
    engine = create_engine(database_url)
    with engine.begin() as connection:
        connection.execute(update(api_keys).values(expires_at=1e300))
    engine.dispose()
    capsys.readouterr()
    assert main(["keys", "list", "--database", database_url]) == 0
    assert "1e+300 s" in capsys.readouterr().out


@pytest.mark.parametrize("command", [["keys", "list"], ["backup", "b.db"], ["serve"]])
def test_a_setting_that_cannot_be_used_is_reported_in_one_line(command, monkeypatch, capsys):
    """Each command that reads the collector's settings names the variable and the value."""
    monkeypatch.setenv("RLVITALS_PORT", "abc")
    assert main(command) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "RLVITALS_PORT: Input should be a valid integer" in line
    assert "got 'abc'" in line


@pytest.mark.parametrize(
    ("command", "library"),
    [
        (["rules", "check", "rules.toml"], "sqlalchemy"),
        (["keys", "list", "--database", "sqlite:///a.db"], "sqlalchemy"),
    ],
)
def test_a_command_names_the_library_that_it_needs_for_one_of_its_tasks(command, library):
    """The base install has the command, whose other tasks need a collector alone."""
    code = f"import sys; sys.modules['{library}'] = None\nfrom monitor_server.commands.main import main\n"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}sys.exit(main({command!r}))"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr == (
        f"rlvitals: `rlvitals {command[0]}` needs {library}, which is not installed: "
        "pip install 'rlvitals[server,dashboard]'\n"
    )


@pytest.mark.parametrize("library", ["sqlalchemy", "dash", "torch"])
def test_the_demo_says_what_to_install_before_it_starts_anything(library, monkeypatch, capsys, tmp_path):
    """Its processes import libraries that the command itself does not."""
    monkeypatch.setitem(sys.modules, library, None)
    assert main(["demo", "--directory", str(tmp_path / "demo")]) == 1
    assert capsys.readouterr().err == (
        f"rlvitals: `rlvitals demo` needs {library}, which is not installed: "
        "pip install 'rlvitals[server,dashboard,trainer]'\n"
    )
    assert not (tmp_path / "demo").exists()


def test_the_demo_refuses_a_port_and_a_folder_that_it_cannot_use_before_it_starts_anything(
    capsys, tmp_path, unused_port
):
    """A collector on the port would answer in its place, and the demo would send its run to that one."""
    (tmp_path / "file").write_text("")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["demo", "--port", str(port), "--directory", str(tmp_path / "demo")]) == 1
    assert main(["demo", "--port", str(unused_port), "--directory", str(tmp_path / "file" / "demo")]) == 1
    printed = capsys.readouterr()
    in_use, folder = printed.err.splitlines()
    assert in_use.endswith(f"127.0.0.1:{port}: Address already in use; choose another with --port")
    assert folder.startswith("rlvitals: --directory must name a folder that can be written: ")
    assert printed.out == ""
    assert not (tmp_path / "demo").exists()


def test_the_value_of_a_setting_that_cannot_be_used_is_bounded_and_holds_no_password(monkeypatch, capsys):
    """Control characters are escaped; the part before the host of an address is left out."""
    monkeypatch.setenv("RLVITALS_PUBLIC_URL", "ftp://ann:hidden@host/\x1b[2J" + "x" * 10_000)
    assert main(["serve"]) == 1
    line = capsys.readouterr().err
    assert (
        "RLVITALS_PUBLIC_URL: must be http:// or https:// with a host (IPv6 in brackets), in ASCII without blanks, "
        "?, # and a user, got 'ftp://***@host/" in line
    )
    assert "hidden" not in line
    assert "\x1b" not in line
    assert len(line) < 400


def test_a_download_from_an_address_without_a_collector_says_what_to_do_next(tmp_path, unused_port, capsys):
    """Nothing was received, so another address or a collector is missing, and not the end of a file."""
    file = tmp_path / "run.jsonl"
    assert main(["export", "0" * 16, "-o", str(file), "--url", f"http://127.0.0.1:{unused_port}"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("nothing was written; start one with `rlvitals serve`, or give its address as --url")
    assert not file.exists()


def test_a_download_that_sigterm_ends_leaves_no_unfinished_file(tmp_path):
    """The collector has sent a part of an export and sends no more; the part would stay under a random name."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        command = ["export", "r", "--output", str(tmp_path / "r.jsonl"), "--url", url]
        with subprocess.Popen([sys.executable, "-m", "monitor_server", *command], stderr=subprocess.DEVNULL) as process:
            connection, _ = listener.accept()
            with connection:
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 9000000\r\n\r\n" + b"x" * 3_000_000)
                eventually(lambda: list(tmp_path.glob("*.partial")))
                process.terminate()
                assert process.wait() == 130
    assert list(tmp_path.iterdir()) == []
