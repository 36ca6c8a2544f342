import importlib
import json
import os
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import trainer_hooks
from tests import warm
from trainer_hooks.callbacks import verl
from trainer_hooks.wire import run_id

EXAMPLES = Path(trainer_hooks.__file__).parents[1] / "examples"
# SkyRL has its own environment, where tests/trainers/test_skyrl.py runs its example.
SCRIPTS = [path for path in sorted(EXAMPLES.glob("*.py")) if not path.name.startswith(("tiny_", "skyrl_"))]
CAPABILITIES = {script.stem: "L3" for script in SCRIPTS if script.stem.startswith("trl_")} | {"plain_loop": "L3"}
LAUNCHES = sorted(EXAMPLES.glob("*.sh"))
STARTED_BY_PYTHON = [launch for launch in LAUNCHES if launch.stem != "prime_rl"]
COLLECTOR = "http://collector:8600"
# The names of our package in the command of an example.
OURS = re.compile(r"\btrainer_hooks(?:\.\w+)+")
SIGNALS = {
    "trl_model_monitors": {"qk/spectral_entropy", "moe/load_entropy", "grad/norm/lm_head"},
    "trl_llds": {"loss/llds"},
    "trl_rollout": {"likelihood/action1"},
}


@pytest.mark.parametrize("script", SCRIPTS, ids=[script.stem for script in SCRIPTS])
def test_an_example_runs_and_its_steps_reach_a_real_collector(script, collector, tmp_path):
    """Every script in examples/ runs as it stands, and its run is finished on the collector."""
    environment = {
        "RLVITALS_URL": collector.url,
        "RLVITALS_RUN": script.stem,
        "PYTHONPATH": str(EXAMPLES.parent),
        "OMP_NUM_THREADS": "1",
        "TMPDIR": str(tmp_path),
    }
    done = warm.run([str(script)], cwd=tmp_path, env=os.environ | environment, timeout=240)
    assert done.returncode == 0, done.stdout
    run = collector.get(f"/runs/{run_id('default', script.stem)}")
    assert run["status"] == "finished"
    assert run["last_step"] >= 5
    assert run["capability"] == CAPABILITIES.get(script.stem, "L1")
    (first, *_) = collector.get(f"/runs/{run['id']}/steps", limit=20)["items"]
    later = {name for item in collector.get(f"/runs/{run['id']}/steps", limit=20)["items"] for name in item["signals"]}
    assert first["step"] == 1
    assert later >= SIGNALS.get(script.stem, set())


@pytest.mark.parametrize("launch", LAUNCHES, ids=[launch.stem for launch in LAUNCHES])
def test_what_a_launch_line_names_is_there(launch):
    """Trainers that no test can start: every module, hook and logger that their command names is ours and resolves."""
    text = launch.read_text()
    subprocess.run(["bash", "-n", str(launch)], check=True)
    named = set(OURS.findall(text))
    for name in named:
        assert pkgutil.resolve_name(name) is not None
    adapters = {found for line in re.findall(r"RLVITALS_HOOKS=(\w+)", text) for found in line.split(",")}
    for adapter in adapters:
        assert importlib.import_module(f"trainer_hooks.callbacks.{adapter}")
    assert named or adapters


@pytest.fixture
def run(tmp_path):
    """A function that runs a launch line where some commands are others, with an option of the user's own."""
    commands = tmp_path / "commands"
    commands.mkdir()

    def run(launch, stand_ins, **environ):
        for name, script in stand_ins.items():
            text = f"#!{sys.executable}\n{Path(__file__).with_name(script).read_text()}"
            (commands / name).write_text(text)
            (commands / name).chmod(0o755)
        path = os.pathsep.join([str(commands), str(Path(sys.executable).parent), os.environ["PATH"]])
        environ = os.environ | {"PATH": path, "PYTHONPATH": str(EXAMPLES.parent)} | environ
        command = ["bash", str(launch), "--max-steps", "3"]
        return subprocess.run(command, cwd=tmp_path, env=environ, check=False, timeout=240).returncode

    return run


@pytest.mark.parametrize("launch", STARTED_BY_PYTHON, ids=[launch.stem for launch in STARTED_BY_PYTHON])
def test_a_launch_line_tells_its_trainer_where_the_collector_is_and_ends_as_it_does(launch, run, tmp_path):
    """The address, the logger and the hooks reach the trainer, which is started last, and so do the user's options."""
    calls = tmp_path / "calls"
    assert run(launch, {"python": "fake_command.py", "ray": "fake_command.py"}, CALLS=str(calls)) == 3
    *before, (trainer, ours) = [json.loads(line) for line in calls.read_text().splitlines()]
    assert trainer[-2:] == ["--max-steps", "3"]
    assert COLLECTOR in [ours.get("RLVITALS_URL"), *(word.rpartition("RLVITALS_URL=")[2] for word in trainer)]
    loggers = [json.loads(word.partition("=")[2]) for word in trainer if word.startswith("trainer.logger=")]
    assert all(verl.NAME in names for names in loggers)
    if "RLVITALS_HOOKS" in ours:
        assert before[0][0] == ["python", "-m", "trainer_hooks.callbacks.bootstrap", "install"]
    assert loggers or "RLVITALS_HOOKS" in ours or OURS.search(" ".join(trainer))


def test_prime_rls_launch_line_follows_the_run_to_its_last_step_and_ends_as_it_does(run, collector, tmp_path):
    """Its folder is made after the follower's start, and its last steps are complete just before it fails."""
    launch = tmp_path / "launch.sh"
    launch.write_text((EXAMPLES / "prime_rl.sh").read_text().replace(COLLECTOR, collector.url))
    assert run(launch, {"uv": "fake_rl.py"}) == 3
    run_id_of_folder = run_id("default", "qwen-3b")
    assert collector.get(f"/runs/{run_id_of_folder}")["status"] == "stopped"
    assert [item["step"] for item in collector.get(f"/runs/{run_id_of_folder}/steps")["items"]] == [1, 2, 3]
