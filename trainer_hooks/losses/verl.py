"""LLDS for verl: a policy loss for its registry, ``actor_rollout_ref.actor.policy_loss.loss_mode=llds``."""

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from torch import Tensor

from trainer_hooks.losses.llds import Gate, llds_loss
from trainer_hooks.losses.loss_sums import NAMES, of_responses, token_sums

__all__ = ["register_llds", "with_sums"]

PolicyLoss = Callable[..., tuple[Tensor, dict[str, Any]]]


def register_llds(name: str = "llds", *, coef: float = 0.1, gate: Gate = "action", base: str = "vanilla") -> None:
    """Register L_base + λ s L_LLDS as one of verl's policy losses (eq. 7 of arXiv 2512.04220, but for s).

    Call it in a module that the workers import (``VERL_USE_EXTERNAL_MODULES``) for another λ, gate or base; the
    plugin has registered ``llds`` with the defaults. It acts from the second update on a rollout.

    A policy loss of verl is told how many action tokens the minibatch has, and not how many of them are in the
    preserving set. So the penalty is divided by all of them, and s is the preserving set's share: however the
    minibatch is cut into microbatches and ranks, the λ of eq. 7 is ``coef`` times the share of its tokens that
    belong to responses of advantage ≥ 0. To verl 0.6, which tells nothing, this holds of each microbatch.

    Args:
        name: What to call it.
        coef: λ, ≥ 0; where a quarter of the tokens is preserved, 0.4 is the paper's 0.1.
        gate: As in `trainer_hooks.losses.llds_loss`.
        base: The registered loss to add to.
    """
    from verl.trainer.ppo import core_algos  # noqa: PLC0415 - importing verl early would change what it finds

    def policy_loss(  # noqa: PLR0917 - verl's signature
        old_log_prob: Tensor,
        log_prob: Tensor,
        advantages: Tensor,
        response_mask: Tensor,
        loss_agg_mode: str = "token-mean",
        config: Any = None,  # noqa: ANN401 - verl's ActorConfig
        rollout_is_weights: Tensor | None = None,
        **more: Any,  # noqa: ANN401 - what a newer verl gives every loss
    ) -> tuple[Tensor, dict[str, Any]]:
        loss, metrics = core_algos.get_policy_loss_fn(base)(
            old_log_prob=old_log_prob,
            log_prob=log_prob,
            advantages=advantages,
            response_mask=response_mask,
            loss_agg_mode=loss_agg_mode,
            config=config,
            rollout_is_weights=rollout_is_weights,
            **more,
        )
        mask = response_mask.bool()
        lost = llds_loss(log_prob, old_log_prob, mask, of_responses(advantages, mask), gate=gate, normaliser=1)
        tokens = mask.sum().clamp(min=1)
        whole = getattr(config, "global_batch_info", None) or {}
        penalty = lost / (whole.get("batch_num_tokens") or tokens) * (whole.get("dp_size") or 1)
        return loss + coef * penalty, metrics | {"actor/llds_loss": (lost.detach() / tokens).item()}

    core_algos.register_policy_loss(name)(policy_loss)


def with_sums(loss: PolicyLoss, prefix: str, guard: AbstractContextManager[object]) -> PolicyLoss:
    """Wrap a policy loss so that its metrics also hold sums over its tokens; the loss itself is untouched.

    Sums and counts, not means: a microbatch without a kept response must still give every key, or verl's
    aggregation over ranks fails.
    """

    @functools.wraps(loss)
    def policy_loss(*args: Any, **kwargs: Any) -> tuple[Tensor, dict[str, Any]]:  # noqa: ANN401 - verl's signature
        outcome: Any = loss(*args, **kwargs)
        match outcome:
            case (result, dict(metrics)):
                pass
            case _:  # verl before 0.6 gives no metrics
                return outcome  # type: ignore[no-any-return]
        names = ("old_log_prob", "log_prob", "advantages", "response_mask")
        given = dict(zip(names, args, strict=False)) | kwargs
        sums = dict.fromkeys(NAMES, 0.0)
        with guard:
            # One copy off the device for all of them.
            found = token_sums(*(given[name].detach() for name in names)).tolist()
            sums |= dict(zip(NAMES, found, strict=True))
        return result, metrics | {f"{prefix}{name}": value for name, value in sums.items()}

    return policy_loss
