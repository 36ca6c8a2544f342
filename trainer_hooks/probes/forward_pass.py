"""Runs a model between the passes of training without a trace. Depends on torch and on no framework."""

import random
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np
import torch
from torch import distributed, nn
from torch.nn.modules.module import register_module_forward_pre_hook

__all__ = ["evaluating", "has_dropout", "uncompiled", "without_trace"]


@contextmanager
def without_trace() -> Iterator[None]:
    """Keep a forward pass in this context from changing gradients, random generators, sharding and autocast's cache."""
    drawn = random.getstate(), np.random.get_state()  # noqa: NPY002 - the generator that models draw from
    # Autocast keeps the weights that it casts until its outermost context ends. A weight that is cast without gradients
    # would then be used by the passes of training.
    is_cached = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(False)
    try:
        with torch.no_grad(), _keeping_torch_generators(), _resharding():
            yield
    finally:
        torch.set_autocast_cache_enabled(is_cached)
        random.setstate(drawn[0])
        np.random.set_state(drawn[1])  # noqa: NPY002


@contextmanager
def _keeping_torch_generators() -> Iterator[None]:
    """Keep the random generators of the CPU and of every accelerator, over which a model may be spread."""
    accelerator = torch.accelerator.current_accelerator()
    kind = "cuda" if accelerator is None else accelerator.type
    module = getattr(torch, kind)
    # A device that a training does not use yet would be made ready by this, with memory on it.
    is_used = not hasattr(module, "is_initialized") or module.is_initialized()  # Metal has no such function
    # The states are in the memory of this process, so the devices of other processes are not made ready either.
    with torch.random.fork_rng(range(module.device_count()) if is_used else [], device_type=kind):
        yield


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Put a model into evaluation mode, and each of its modules back into its own mode afterwards.

    The modes are set without `Module.train`, which some modules override: loralib adds its matrices to the weights in
    evaluation mode and subtracts them again, which rounds.
    """
    modes = [(module, module.training) for module in model.modules()]
    try:
        for module, _ in modes:
            module.training = False
        yield
    finally:
        for module, mode in modes:
            module.training = mode


def uncompiled() -> AbstractContextManager[object]:
    """Run compiled models as they are written, in this context.

    Compilation for the shapes and modes of a pass of ours would take minutes, and count against the number of times
    that torch compiles a function before it leaves it uncompiled for good, also in training.
    """
    # Without this module nothing is compiled, and its import takes seconds.
    return torch.compiler.set_stance("force_eager") if "torch._dynamo.eval_frame" in sys.modules else nullcontext()


def has_dropout(model: nn.Module) -> bool:
    """Return whether a forward pass of the model in its present mode drops activations at random.

    Found are torch's dropout modules, and modules that hold a rate under a name that ends with ``dropout`` or
    ``layerdrop``, as the attention of transformers does.
    """
    return any(module.training and _drop_rate(module) > 0.0 for module in model.modules())


def _drop_rate(module: nn.Module) -> float:
    if isinstance(module, nn.modules.dropout._DropoutNd):  # noqa: SLF001 - the base class of all of torch's
        return float(module.p)
    rates = [value for name, value in vars(module).items() if name.endswith(("dropout", "layerdrop"))]
    # A flag such as `use_dropout` is no rate, and Python counts it as a whole number.
    return max((float(rate) for rate in rates if type(rate) in {int, float}), default=0.0)


@contextmanager
def _resharding() -> Iterator[None]:
    """Make every FSDP module that is called in this context gather its weights anew at its next call.

    The outermost module keeps its weights gathered after a forward pass, for the backward pass that FSDP expects. After
    a forward pass without a backward pass, an update would change only the shards, and the next forward pass, also of
    training itself, would use the old weights. A pass that raises leaves its modules in the middle of it, where FSDP
    keeps the old weights too, and FSDP1 refuses to save; they are taken out of it.
    """
    if not (distributed.is_available() and distributed.is_initialized()):
        yield
        return
    from torch.distributed.fsdp import FSDPModule, FullyShardedDataParallel  # noqa: PLC0415 - the import takes half a second and few need it

    called: list[Any] = []
    handle_of_hook = register_module_forward_pre_hook(lambda module, _: called.append(module))
    try:
        yield
    finally:
        handle_of_hook.remove()
        for module in called:
            if isinstance(module, FSDPModule):
                _end_fsdp2_pass(module)
                module.reshard()
            elif isinstance(module, FullyShardedDataParallel):
                handle = module._handle  # noqa: SLF001 - FSDP1 has no public name for it
                module.training_state = type(module.training_state).IDLE
                if handle is not None:
                    handle._training_state = type(handle._training_state).IDLE  # noqa: SLF001
                    handle.reshard(True)


def _end_fsdp2_pass(module: Any) -> None:  # noqa: ANN401 - the import of its class takes half a second
    """End the forward pass of a module of FSDP2, as the hook after the pass does where nothing is raised."""
    state = module._get_fsdp_state()  # noqa: SLF001 - FSDP2 has no public names for any of these
    # Newer torch divides the weights of a module into several groups.
    groups = getattr(state, "_fsdp_param_groups", None) or [state._fsdp_param_group]  # noqa: SLF001
    for part in (state, *groups):
        if part is not None:
            part._training_state = type(part._training_state).IDLE  # noqa: SLF001
    state._state_ctx.iter_forward_root = None  # noqa: SLF001
    if hasattr(state, "_modules_to_run_forward"):
        state._modules_to_run_forward.clear()  # noqa: SLF001
