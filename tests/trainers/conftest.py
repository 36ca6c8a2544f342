"""Stands in for what verl and OpenRLHF import and no CPU test needs: Ray, vLLM, DeepSpeed, the transfer queue."""

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from unittest.mock import MagicMock

STUBBED = ("ray", "vllm", "deepspeed", "transfer_queue", "sglang", "flash_attn", "pylatexenc", "wandb", "tensorboard")


class Stubs(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds an empty module for each stubbed name and all below it."""

    def find_spec(self, name, path=None, target=None):  # noqa: ARG002 - the protocol's signature
        """Give a spec for what is stubbed."""
        if name.partition(".")[0] in STUBBED:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        """Make a module on which anything can be asked for."""
        module = MagicMock(name=spec.name)
        module.__path__, module.__spec__, module.__name__, module.__version__ = [], spec, spec.name, "99.0"
        return module

    def exec_module(self, module):
        """Run nothing."""


if importlib.util.find_spec("verl") or importlib.util.find_spec("openrlhf"):
    sys.meta_path.insert(0, Stubs())

from tests.trainer_hooks.conftest import clean_environment, collector, connect, swallowed  # noqa: E402, F401
