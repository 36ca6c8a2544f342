"""Stands in for what verl, OpenRLHF and SkyRL import and no CPU test needs: Ray, vLLM, DeepSpeed and the like."""

import importlib.abc
import importlib.machinery
import importlib.util
import sys
import typing
from unittest.mock import MagicMock

import typing_extensions

STUBBED = ("ray", "vllm", "deepspeed", "transfer_queue", "sglang", "flash_attn", "pylatexenc", "wandb", "tensorboard")
ONLY_SKYRL = ("skyrl_gym", "cloudpathlib", "s3fs", "httpx", "polars")


class Stubs(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds an empty module for each stubbed name and all below it."""

    def find_spec(self, name, path=None, target=None):  # noqa: ARG002 - the protocol's signature
        """Give a spec for what is stubbed."""
        if name.partition(".")[0] in STUBBED + (ONLY_SKYRL if IS_SKYRL else ()):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        """Make a module on which anything can be asked for."""
        module = MagicMock(name=spec.name)
        module.__path__, module.__spec__, module.__name__, module.__version__ = [], spec, spec.name, "99.0"
        return module

    def exec_module(self, module):
        """Run nothing."""


IS_SKYRL = importlib.util.find_spec("skyrl") is not None
if IS_SKYRL or importlib.util.find_spec("verl") or importlib.util.find_spec("openrlhf"):
    sys.meta_path.insert(0, Stubs())
if IS_SKYRL:
    # Its types are read by pydantic, which asks for this one before Python 3.12.
    typing.TypedDict = typing_extensions.TypedDict

from tests.trainer_hooks.conftest import clean_environment, collector, connect, swallowed  # noqa: E402, F401
