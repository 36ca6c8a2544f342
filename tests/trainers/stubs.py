"""Replaces imports of verl, OpenRLHF and SkyRL that no CPU test needs: Ray, vLLM, DeepSpeed and the like."""

import importlib.abc
import importlib.machinery
import importlib.util
import sys
import typing
from unittest.mock import MagicMock

import typing_extensions

ALWAYS = ("ray", "vllm", "deepspeed", "sglang", "pylatexenc", "wandb", "tensorboard")
# verl also works without flash_attn.
STUBBED = {
    "verl": (*ALWAYS, "transfer_queue"),
    "openrlhf": (*ALWAYS, "flash_attn"),
    "skyrl": (*ALWAYS, "flash_attn", "skyrl_gym", "cloudpathlib", "s3fs", "httpx", "polars"),
}


class Stubs(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds an empty module for each stubbed name and all below it."""

    def __init__(self, names):
        self.names = names

    def find_spec(self, name, path=None, target=None):  # noqa: ARG002 - the protocol's signature
        """Return a spec for a stubbed module."""
        # Without this module of flash_attn the trainers also compute on a CPU.
        if name.partition(".")[0] in self.names and not name.startswith("flash_attn.ops"):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        """Make a module on which anything can be asked for."""
        module = MagicMock(name=spec.name)
        module.__path__, module.__spec__, module.__name__, module.__version__ = [], spec, spec.name, "99.0"
        # verl asks of every argument whether it is one of these.
        module.BatchMeta, module.KVBatchMeta = type("BatchMeta", (), {}), type("KVBatchMeta", (), {})
        return module

    def exec_module(self, module):
        """Run nothing."""


for trainer, names in STUBBED.items():
    if importlib.util.find_spec(trainer):
        sys.meta_path.insert(0, Stubs(names))
if importlib.util.find_spec("skyrl"):
    # Its types are read by pydantic, which asks for this one before Python 3.12.
    typing.TypedDict = typing_extensions.TypedDict
