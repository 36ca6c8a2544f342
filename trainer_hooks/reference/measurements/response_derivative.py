"""The derivative of ln π of whole responses by the weights, applied to any number of directions."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn.attention import SDPBackend, sdpa_kernel

from trainer_hooks.reference.measurements.adam_step import Weights
from trainer_hooks.reference.policy.token_statistics import token_statistics
from trainer_hooks.reference.protocols import Policy

__all__ = ["response_derivative"]


def response_derivative(policy: Policy, weights: Weights, tokens: Tensor, mask: Tensor) -> Callable[[Weights], Tensor]:
    """Return the map from a direction to ⟨∇ ln π(y), direction⟩ of each response, shape ``(responses,)``.

    One graph serves all directions: Jᵀ u is linear in u, and the gradient of ⟨Jᵀ u, direction⟩ by u is J direction.

    Args:
        policy: Its module; the weights that it holds are not used.
        weights: The weights at which the derivative is taken.
        tokens: The responses, shape ``(responses, tokens)``.
        mask: Their action tokens, of the same shape.
    """
    held = {name: weight.clone().requires_grad_() for name, weight in weights.items()}
    # The fused attention kernels have no second derivative.
    with sdpa_kernel(SDPBackend.MATH):
        scores: Tensor = functional_call(
            _ResponseScorer(policy), {f"policy.{name}": w for name, w in held.items()}, (tokens, mask)
        )
        probe = torch.zeros_like(scores, requires_grad=True)
        pulled = torch.autograd.grad(scores, list(held.values()), probe, create_graph=True)

    def change(direction: Weights) -> Tensor:
        total = torch.stack(
            [(gradient * direction[name]).sum() for name, gradient in zip(held, pulled, strict=True)]
        ).sum()
        return torch.autograd.grad(total, probe, retain_graph=True)[0]

    return change


class _ResponseScorer(torch.nn.Module):
    """Computes ln π of whole responses as a module, so that `functional_call` can replace the policy's weights."""

    def __init__(self, policy: Policy) -> None:
        super().__init__()
        self.policy = policy

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        return token_statistics(self.policy, tokens, mask)[0].sum(dim=1)
