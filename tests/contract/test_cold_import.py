import json
import subprocess
import sys

import pytest

import trainer_hooks

HEAVY = ("torch", "transformers", "trl", "fastapi", "pydantic", "sqlalchemy", "dash", "plotly", "monitor_server")


def run(code):
    """Run code in a fresh interpreter and return the JSON that it prints."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    return json.loads(done.stdout)


def test_the_sdk_works_where_nothing_heavy_is_installed():
    """With every framework impossible to import, the package imports, validates and reduces."""
    code = f"""
import json, sys
for name in {HEAVY!r}: sys.modules[name] = None
import trainer_hooks
from trainer_hooks.signals import summarise
from trainer_hooks.delivery.http import HttpTransport
rollouts = trainer_hooks.Rollouts([[-1.0, -3.0]], [[1, 1]], [1.0])
trainer_hooks.connect().log_step(1, rollouts=rollouts)
print(json.dumps(summarise(rollouts)["likelihood/correct"].value()))
"""
    assert run(code) == -2.0


def test_importing_the_sdk_loads_the_standard_library_alone():
    """The import loads no numpy, msgspec and urllib3, which would take nearly all of its time."""
    code = """
import json, sys
before = set(sys.modules)
import trainer_hooks
loaded = {name.partition(".")[0] for name in set(sys.modules) - before}
print(json.dumps(sorted(loaded - set(sys.stdlib_module_names))))
"""
    assert run(code) == ["trainer_hooks"]


def test_connecting_loads_what_the_base_install_has_and_no_more():
    """A monitor with an address needs numpy, msgspec and urllib3."""
    code = """
import json, sys
import trainer_hooks
trainer_hooks.connect("http://127.0.0.1:9", run="r").close()
loaded = {name.partition(".")[0] for name in sys.modules}
print(json.dumps(sorted(loaded - set(sys.stdlib_module_names))))
"""
    # msgspec loads typing_extensions where it is installed; the others are how an interpreter was set up.
    allowed = {"msgspec", "numpy", "trainer_hooks", "urllib3", "typing_extensions", "sitecustomize"}
    assert {name for name in run(code) if not name.startswith("_")} <= allowed


def test_every_public_name_is_found_where_it_is_documented():
    """Names that are loaded late are all there, listed, and no other name is made up."""
    for name in trainer_hooks.__all__:
        assert getattr(trainer_hooks, name).__name__ == name
    assert set(trainer_hooks.__all__) <= set(dir(trainer_hooks))
    with pytest.raises(AttributeError, match="has no attribute 'Monitr'"):
        _ = trainer_hooks.Monitr


def test_a_monitor_without_an_address_starts_no_thread_and_loads_no_network():
    """A trainer that is not watched pays for an import and no more."""
    code = """
import json, sys, threading
import trainer_hooks
with trainer_hooks.connect() as monitor:
    monitor.log_step(1, {"x": 1.0})
print(json.dumps([threading.active_count(), "urllib3" in sys.modules]))
"""
    assert run(code) == [1, False]
