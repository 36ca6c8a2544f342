"""Lets verl train on a CPU: a platform of verl's own kind, which verl imports by ``VERL_USE_EXTERNAL_MODULES``."""

import contextlib
import sys
from types import SimpleNamespace

import torch
from verl.plugin.platform.platform_cuda import PlatformCUDA
from verl.plugin.platform.platform_manager import PlatformRegistry

sys.modules["trl"] = None  # verl takes an older one's value head, if there is any

DEVICE = SimpleNamespace(
    **{name: getattr(torch.cpu, name) for name in ("current_device", "synchronize", "device_count", "set_device")},
    is_available=lambda: True,
    get_device_name=lambda: "cpu",
    empty_cache=lambda: None,
    reset_peak_memory_stats=lambda: None,
    max_memory_allocated=lambda: 0,
    max_memory_reserved=lambda: 0,
    memory_allocated=lambda: 0,
    memory_reserved=lambda: 0,
    mem_get_info=lambda *_: (0, 0),
    get_rng_state=torch.get_rng_state,
    set_rng_state=torch.set_rng_state,
)


@PlatformRegistry.register(platform="cpu")
class PlatformCPU(PlatformCUDA):
    """The part of CUDA's platform that asks for a device, for the processor."""

    device_name = "cpu"
    vendor_name = "cpu"
    device_module = DEVICE

    def is_available(self) -> bool:
        """It always is."""
        return True

    def current_device(self) -> str:
        """Name it: torch takes a number for an accelerator's."""
        return "cpu"

    def device_count(self) -> int:
        """Return one device."""
        return 1

    def set_device(self, device_index: int) -> None:
        """Do nothing."""

    def synchronize(self, device_index: int | None = None) -> None:
        """Do nothing."""

    def manual_seed(self, seed: int) -> None:
        """Seed."""
        torch.manual_seed(seed)

    def manual_seed_all(self, seed: int) -> None:
        """Seed."""
        torch.manual_seed(seed)

    def empty_cache(self) -> None:
        """Do nothing."""

    def communication_backend_name(self) -> str:
        """Talk over sockets."""
        return "gloo"

    def get_collective_module(self) -> None:
        """Have none."""

    @contextlib.contextmanager
    def nvtx_range(self, msg: str):  # noqa: ARG002 - verl's signature
        """Do nothing."""
        yield
