import os
import subprocess
import sys
from pathlib import Path

import pytest

import trainer_hooks
from trainer_hooks.callbacks import bootstrap
from trainer_hooks.settings import hooks_to_load

LOSS = "class PolicyLoss:\n    def forward(self):\n        return 1\n"


@pytest.fixture
def start(tmp_path):
    """Return a function that runs code in a Python whose site directory has our line, and returns the output."""
    site = tmp_path / "site"
    package = site / "openrlhf" / "models"
    package.mkdir(parents=True)
    (package / "loss.py").write_text(LOSS)
    assert bootstrap.main(["install"], site) == 0

    def start(code, **environment):
        # Python does the same with the environment's own site-packages before any program.
        begin = f"import site, sys; site.addsitedir({str(site)!r})\n"
        root = str(Path(trainer_hooks.__file__).parents[1])
        done = subprocess.run(
            [sys.executable, "-c", begin + code],
            capture_output=True,
            text=True,
            check=True,
            env=os.environ | {"PYTHONPATH": root} | environment,
            timeout=60,
        )
        return done.stdout.strip(), done.stderr.strip()

    return start


def test_the_line_loads_what_the_environment_names(start):
    """The adapter is loaded before the program, which is unchanged, and wraps a class when it is imported."""
    code = "from openrlhf.models.loss import PolicyLoss; print(hasattr(PolicyLoss.forward, '__wrapped__'))"
    address = {"RLVITALS_URL": "http://127.0.0.1:9"}
    assert start(code, RLVITALS_HOOKS="openrlhf", **address) == ("True", "")
    assert start(code, **address) == ("False", "")


def test_without_the_variable_nothing_of_ours_is_loaded(start):
    """Other programs of the environment only pay for reading one environment variable."""
    assert start("print('trainer_hooks' in sys.modules)") == ("False", "")


def test_without_torch_loaded_and_without_an_address_nothing_is_wrapped(start):
    """The adapter does not import torch; it waits until the trainer has imported it."""
    look = "print(hasattr(PolicyLoss.forward, '__wrapped__'), 'torch' in sys.modules)"
    assert start(f"from openrlhf.models.loss import PolicyLoss; {look}", RLVITALS_HOOKS="openrlhf") == (
        "False False",
        "",
    )


def test_a_name_that_is_no_adapter_is_reported_and_the_program_starts(start):
    """The program starts, and the log names the adapter that does not exist."""
    printed = start("print('started')", RLVITALS_HOOKS="openrlfh")
    assert printed[0] == "started"
    assert "openrlfh" in printed[1]


def test_the_line_can_be_taken_out_again(tmp_path, capsys):
    """Removing the line twice is no error, and an unknown subcommand prints the usage."""
    bootstrap.main(["install"], tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["rlvitals.pth"]
    assert bootstrap.main(["remove"], tmp_path) == bootstrap.main(["remove"], tmp_path) == 0
    assert not list(tmp_path.iterdir())
    assert bootstrap.main([]) == 2
    assert "install | remove" in capsys.readouterr().err


def test_several_adapters_may_be_named():
    """`RLVITALS_HOOKS` may name several adapters, separated by commas."""
    assert hooks_to_load({"RLVITALS_HOOKS": "openrlhf, verl,"}) == ["openrlhf", "verl"]
    assert hooks_to_load({}) == []
