"""The GitHub Action: its script, taken from action.yml and run by bash as a runner runs it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.monitor_server.commands.logs.trainer_states import write

ACTION = Path(__file__).parents[4] / "action.yml"
# Stands for `python3 -m venv FOLDER`: an environment whose pip does nothing and whose rlvitals is the one under test.
MAKES_ENVIRONMENT = """#!/bin/sh
mkdir -p "$3/bin"
printf '#!/bin/sh\\nexit 0\\n' > "$3/bin/pip"
printf '#!/bin/sh\\nexec "%s" -m monitor_server "$@"\\n' "$REAL_PYTHON" > "$3/bin/rlvitals"
chmod +x "$3/bin/pip" "$3/bin/rlvitals"
"""


def run_action(folder, **inputs):
    """Run the action's step with its inputs, as the runner passes them; return status, output and summary."""
    action = yaml.safe_load(ACTION.read_text())
    (step,) = action["runs"]["steps"]
    values = {name: str(entry.get("default", "")) for name, entry in action["inputs"].items()} | inputs
    variables = {name: _filled(text, values) for name, text in step["env"].items()}
    (folder / "bin").mkdir(exist_ok=True)
    (folder / "bin" / "python3").write_text(MAKES_ENVIRONMENT)
    (folder / "bin" / "python3").chmod(0o755)
    files = {"GITHUB_STEP_SUMMARY": str(folder / "summary"), "GITHUB_OUTPUT": str(folder / "output")}
    environment = os.environ | variables | files | {"REAL_PYTHON": sys.executable, "TMPDIR": str(folder)}
    environment["PATH"] = f"{folder / 'bin'}:{environment['PATH']}"
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False)
    return done, (folder / "output").read_text(), (folder / "summary").read_text()


def _filled(text, values):
    """Replace the action's expressions as the runner does."""
    for name, value in values.items():
        text = text.replace("${{ inputs." + name + " }}", value)
    return text.replace("${{ github.action_path }}", str(ACTION.parent))


@pytest.mark.parametrize(
    ("dies_at", "inputs", "status"),
    [(None, {}, 0), (20, {}, 3), (20, {"fail-on": "never"}, 0), (20, {"fail-on": "warning"}, 3)],
)
def test_the_action_fails_a_job_as_the_command_does(tmp_path, dies_at, inputs, status):
    """The job's status, its output, the report in its summary, and the page as a file."""
    write(tmp_path / "trainer_state.json", dies_at=dies_at)
    done, output, summary = run_action(tmp_path, path="trainer_state.json", **inputs)
    assert (done.returncode, output) == (status, f"status={status}\n")
    assert ("CRITICAL" in summary) == (dies_at is not None)
    assert (tmp_path / "rlvitals-check.html").read_text().startswith("<!doctype html>")


def test_no_name_in_a_log_ends_the_block_of_the_report_in_the_summary(tmp_path):
    """A block of code whose every line is indented has no end mark that a text could contain."""
    name = "```` <h1>x.json"
    write(tmp_path / name, dies_at=20)
    _, _, summary = run_action(tmp_path, path=name)
    before, *lines, after = summary.split("\n")[:-1]
    assert (before, after) == ("", "")
    assert "```` <h1>x" in summary
    assert all(line.startswith("    ") for line in lines)


def test_no_text_of_a_log_is_a_command_to_the_runner(tmp_path):
    """A runner reads commands in the output of a step, except between a stop and its secret mark."""
    name = "run##[error]fake.json"
    write(tmp_path / name, dies_at=20, **{"k" * 70: 1.0, "::error title=Build::mine": 1.0})
    done, _, summary = run_action(tmp_path, path=name)
    lines = done.stdout.split("\n")[:-1]
    stop, mark = lines[0].rsplit("::", 1)
    assert (stop, lines[-1]) == ("::stop-commands", f"::{mark}::")
    assert re.fullmatch("[0-9a-f]{32}", mark)
    assert "##[error]fake" in "".join(lines[1:-1])
    assert mark not in summary
    assert run_action(tmp_path, path=name)[0].stdout.split("\n")[0] != lines[0]


def test_the_summary_is_plain_where_the_workflow_asks_for_colours(tmp_path, monkeypatch):
    """Many workflows set them for every job, and a summary would show their codes."""
    for variable in ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.setenv(variable, "1")
    write(tmp_path / "trainer_state.json", dies_at=20)
    done, _, summary = run_action(tmp_path, path="trainer_state.json")
    assert "CRITICAL" in summary
    assert "\x1b" not in summary + done.stdout


def test_the_action_maps_keys_a_line_each_and_reads_no_input_as_shell(tmp_path):
    """A name with a space and a command substitution is a path, and a map of two lines is two options."""
    name = "my $(touch made) state.json"
    write(tmp_path / name, dies_at=20, loss_of_mine=1.0, other=2.0)
    done, _, summary = run_action(tmp_path, path=name, map="loss/policy=loss_of_mine\nkl/ref=other\n")
    assert done.returncode == 3
    assert "loss/policy = loss_of_mine" in summary
    assert "kl/ref = other" in summary
    assert not (tmp_path / "made").exists()


def test_the_summary_says_why_a_log_could_not_be_read(tmp_path):
    """The errors of the check stand in it as its report does; a map of blanks is no map."""
    done, output, summary = run_action(tmp_path, path="gone.json", map="  \n")
    assert (done.returncode, output) == (1, "status=1\n")
    assert "rlvitals: " in summary
    assert "gone.json" in summary


def test_the_action_refuses_an_empty_path(tmp_path):
    """An unset variable of the workflow would check the whole checkout."""
    (tmp_path / "output").touch()
    (tmp_path / "summary").touch()
    done, output, _ = run_action(tmp_path, path="")
    assert (done.returncode, output) == (1, "")
    assert "path must name a log or a folder of logs" in done.stderr


def test_the_action_writes_no_page_where_none_is_named(tmp_path):
    """A workflow that needs only the summary sets `html` to nothing."""
    write(tmp_path / "trainer_state.json")
    done, _, summary = run_action(tmp_path, path="trainer_state.json", html="")
    assert (done.returncode, done.stderr) == (0, "")
    assert "trainer_state.json" in summary
    assert not list(tmp_path.glob("*.html"))


def test_the_action_refuses_a_severity_that_it_does_not_know_before_it_installs(tmp_path):
    """The command would name two of the three values, a minute later."""
    for name in ("output", "summary"):
        (tmp_path / name).touch()
    done, output, _ = run_action(tmp_path, path="trainer_state.json", **{"fail-on": "Critical"})
    assert (done.returncode, output) == (1, "")
    assert done.stderr == "fail-on must be critical, warning or never, got 'Critical'\n"
