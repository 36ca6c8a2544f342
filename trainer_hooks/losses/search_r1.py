"""LLDS for Search-R1's own trainer, a fork of verl 0.2, which has no registry of policy losses."""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from trainer_hooks.losses.regularisers.llds import LLDS_PRESETS, Gate, llds_loss, require_settings
from trainer_hooks.losses.verl import last_actions
from trainer_hooks.signals.loss_sums import of_responses

__all__ = ["with_llds"]

RELEASE = LLDS_PRESETS["release"]


def with_llds(
    loss: Callable[..., Any], *, coef: float = RELEASE.coef, gate: Gate = RELEASE.gate, answer_weight: float = 1.0
) -> Callable[..., Any]:
    """Wrap Search-R1's ``compute_policy_loss`` so that its first result is L + λ L_LLDS (eq. 7).

    The penalty is divided by the action tokens of each microbatch, as the loss itself is there and in the authors'
    release: the normaliser ``"all"`` of `trainer_hooks.losses.llds_loss`. The trainer must mask search results
    (``actor_rollout_ref.actor.state_masking=true``); without that the loss, and LLDS with it, counts them as actions.

    Args:
        loss: The function that is wrapped; its first four arguments are ``old_log_prob``, ``log_prob``, ``advantages``
            and ``eos_mask``, each of shape ``(B, T)``, and its first result is the loss.
        coef: λ, finite and ≥ 0.
        gate: As in `trainer_hooks.losses.llds_loss`.
        answer_weight: Factor on the penalty of the last action of a response with a search, in [0, 1]; 1 is LLDS, and
            0 is LLDS-MA (eq. 6). The loss sees no token ids, so the answer itself cannot be found.

    Raises:
        ValueError: If λ is negative or not finite, the gate is unknown, or the answer's weight is outside [0, 1].
    """
    require_settings(coef=coef, gate=gate, answer_weight=answer_weight)

    def compute_policy_loss(
        old_log_prob: Tensor,
        log_prob: Tensor,
        advantages: Tensor,
        eos_mask: Tensor,
        *args: Any,  # noqa: ANN401 - its clip range
        **kwargs: Any,  # noqa: ANN401 - likewise
    ) -> Any:  # noqa: ANN401 - the loss, the share of clipped tokens, and an estimate of the KL divergence
        value, *others = loss(old_log_prob, log_prob, advantages, eos_mask, *args, **kwargs)
        mask = eos_mask.bool()
        penalty = llds_loss(
            log_prob,
            old_log_prob,
            mask,
            of_responses(advantages, mask),
            gate=gate,
            answer_mask=None if answer_weight == 1 else last_actions(mask),
            answer_weight=answer_weight,
            normaliser="all",
        )
        return value + coef * penalty, *others

    return compute_policy_loss
