import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
RANK = """
from trainer_hooks.settings import ConnectionSettings

print(ConnectionSettings.resolve(url="http://127.0.0.1:1", run="r").attempt, flush=True)
"""
# Two ranks, one after the other: what they find depends on none of the times at which they start.
LAUNCHER = """
export WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 MASTER_PORT=$1; shift
for rank in 0 1; do RANK=$rank LOCAL_RANK=$rank "$@" || exit 1; done; exit 0
"""
MPIRUN = """
for rank in 0 1; do OMPI_COMM_WORLD_LOCAL_RANK=$rank OMPI_COMM_WORLD_LOCAL_SIZE=2 "$@" || exit 1; done; exit 0
"""
FOR_TORCH = """
export RANK=$OMPI_COMM_WORLD_LOCAL_RANK LOCAL_RANK=$OMPI_COMM_WORLD_LOCAL_RANK WORLD_SIZE=2 LOCAL_WORLD_SIZE=2
"$@"; exit $?
"""
AROUND = """
"$@"; exit $?
"""
RANK_VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_PORT", "TORCHELASTIC_RUN_ID")


@pytest.fixture
def attempts(tmp_path):
    """Run a line of the shell, in which each `$name` is one of the scripts above; return the attempts of its ranks."""
    scripts = {"launcher": LAUNCHER, "mpirun": MPIRUN, "for_torch": FOR_TORCH, "around": AROUND}
    for name, script in scripts.items():
        (tmp_path / name).write_text(script)
    (tmp_path / "rank").write_text(RANK)
    commands = {name: f"sh {tmp_path / name}" for name in scripts} | {"rank": f"{sys.executable} {tmp_path / 'rank'}"}
    clean = {name: value for name, value in os.environ.items() if name not in RANK_VARIABLES}

    def run(line, **environ):
        done = subprocess.run(
            ["sh", "-c", line],
            env=clean | commands | {"PYTHONPATH": str(ROOT)} | environ,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            timeout=60,
        )
        return [int(attempt) for attempt in done.stdout.split()]

    return run


@pytest.mark.parametrize(
    "exported",
    [
        {"LOCAL_RANK": "0"},
        {"LOCAL_RANK": "1", "RANK": "1", "WORLD_SIZE": "1", "OMPI_COMM_WORLD_LOCAL_RANK": "0", "SLURM_LOCALID": "0"},
        {"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2", "MASTER_PORT": "1"},  # the shell is inside rank 0 of a training
    ],
)
def test_launches_of_a_shell_with_a_ranks_variables_have_attempts_of_their_own(attempts, exported):
    """All ranks of a launch have its attempt, and the next launch has a higher one."""
    first, also_first, second, also_second = attempts("$launcher 2 $rank; $launcher 3 $around $rank", **exported)
    assert first == also_first < second == also_second


def test_a_rank_that_launches_others_does_not_give_them_its_attempt(attempts):
    """An evaluation of two ranks, which each rank of a training launches, is a launch of its own."""
    first, also_first, second, also_second = attempts("$launcher 2 $around $launcher 3 $around $rank")
    assert first == also_first < second == also_second


def test_scripts_that_translate_the_variables_of_mpi_are_no_launchers(attempts):
    """Each rank has a script around it, which starts at another time and is the first to know torch's variables."""
    first, also_first = attempts("$mpirun $for_torch $around $rank")
    assert first == also_first


@pytest.mark.parametrize("option", ["--nnodes=1:2", "--nnodes 1:2"])
def test_the_attempt_of_a_launch_that_may_grow_does_not_depend_on_its_nodes(attempts, option):
    """Over two nodes no rank knows the restarts of the first one, so a launch of one node does not count them."""
    agent = "$launcher 2 $around $rank"
    elastic = {"TORCHELASTIC_RUN_ID": "7", "TORCHELASTIC_RESTART_COUNT": "1", "RLVITALS_ATTEMPT": "12"}
    assert attempts(agent, **elastic) == [1012, 1012]
    assert attempts(f"{agent} {option}", **elastic) == [12, 12]
    assert attempts(agent, **elastic, PET_NNODES="1:2") == [12, 12]
    assert attempts(agent, **elastic, PET_NNODES="2:2") == [1012, 1012]
