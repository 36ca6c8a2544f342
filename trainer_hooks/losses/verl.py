"""LLDS for verl: policy losses for its registry, ``actor_rollout_ref.actor.policy_loss.loss_mode=llds``."""

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from torch import Tensor

from trainer_hooks.losses.regularisers.llds import (
    LLDS_PRESETS,
    Gate,
    adaptive_answer_weight,
    llds_loss,
    require_settings,
)
from trainer_hooks.losses.token_arrays import action_index
from trainer_hooks.signals.loss_sums import NAMES, of_responses, token_sums

__all__ = ["last_actions", "register_llds", "register_presets", "with_sums"]

PolicyLoss = Callable[..., tuple[Tensor, dict[str, Any]]]


def register_presets() -> None:
    """Register ``llds`` with the defaults of `register_llds`, and ``llds_release`` with the release's λ and gate."""
    release = LLDS_PRESETS["release"]
    register_llds()
    register_llds("llds_release", coef=release.coef, gate=release.gate)


def register_llds(
    name: str = "llds",
    *,
    coef: float = 0.1,
    gate: Gate = "action",
    base: str = "vanilla",
    answer_weight: float = 1.0,
    answer_adaptive: bool = False,
) -> None:
    """Register L_base + λ L_LLDS, with LLDS divided by all action tokens, as one of verl's policy losses (eq. 7).

    The plugin registers ``llds`` and ``llds_release`` (`register_presets`). For another λ, gate or base, call this
    function in a module that the workers import (``VERL_USE_EXTERNAL_MODULES``). LLDS has an effect from the second
    update on a rollout.

    This is the form of the authors' release: the normaliser ``"all"`` of `trainer_hooks.losses.llds_loss`. Eq. 5 as
    printed divides by the tokens of the preserving set. verl does not pass their number to a policy loss; it passes the
    number of all action tokens of the minibatch. If a share s of the tokens is preserved, ``coef`` has the effect that
    λ = ``coef`` · s has in eq. 5. The release's script uses 0.2 with the action gate
    (`trainer_hooks.losses.LLDS_PRESETS`). verl 0.6 does not pass the number of tokens either; there, each microbatch is
    divided by its own number of tokens.

    verl passes no token ids to a policy loss, so LLDS-MA takes the last action of a response with a tool call as its
    answer.

    Args:
        name: Name of the loss in verl's registry.
        coef: λ, finite and ≥ 0.
        gate: As in `trainer_hooks.losses.llds_loss`.
        base: The registered loss to add to.
        answer_weight: Factor on the penalty of the last action, in [0, 1]; 1 is LLDS, and 0 is LLDS-MA (eq. 6).
        answer_adaptive: Multiply that factor by the mean number of tool calls per response beyond the first, up to 1,
            in each microbatch; the release does this for a whole batch.

    Raises:
        ValueError: If λ is negative or not finite, the gate is unknown, or the answer's weight is outside [0, 1], or 0
            where it is to be adaptive.
    """
    require_settings(coef=coef, gate=gate, answer_weight=answer_weight, answer_adaptive=answer_adaptive)
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
        answer, weight = last_actions(mask), answer_weight
        if answer_adaptive:
            weight = adaptive_answer_weight(weight, action_index(mask).amax(dim=1).clamp(min=0).float().mean().item())
        lost = llds_loss(
            log_prob,
            old_log_prob,
            mask,
            of_responses(advantages, mask),
            gate=gate,
            answer_mask=None if weight == 1 else answer,
            answer_weight=weight,
            normaliser=1,
        )
        tokens = mask.sum().clamp(min=1)
        whole = getattr(config, "global_batch_info", None) or {}
        penalty = lost / (whole.get("batch_num_tokens") or tokens) * (whole.get("dp_size") or 1)
        return loss + coef * penalty, metrics | {"actor/llds_loss": (lost.detach() / tokens).item()}

    core_algos.register_policy_loss(name)(policy_loss)


def last_actions(mask: Tensor) -> Tensor:
    """Mark the tokens of the last action of each response that has more than one, shape ``(B, T)``, bool."""
    index = action_index(mask)
    last = index.amax(dim=1, keepdim=True)
    return (index == last) & (last > 0)


def with_sums(loss: PolicyLoss, prefix: str, guard: AbstractContextManager[object]) -> PolicyLoss:
    """Wrap a policy loss so that its metrics also hold sums over its tokens; the loss itself does not change.

    The metrics are sums and counts, not means, because a microbatch without a preserved response must also have every
    key; otherwise verl's aggregation over ranks fails.
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
            # One copy from the device fetches all sums.
            found = token_sums(*(given[name].detach() for name in names)).tolist()
            sums |= dict(zip(NAMES, found, strict=True))
        return result, metrics | {f"{prefix}{name}": value for name, value in sums.items()}

    return policy_loss
