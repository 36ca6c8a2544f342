"""Schedules the measurements of the model: `ModelMonitors` states which are made, and at which steps."""

import math
from typing import Any

import torch
from torch import Tensor, nn

from trainer_hooks.errors import ConfigurationError
from trainer_hooks.model_monitors.attention import Heads, heads_of, spectral_entropies
from trainer_hooks.model_monitors.gradients import module_norms
from trainer_hooks.model_monitors.routers import RouterMonitor

__all__ = ["ModelMonitors"]

UPDATE = "qk/update_spectral_entropy"


class ModelMonitors:
    """Measures attention, expert routing and gradients at every n-th step; give it to a callback or a `LoopWatch`.

        VitalsCallback(model_monitors=ModelMonitors(every=50))
        LoopWatch(optimizer, monitor, model_monitors=ModelMonitors(model, every=50))

    At all other steps the model has no hooks. Weights, gradients and random generators are the same with and without
    it. No collective is added, so that sharded weights and gradients are not observed.

    Args:
        model: The model; a trainer's callback uses the trainer's.
        every: Measure at each step whose number is a multiple of this, and at the first step.
        attention: Measure the spectral entropy of query-key products (arXiv 2606.28116).
        attention_update: Measure the spectral entropy of the first-order term of their change since the first step,
            ΔW_qᵀ W_k + W_qᵀ ΔW_k, which changes first according to the paper. This keeps a copy of the projections:
            about 1 GB for 7 billion weights.
        routers: Measure load and entropy of mixture-of-experts routers.
        gradients: Measure the gradient norm of each module.

    Raises:
        ConfigurationError: If ``every`` is below 1.
    """

    def __init__(
        self,
        model: nn.Module | None = None,
        *,
        every: int = 50,
        attention: bool = True,
        attention_update: bool = False,
        routers: bool = True,
        gradients: bool = True,
    ) -> None:
        if every < 1:
            raise ConfigurationError(f"every must be at least 1, got {every}")
        self.model = model
        self._is_model_given = model is not None
        self._every = every
        self._attention = attention
        self._attention_update = attention_update
        self._measures_routers = routers
        self._measures_gradients = gradients
        self._initial_heads: list[Heads] = []
        self._is_first = True
        self._is_due = False
        self._routers: RouterMonitor | None = None
        self._norms: dict[str, Tensor] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Return the state of a copy, which measures another training and so does not hold the trainer's model."""
        if self._is_model_given:
            return vars(self)
        state = vars(self) | {"model": None, "_initial_heads": [], "_is_first": True}
        return state | {"_is_due": False, "_routers": None, "_norms": {}}

    def attach(self, model: nn.Module | None = None) -> None:
        """Set the model, unless one was given before. Updates are measured from the weights that it has now.

        Raises:
            ConfigurationError: If there is no model.
        """
        model = model or self.model
        if model is None:
            raise ConfigurationError("model monitors of a loop need its model; write ModelMonitors(model)")
        self.model = model
        self._is_first = True
        if self._attention_update:
            self._initial_heads = [
                Heads(heads.query.detach().clone(), heads.key.detach().clone(), heads.size) for heads in heads_of(model)
            ]

    def begin_step(self, step: int) -> None:
        """Attach the hooks if this step is to be measured."""
        self.remove()
        if self.model is None:
            return
        self._is_due = self._is_first or step % self._every == 0
        self._is_first = False
        if self._is_due and self._measures_routers:
            self._routers = RouterMonitor(self.model)

    def measure_gradients(self, scale: Tensor | None = None) -> None:
        """Measure the gradients as they are now; only the first call of a step has an effect.

        Args:
            scale: Factor by which the gradients are too large, shape ``()``; 1 unless given.
        """
        if self._is_due and self._measures_gradients and not self._norms and self.model is not None:
            norms = module_norms(self.model)
            self._norms = norms if scale is None else {name: norm / scale for name, norm in norms.items()}

    def end_step(self) -> dict[str, float]:
        """Remove the hooks, and return the signals of the step and of its weights, with one copy from the device."""
        if not self._is_due or self.model is None:
            return {}
        try:
            return self._signals(self.model)
        finally:
            self.remove()

    def _signals(self, model: nn.Module) -> dict[str, float]:
        found = {f"grad/norm/{module}": norm for module, norm in self._norms.items()}
        if self._routers is not None:
            found |= self._routers.signals()
        found |= self._attention_signals(model)
        if not found:
            return {}
        device = next(iter(found.values())).device
        numbers = torch.stack([value.detach().float().to(device) for value in found.values()]).tolist()
        signals = dict(zip(found, numbers, strict=True))
        if math.isnan(signals.get(UPDATE, 0.0)):
            # No head has changed, so there is no update. Weights that are NaN make the product's own entropy NaN.
            del signals[UPDATE]
        return signals

    def remove(self) -> None:
        """Remove all hooks from the model; safe to call twice."""
        if self._routers is not None:
            self._routers.remove()
        self._routers, self._is_due, self._norms = None, False, {}

    def _attention_signals(self, model: nn.Module) -> dict[str, Tensor]:
        signals: dict[str, Tensor] = {}
        if self._attention:
            entropies = [spectral_entropies(*heads.split()) for heads in heads_of(model)]
            if entropies:
                together = torch.cat([found.to(entropies[0].device) for found in entropies])
                signals = {"qk/spectral_entropy": together.mean(), "qk/spectral_entropy_min": together.min()}
        if self._initial_heads:
            changes = [
                _update_entropies(begun, now) for begun, now in zip(self._initial_heads, heads_of(model), strict=True)
            ]
            moved = torch.cat([found.to(changes[0].device) for found in changes])
            signals[UPDATE] = moved.nanmean()
        return signals


def _update_entropies(begun: Heads, now: Heads) -> Tensor:
    """Compute the spectral entropies of ΔW_qᵀ W_k + W_qᵀ ΔW_k, as the single product [ΔW_q; W_q]ᵀ [W_k; ΔW_k]."""
    (query, key), (moved_query, moved_key) = begun.split(), now.split()
    change_query, change_key = moved_query - query, moved_key - key
    # The entropy does not depend on scale. Without scaling, small changes beside large weights are lost in rounding.
    size = torch.maximum(_norms(change_query) / _norms(query), _norms(change_key) / _norms(key))
    left = torch.cat([change_query / size, query], dim=1)
    right = torch.cat([key, change_key / size], dim=1)
    return torch.where(size.flatten() > 0, spectral_entropies(left, right), torch.nan)


def _norms(matrices: Tensor) -> Tensor:
    norms: Tensor = torch.linalg.vector_norm(matrices, dim=(1, 2), keepdim=True)
    return norms
