import importlib
import os
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import trainer_hooks
from trainer_hooks.callbacks import verl
from trainer_hooks.wire import run_id

EXAMPLES = Path(trainer_hooks.__file__).parents[1] / "examples"
# SkyRL has an environment of its own, where tests/trainers/test_skyrl.py runs its example.
SCRIPTS = [path for path in sorted(EXAMPLES.glob("*.py")) if not path.name.startswith(("tiny_", "skyrl_"))]
CAPABILITIES = {script.stem: "L3" for script in SCRIPTS if script.stem.startswith("trl_")} | {"plain_loop": "L3"}
LAUNCHES = sorted(EXAMPLES.glob("*.sh"))
# What a command of an example names, but for the trainer's own.
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
    subprocess.run([sys.executable, str(script)], check=True, cwd=tmp_path, env=os.environ | environment, timeout=240)
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
    if "trainer.logger" in text:
        assert f'"{verl.NAME}"' in text
    assert named or adapters
