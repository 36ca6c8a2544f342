import importlib
import inspect
import pkgutil

import pytest

import trainer_hooks

MODULES = [
    name
    for _, name, _ in pkgutil.walk_packages(trainer_hooks.__path__, "trainer_hooks.")
    if not name.startswith(("trainer_hooks.callbacks", "trainer_hooks.losses", "trainer_hooks.reference"))
]


def parameters(function):
    """Return the names of a function's parameters; those after a star are keyword-only."""
    return [
        ("*" if parameter.kind is parameter.KEYWORD_ONLY else "") + name
        for name, parameter in inspect.signature(function).parameters.items()
    ]


def test_promised_names_are_there():
    """The names of design.md, section 5, which users hold us to."""
    assert set(trainer_hooks.__all__) >= {"connect", "Monitor", "NullMonitor", "Rollouts"}
    assert parameters(trainer_hooks.connect)[:10] == [
        "url",
        "project",
        "run",
        "config",
        "*api_key",
        "*rank",
        "*world_size",
        "*on_alert",
        "*actions",
        "*source",
    ]
    assert parameters(trainer_hooks.Monitor.log_step)[:5] == ["self", "step", "scalars", "rollouts", "grad_norm"]
    assert parameters(trainer_hooks.Rollouts)[:16] == [
        "logprobs",
        "mask",
        "rewards",
        "*old_logprobs",
        "*sampler_logprobs",
        "*ref_logprobs",
        "*entropies",
        "*advantages",
        "*group_ids",
        "*token_ids",
        "*answer_mask",
        "*correct",
        "*tool_calls",
        "*tool_calls_valid",
        "*tool_calls_empty",
        "*truncated",
    ]


@pytest.mark.parametrize("name", MODULES)
def test_every_exported_name_exists_and_is_explained(name):
    """Each module has a docstring, and each name in __all__ exists."""
    module = importlib.import_module(name)
    assert module.__doc__
    for exported in getattr(module, "__all__", ()):
        assert hasattr(module, exported)


def test_the_null_monitor_has_the_monitors_interface():
    """Calls that work on a monitor work without a collector too."""
    for name, member in inspect.getmembers(trainer_hooks.Monitor, inspect.isfunction):
        if not name.startswith("_"):
            assert parameters(getattr(trainer_hooks.NullMonitor, name)) == parameters(member)
