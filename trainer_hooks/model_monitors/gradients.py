"""Gradient norms, of each module or of all weights."""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

__all__ = ["are_sharded", "module_norms", "norm_of_gradients", "total_norm"]

MATRIX = 2
HALF_PRECISION = (torch.bfloat16, torch.float16)
COPIED_AT_A_TIME = 2**18
PEFT_PREFIX = ["base_model", "model"]  # of every weight of a model that PEFT has wrapped


def are_sharded(weights: Iterable[Tensor]) -> bool:
    """Whether a rank holds only a part of a weight's gradient, as with FSDP, so that the norm needs a collective."""
    # FSDP2 has distributed tensors; FSDP1 marks its weights, which are plain tensors.
    return any(hasattr(weight.grad, "full_tensor") or hasattr(weight, "_fsdp_flattened") for weight in weights)


def module_norms(model: nn.Module) -> dict[str, Tensor]:
    """Compute the norm of the gradients of each module that holds a matrix.

    A module is a child of a block (``model.layers.3.self_attn``), or outside of blocks the owner of the weight
    (``lm_head``). ‖g‖ = √Σ g² over all its weights. Sharded gradients are left out, because their norm needs a
    collective.

    Returns:
        0-d tensors by module; modules without gradients are left out.
    """
    if are_sharded(model.parameters()):
        return {}
    gradients: dict[str, list[Tensor]] = {}
    with_matrix = set()
    for name, weight in model.named_parameters():
        if weight.grad is None:
            continue
        module = _module_of(name)
        gradients.setdefault(module, []).append(weight.grad)
        if weight.ndim >= MATRIX:
            with_matrix.add(module)
    return {name: total_norm(found) for name, found in gradients.items() if name in with_matrix}


def norm_of_gradients(weights: Sequence[Tensor]) -> Tensor | None:
    """Compute the norm of the gradients of weights; None where there are none, or where they are sharded."""
    gradients = [weight.grad for weight in weights if weight.grad is not None]
    return None if not gradients or are_sharded(weights) else total_norm(gradients)


def total_norm(gradients: Iterable[Tensor]) -> Tensor:
    """Compute ‖g‖ = √Σ g² over gradients, at least in float32.

    Some may be sparse, as those of ``Embedding(sparse=True)``.
    """
    # A sparse gradient may hold a row more than once; coalescing adds them up, in a copy.
    dense = [each.coalesce().values() if each.is_sparse else each for each in gradients]
    halves = [each for each in dense if each.dtype in HALF_PRECISION]
    others = [each for each in dense if each.dtype not in HALF_PRECISION]
    return torch.nn.utils.get_total_norm(others + _wide_norms(halves))


def _wide_norms(gradients: list[Tensor]) -> list[Tensor]:
    """Compute norms of gradients in half precision, or of their parts, in float32.

    A norm in bfloat16 would be rounded to three digits, and a norm above 65,504 would be infinite in float16.
    """
    on_accelerator = [each for each in gradients if not each.is_cpu]
    # The CPU copies the numbers in float32 first, and copies of this size stay in its cache.
    parts = (part for each in gradients if each.is_cpu for part in torch.split(each.reshape(-1), COPIED_AT_A_TIME))
    norms = [torch.linalg.vector_norm(part, dtype=torch.float32) for part in parts]
    if on_accelerator:
        # A GPU widens the numbers as it reads them, here in one launch for all of them.
        norms += torch._foreach_norm(on_accelerator, dtype=torch.float32)  # noqa: SLF001 - torch has no public name
    return norms


def _module_of(weight: str) -> str:
    """Shorten ``model.layers.3.self_attn.q_proj.weight`` to the child of the block, or to the weight's owner."""
    # Prefixes that torch.compile and DDP add.
    parts = [part for part in weight.split(".") if part not in ("_orig_mod", "module")]
    if parts[:2] == PEFT_PREFIX:
        parts = parts[2:]
    for place, part in enumerate(parts[:-2]):
        if part.isdigit():
            return ".".join(parts[: place + 2])
    return ".".join(parts[:-1]) or weight
