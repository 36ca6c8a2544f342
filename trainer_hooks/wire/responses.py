"""The wire form of a sampled response: its tokens, and their probabilities under the policies."""

from typing import Literal

import numpy as np

from trainer_hooks.wire.arrays import Array, Wire

__all__ = ["RESPONSE_KINDS", "Response", "ResponseKind"]

ResponseKind = Literal["displaced", "resembling", "unlikely", "longest", "random"]
RESPONSE_KINDS: tuple[ResponseKind, ...] = ("displaced", "resembling", "unlikely", "longest", "random")


class Response(Wire, frozen=True):
    """One sampled response: why it was selected, its reward, and its T tokens, of which N are action tokens.

    Token arrays begin at the first action token and may end before the last one; ``length`` counts all of them.
    Numbers of tokens are float16: |x̂ − x| ≤ max(2⁻¹¹ |x|, 2⁻²⁵) for |x| ≤ 65504, and infinite beyond. NaN and Inf are
    data.

    Attributes:
        kinds: The criteria by which it was selected.
        reward: Its reward.
        correct: Whether it counts as correct.
        length: Action tokens of the whole response.
        logprob: Σ ln π_θ over all of them, nats.
        actions: First place and place after the last of each action, int32 ``(A, 2)``, within the T tokens.
        logprobs: ln π_θ of the action tokens, float16 ``(N,)``.
        displacement: Σ (ln π_θ − ln π_old) over the whole response, nats; None where no update lies between
            the two policies.
        displacements: The same for each token, float16 ``(N,)``.
        trained: Whether the update between the two policies was on these very responses (self) or on others (cross).
        entropies: Entropy at each action token, float16 ``(N,)``, nats.
        mismatches: ln π_trainer − ln π_sampler of each action token at the sampler's weights, float16 ``(N,)``; None
            where the trainer does not state the sampler's log-probabilities.
        token_ids: All T tokens, feedback too, int32 ``(T,)``.
        group: Equal for responses of the step to the same prompt.
        advantage: Its advantage, the mean over its action tokens.
        advantages: Advantage of each action token, float16 ``(N,)``; None where it is the same for all tokens of every
            response of the step.
        truncated: Whether it was cut at the length limit.
        text: The whole response, only where the user sends texts.
        pieces: The text of each of the T tokens, only where the user sends texts.
    """

    kinds: list[ResponseKind]
    reward: float
    correct: bool
    length: int
    logprob: float
    actions: Array
    logprobs: Array
    displacement: float | None = None
    displacements: Array | None = None
    trained: bool | None = None
    entropies: Array | None = None
    mismatches: Array | None = None
    token_ids: Array | None = None
    group: int | None = None
    advantage: float | None = None
    advantages: Array | None = None
    truncated: bool | None = None
    text: str | None = None
    pieces: list[str] | None = None

    def check(self) -> None:
        """Refuse arrays that contradict each other.

        Raises:
            ValueError: At the first contradiction.
        """
        for name, array in (("actions", self.actions), ("token_ids", self.token_ids)):
            if array is not None and not array.dtype.startswith("int"):
                raise ValueError(f"{name} must hold integers, got {array.dtype}")
        actions = self.actions.to_numpy().astype(np.int64)
        if actions.ndim != 2 or actions.shape[1] != 2 or not len(actions):  # noqa: PLR2004 - (A, 2)
            raise ValueError(f"actions must have a shape (A, 2) with A >= 1, got {actions.shape}")
        flat = actions.ravel()
        if flat[0] != 0 or (flat[1:] < flat[:-1]).any() or (actions[:, 0] == actions[:, 1]).any():
            raise ValueError(f"actions must begin at 0, ascend and hold a token each, got {actions.tolist()[:8]}")
        action_tokens = int((actions[:, 1] - actions[:, 0]).sum())
        for name in ("logprobs", "displacements", "entropies", "mismatches", "advantages"):
            numbers: Array | None = getattr(self, name)
            if numbers is not None and numbers.to_numpy().shape != (action_tokens,):
                raise ValueError(f"{name} must hold one number an action token ({action_tokens},), got {numbers.shape}")
        if self.token_ids is not None and self.token_ids.to_numpy().shape != (int(flat[-1]),):
            raise ValueError(
                f"token_ids must end with the last action, at token {flat[-1]}, got {self.token_ids.shape}"
            )
        if self.pieces is not None and len(self.pieces) != int(flat[-1]):
            raise ValueError(f"pieces must hold one text a token ({flat[-1]}), got {len(self.pieces)}")
        if self.length < action_tokens:
            raise ValueError(f"length must be at least the {action_tokens} action tokens given, got {self.length}")
