"""A stranger's first minute: the wheel in an empty environment, and the lines that the README says to type."""

import json
import math
import os
import re
import shlex
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# The README promises a verdict on a log within this time.
VERDICT_SECONDS = 60


def commands():
    """Return the lines of the README's block that installs rlvitals and checks a log, without their comments."""
    (block,) = re.findall(
        r"((?:^    .*\n)*^    pip install rlvitals .*\n(?:^    .*\n)*)", (ROOT / "README.md").read_text(), re.MULTILINE
    )
    return [shlex.split(line, comments=True) for line in block.splitlines()]


@pytest.mark.slow
@pytest.mark.timeout(1500)  # the package index may be slow; the verdict has its own limit
def test_a_stranger_gets_a_verdict_from_what_the_readme_says(tmp_path):
    """`pip install`, then a trainer_state.json of one's own and the sample: no server, no other package."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    subprocess.run([*pip, "wheel", "--no-deps", "-w", str(tmp_path / "wheels"), str(ROOT)], check=True, timeout=600)
    (wheel,) = (tmp_path / "wheels").glob("rlvitals-*.whl")
    with zipfile.ZipFile(wheel) as packed:
        assert "trainer_hooks/py.typed" in packed.namelist()  # a type checker reads the SDK's annotations
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "empty")], check=True, timeout=120)
    rows = [
        {"step": step, "reward": 0.5 + 0.01 * math.sin(step), "grad_norm": math.nan if step >= 200 else 1.0}
        for step in range(1, 301)
    ]
    (tmp_path / "trainer_state.json").write_text(json.dumps({"global_step": 300, "log_history": rows}))
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    environment["PATH"] = f"{tmp_path / 'empty/bin'}{os.pathsep}{environment['PATH']}"
    typed = commands()
    assert [line[:2] for line in typed] == [["pip", "install"], ["rlvitals", "check"], ["rlvitals", "check"]]
    install, check, sample = typed
    # The wheel stands for the name on the package index.
    install = [str(wheel) if part == "rlvitals" else part for part in install]
    install += ["-q", "--disable-pip-version-check", "-c", str(ROOT / "requirements/constraints.txt")]
    install += ["--no-compile"]  # Python compiles the modules that it imports, a small part of those installed
    subprocess.run(install, check=True, env=environment, cwd=tmp_path, timeout=600)
    for command, says in ((check, "It would have paged at step 200."), (sample, "169 steps of lead.")):
        done = subprocess.run(
            command, check=True, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=VERDICT_SECONDS
        )
        assert says in " ".join(done.stdout.split())
