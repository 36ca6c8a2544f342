"""Measures how a mixture of experts distributes its tokens, from the routers' outputs by forward hooks."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

__all__ = ["RouterMonitor", "routers_of"]

ROUNDING = 0.05
"""The largest difference from 1 of a sum of probabilities in half precision."""


def routers_of(model: nn.Module) -> Iterator[tuple[nn.Module, int]]:
    """Find the routers of a Hugging Face model, each a ``gate`` or ``router`` beside ``experts``, and their top k."""
    for module in model.modules():
        router = getattr(module, "gate", None) or getattr(module, "router", None)
        if not isinstance(router, nn.Module) or not hasattr(module, "experts"):
            continue
        top_k = getattr(router, "top_k", None) or getattr(module, "top_k", None)
        if isinstance(top_k, int):
            yield router, top_k


class RouterMonitor:
    """Counts the tokens of each expert, in the forward passes that have gradients: those of the loss.

    Padding is left out where the model is called with an ``attention_mask``. Sums stay on their device. A router whose
    output has another order, such as Llama 4's, is not observed.

    Args:
        model: The whole model.
    """

    def __init__(self, model: nn.Module) -> None:
        self._attention_mask: Tensor | None = None
        self._counts: list[_RouterCounts] = []
        self._handles: list[RemovableHandle] = []
        self._error: Exception | None = None
        for router, top_k in routers_of(model):
            counts = _RouterCounts()
            self._counts.append(counts)
            self._handles.append(router.register_forward_hook(_Hook(self._make_hook(counts, top_k))))
        if self._counts:
            self._handles.append(model.register_forward_pre_hook(_Hook(self._note_mask), with_kwargs=True))

    def remove(self) -> None:
        """Remove the hooks."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def signals(self) -> dict[str, Tensor]:
        """Compute the signals of the step; empty where no router ran.

        ``moe/load_entropy`` is −Σ f_e ln f_e, nats, where f_e is the share of assignments that expert e received.
        ``moe/router_entropy`` is the mean over tokens of the entropy of the router's softmax. ``moe/top1_share`` is the
        share of tokens whose first choice is the expert that most tokens choose first. Each is a mean over layers;
        ``_min`` and ``_max`` are the values of the worst layer.

        Raises:
            Exception: The error of a hook, if there was one; raised here, it does not end a forward pass.
        """
        if self._error is not None:
            raise self._error
        seen = [counts for counts in self._counts if counts.tokens]
        if not seen:
            return {}
        loads = _stack(counts.load_entropy() for counts in seen)
        top1 = _stack(counts.top1_share() for counts in seen)
        entropies = _stack(counts.router_entropy() for counts in seen)
        return {
            "moe/load_entropy": loads.mean(),
            "moe/load_entropy_min": loads.min(),
            "moe/router_entropy": entropies.mean(),
            "moe/top1_share": top1.mean(),
            "moe/top1_share_max": top1.max(),
        }

    def _note_mask(self, _model: nn.Module, _args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        mask = kwargs.get("attention_mask")
        self._attention_mask = mask if isinstance(mask, Tensor) else None

    def _make_hook(self, counts: "_RouterCounts", top_k: int) -> Any:  # noqa: ANN401 - a hook
        def hook(router: nn.Module, _args: Sequence[Any], output: Any) -> None:  # noqa: ANN401 - depends on the router
            # A forward pass without gradients is generation, or scoring by an old or a reference policy.
            if self._error is not None or not torch.is_grad_enabled() or not router.training:
                return
            try:
                read = _logits_and_choices(output, top_k)
                if read is not None:
                    counts.add(*read, self._attention_mask)
            except Exception as error:  # noqa: BLE001 - no error of this package reaches the training
                self._error = error

        return hook


class _Hook:
    """A hook on a module; a copy of the module, also one on disk, has one that does nothing and needs no rlvitals."""

    def __init__(self, call: Callable[..., None]) -> None:
        self._call = call

    def __call__(self, *args: object) -> None:
        self._call(*args)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[object, str]]:
        # Takes whatever it is called with, returns None, and can be pickled.
        return getattr, (nullcontext(), "__exit__")


class _RouterCounts:
    """Counts of one router."""

    def __init__(self) -> None:
        self.tokens: Tensor | None = None
        self._load: Tensor
        self._first: Tensor
        self._entropy: Tensor

    def add(self, logits: Tensor, choices: Tensor, attention_mask: Tensor | None) -> None:
        """Add a router's logits ``(…, experts)`` and the experts ``(…, k)`` that it chose."""
        logits, choices = logits.detach().float().flatten(0, -2), choices.detach().flatten(0, -2)
        real = torch.ones(len(logits), dtype=torch.bool, device=logits.device)
        if attention_mask is not None and attention_mask.numel() == len(logits):
            real = attention_mask.flatten().to(logits.device) > 0
        experts = torch.arange(logits.shape[-1], device=logits.device)
        hits = (choices[:, :, None] == experts) & real[:, None, None]
        first = (logits.argmax(dim=-1)[:, None] == experts) & real[:, None]
        shares = logits.softmax(dim=-1)
        entropy = torch.where(real, -torch.xlogy(shares, shares).sum(dim=-1), 0.0)
        found = real.sum(), hits.sum(dim=(0, 1)), first.sum(dim=0), entropy.double().sum()
        if self.tokens is None:
            self.tokens, self._load, self._first, self._entropy = found
        else:
            self.tokens, self._load = self.tokens + found[0], self._load + found[1]
            self._first, self._entropy = self._first + found[2], self._entropy + found[3]

    def load_entropy(self) -> Tensor:
        """Compute −Σ f_e ln f_e, nats."""
        shares = self._load / self._load.sum()
        return -torch.xlogy(shares, shares).sum()

    def top1_share(self) -> Tensor:
        """Compute the share of the expert that is most often chosen first."""
        return self._first.max() / self._first.sum()

    def router_entropy(self) -> Tensor:
        """Compute the mean entropy of the router's softmax, nats."""
        return self._entropy / self._first.sum()


def _stack(numbers: Iterable[Tensor]) -> Tensor:
    """Stack one number of each layer on the device of the first; the layers may be on several devices."""
    first, *others = numbers
    return torch.stack([first, *(number.to(first.device) for number in others)])


def _logits_and_choices(output: Any, top_k: int) -> tuple[Tensor, Tensor] | None:  # noqa: ANN401 - a router's own output
    """Read logits ``(…, experts)`` alone, or (logits, weights, choices, …) as in transformers 5; else return None.

    Llama 4 returns (scores, logits), and DeepSeek in transformers 4 (choices, weights).
    """
    match output:
        case Tensor() as logits if logits.is_floating_point() and logits.ndim > 1 and logits.shape[-1] >= top_k:
            return logits, logits.detach().topk(top_k, dim=-1).indices
        case (Tensor() as logits, Tensor() as weights, Tensor() as choices, *_) if (
            logits.is_floating_point()
            and not choices.is_floating_point()
            and weights.shape == choices.shape
            and logits.shape[:-1] == choices.shape[:-1]
            and logits.shape[-1] >= choices.shape[-1]
        ):
            return _without_softmax(logits.detach().float()), choices
    return None


def _without_softmax(logits: Tensor) -> Tensor:
    """Take the logarithm of probabilities, which transformers 5.0 returns in place of logits."""
    is_softmax = (logits >= 0).all() & ((logits.sum(dim=-1) - 1).abs() < ROUNDING).all()
    return torch.where(is_softmax, logits.log(), logits)
