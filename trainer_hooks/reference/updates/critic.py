"""PPO's critic: the warm start's transformer with a value head, and the advantages of tokens that follow from it.

V(s_k), the value of the context before action token k, is the expected reward of the response:

    V(s_k) = wᵀ h(s_k) + b, with h the last hidden state of a copy of the policy;
    δ_k = r_k + γ V(s_{k+1}) − V(s_k), over action tokens alone, the reward paid at the last;
    Â_k = Σ_l (γλ)^l δ_{k+l}, R̂_k = Â_k + V(s_k);  Ã_k = (Â_k − mean Â) / std Â over the rollout batch;
    J = (1/N) Σ_k min(γ_k Ã_k, clip(γ_k, 1−ε, 1+ε) Ã_k), the objective of eq. 1 with an advantage a token;
    L_V = (1/N) Σ_k ½ max((V_k − R̂_k)², (V_old,k + clip(V_k − V_old,k, −ε, ε) − R̂_k)²), the critic's own.

Learning values does not change the weights of the policy. PPO is the steadier baseline of arXiv 2512.04220: the
advantage of a token is relative to the expected reward at that token, so a token that right and wrong responses share
does not become less likely because of the wrong ones. If all rewards of a batch are equal, the standardised advantages
consist of the critic's error, so the gradient is not zero, unlike that of GRPO.
"""

import copy

import torch
from torch import Tensor, nn

from trainer_hooks.losses import generalised_advantages
from trainer_hooks.reference.config import Config
from trainer_hooks.reference.distributed import Ranks
from trainer_hooks.reference.protocols import Policy

__all__ = ["Critic", "credit"]

SPREAD_OF_EQUALS = 1e-12
"""An upper bound of the variance that rounding gives to equal returns."""


class Critic(nn.Module):
    """Maps contexts to expected rewards.

    Args:
        policy: The warm start; copied.
    """

    def __init__(self, policy: Policy) -> None:
        super().__init__()
        self.body = copy.deepcopy(policy)
        weights = list(self.body.parameters())
        embedded = self.body.hidden_states(torch.zeros(1, 1, dtype=torch.long, device=weights[0].device))
        # DistributedDataParallel would wait for gradients of weights that no value depends on, such as an output layer.
        for weight, slope in zip(weights, torch.autograd.grad(embedded.sum(), weights, allow_unused=True), strict=True):
            weight.requires_grad_(slope is not None)
        with torch.random.fork_rng(devices=[]):
            head = nn.Linear(embedded.shape[-1], 1)
        self.head = head.to(embedded.device, embedded.dtype)
        # All values are 0 at first, so the first advantages are those of the reward alone.
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """Compute V of the context before each action token, shape ``(B, T)``, in units of the reward; 0 elsewhere."""
        rows, columns = mask.nonzero(as_tuple=True)
        values: Tensor = self.head(self.body.hidden_states(tokens)[rows, columns - 1])[:, 0].float()
        return values.new_zeros(mask.shape).index_put((rows, columns), values)


def credit(
    rewards: Tensor, values: Tensor, mask: Tensor, *, config: Config, ranks: Ranks
) -> tuple[Tensor, Tensor, dict[str, float]]:
    """Compute the advantage of each action token.

    Args:
        rewards: Shape ``(B,)``.
        values: V before each token, shape ``(B, T)``.
        mask: True on action tokens, shape ``(B, T)``.
        config: Its ``discount`` γ and ``gae_lambda`` λ.
        ranks: The ranks whose batches are standardised together.

    Returns:
        Advantages of mean 0 and standard deviation 1 over all action tokens, shape ``(B, T)``, 0 elsewhere; returns,
        ``(B, T)``; and ``value/explained_var``: 1 − Var(R̂ − V) / Var(R̂), absent where all returns are equal.
    """
    # Float64 keeps the rounding of values out of the returns, so that the returns of equal rewards are equal.
    advantages, returns = generalised_advantages(
        rewards.double(), values.double(), mask, discount=config.discount, gae_lambda=config.gae_lambda
    )
    mean, variance = _moments(advantages[mask], ranks)
    _, spread = _moments(returns[mask], ranks)
    standard = torch.where(mask, (advantages - mean) / (variance.sqrt() + 1e-8), 0.0)
    metrics = {"value/explained_var": (1 - variance / spread).item()} if spread > SPREAD_OF_EQUALS else {}
    return standard.float(), returns.float(), metrics


def _moments(values: Tensor, ranks: Ranks) -> tuple[Tensor, Tensor]:
    """Compute mean and variance over all ranks, in float64."""
    wide = values.double()
    count, total = ranks.sum(torch.stack((torch.ones_like(wide).sum(), wide.sum()))).unbind()
    mean = total / count.clamp(min=1)
    return mean, ranks.sum((wide - mean).square().sum()) / count.clamp(min=1)
