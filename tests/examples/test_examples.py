import os
import subprocess
import sys
from pathlib import Path

import pytest

import trainer_hooks
from trainer_hooks.wire import run_id

EXAMPLES = Path(trainer_hooks.__file__).parents[1] / "examples"
SCRIPTS = [path for path in sorted(EXAMPLES.glob("*.py")) if not path.name.startswith("tiny_")]
CAPABILITIES = {"trl_grpo": "L3", "plain_loop": "L3"}


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
