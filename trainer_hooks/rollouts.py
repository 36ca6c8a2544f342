"""The token arrays of one step, validated when the user makes them. Computes no signal."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from math import inf, nan
from sys import getsizeof
from typing import Any, Literal

from numpy.typing import ArrayLike

from trainer_hooks.arrays import HOST, LENT, Array, ArrayLibrary, library_of
from trainer_hooks.arrays.checks import read_booleans, read_floats, read_integers
from trainer_hooks.errors import RolloutsError
from trainer_hooks.text_safety import describe_object

__all__ = ["Rollouts", "read_control_ids"]

# Softmax in bfloat16 rounds a probability of 1 to a log-probability a little above 0.
ROUNDING_NATS = 1e-2


class Rollouts:
    """The responses of one step on this rank: token log-probabilities, masks and rewards.

    Arrays may be numpy arrays, nested lists or torch tensors. They are copied unless ``copy`` is False. Where
    ``logprobs`` is on an accelerator, all arrays stay there uncopied and are read when the step is logged, in the order
    of the device's work, so do not overwrite them before that. Values where ``mask`` is False are ignored. NaN and Inf
    are data: they are counted in ``finite/bad_values``. Leave out what is not known, and never fill it with 0. An
    action is a contiguous run of True in a row of ``mask``.

    Args:
        logprobs: Current policy's token log-probabilities ln π_θ, shape ``(B, T)``, nats, ≤ 0.
        mask: True on action tokens, False on tool feedback and padding, shape ``(B, T)``.
        rewards: Reward of each response, shape ``(B,)``; booleans count as 1 and 0.
        old_logprobs: Log-probabilities under the policy before this update, ln π_old, shape ``(B, T)``.
        sampler_logprobs: Log-probabilities computed by the inference engine, shape ``(B, T)``.
        ref_logprobs: Log-probabilities under the reference policy, shape ``(B, T)``.
        entropies: Entropy of the policy at each token, shape ``(B, T)``, nats, ≥ 0.
        advantages: Advantage of each response ``(B,)`` or token ``(B, T)``.
        group_ids: Equal for responses to the same prompt, shape ``(B,)``.
        token_ids: Token ids, feedback too, shape ``(B, T)``.
        answer_mask: True on the tokens of the final answer, within ``mask``, shape ``(B, T)``.
        correct: Whether each response is correct, shape ``(B,)``; ``rewards > 0`` unless given. A response whose reward
            is NaN or Inf is then neither correct nor incorrect.
        tool_calls: Number of tool calls, shape ``(B,)``.
        tool_calls_valid: How many of them were well formed and answered, shape ``(B,)``.
        tool_calls_empty: How many of the valid ones were answered with nothing, such as a search without a result,
            shape ``(B,)``.
        truncated: True where the response was cut at the length limit, shape ``(B,)``.
        trained: Whether the change from ``old_logprobs`` to ``logprobs`` comes from updates on these very responses
            (True: a later pass over them) or on others (False: an earlier minibatch). None where it is not known.
        clip_range: ε of the ratio clip, or (ε_low, ε_high).
        control_ids: Token ids of the protocol, such as the opening of a tool call.
        first_feedback: A number for the tool feedback to each response's first action, equal where the feedback is
            equal and negative where there was none, shape ``(B,)``.
        texts: One text a response. Leaves the process only with `RLVITALS_TEXTS` or ``connect(texts=True)``.
        vocabulary: The text of each token id, such as ``tokenizer.convert_ids_to_tokens(range(len(tokenizer)))``; not
            copied. Leaves the process on the same condition as ``texts``.
        decode: Returns the text of a list of token ids, such as ``copy.deepcopy(tokenizer).decode``. It replaces
            ``texts`` and is called only for the sampled responses, in a background thread, so give it a tokenizer that
            training does not use.
        check: Whether to check values at once. Otherwise they are checked in the background when signals are computed.
            Values on an accelerator are always checked there, because a check would wait for the device.
        copy: Whether arrays in memory are copied. False costs training least, but then nothing may write to the arrays
            any more. That holds for arrays that a trainer computes anew at every step.
        library: Where the arrays are; determined by ``logprobs`` unless given.

    Attributes:
        library: Where the arrays are.
        correct: As given, shape ``(B,)``, or None; `is_correct` and `is_incorrect` are known in either case.

    Raises:
        RolloutsError: If the arrays contradict each other; the message locates the first contradiction.
    """

    __slots__ = (
        "advantages",
        "answer_mask",
        "clip_range",
        "control_ids",
        "correct",
        "decode",
        "entropies",
        "first_feedback",
        "group_ids",
        "is_checked",
        "library",
        "logprobs",
        "mask",
        "old_logprobs",
        "ref_logprobs",
        "rewards",
        "sampler_logprobs",
        "texts",
        "token_ids",
        "tool_calls",
        "tool_calls_empty",
        "tool_calls_valid",
        "trained",
        "truncated",
        "vocabulary",
    )

    def __init__(
        self,
        logprobs: ArrayLike,
        mask: ArrayLike,
        rewards: ArrayLike,
        *,
        old_logprobs: ArrayLike | None = None,
        sampler_logprobs: ArrayLike | None = None,
        ref_logprobs: ArrayLike | None = None,
        entropies: ArrayLike | None = None,
        advantages: ArrayLike | None = None,
        group_ids: ArrayLike | None = None,
        token_ids: ArrayLike | None = None,
        answer_mask: ArrayLike | None = None,
        correct: ArrayLike | None = None,
        tool_calls: ArrayLike | None = None,
        tool_calls_valid: ArrayLike | None = None,
        tool_calls_empty: ArrayLike | None = None,
        truncated: ArrayLike | None = None,
        trained: bool | None = None,
        clip_range: float | Sequence[float] | None = None,
        control_ids: Sequence[int] | None = None,
        first_feedback: ArrayLike | None = None,
        texts: Sequence[str] | None = None,
        vocabulary: Sequence[str] | None = None,
        decode: Callable[[list[int]], str] | None = None,
        check: bool = True,
        copy: bool = True,
        library: ArrayLibrary | None = None,
    ) -> None:
        self.library = library or library_of(logprobs)
        if self.library is HOST and not copy:
            self.library = LENT
        self.logprobs = read_floats(self.library, "logprobs", logprobs, None, "")
        tokens = tuple(self.logprobs.shape)
        if len(tokens) != 2 or 0 in tokens:  # noqa: PLR2004 - (B, T)
            raise RolloutsError(f"logprobs must have a shape (B, T) with B, T >= 1, got {tokens}")
        self.mask = read_booleans(self.library, "mask", mask, tokens, "logprobs")
        self.rewards = read_floats(self.library, "rewards", rewards, tokens[:1], "one response", may_be_booleans=True)
        self.old_logprobs = self._token_floats("old_logprobs", old_logprobs)
        self.sampler_logprobs = self._token_floats("sampler_logprobs", sampler_logprobs)
        self.ref_logprobs = self._token_floats("ref_logprobs", ref_logprobs)
        self.entropies = self._token_floats("entropies", entropies)
        self.advantages = self._advantages(advantages)
        self.token_ids = (
            None if token_ids is None else read_integers(self.library, "token_ids", token_ids, tokens, "logprobs")
        )
        self.answer_mask = (
            None if answer_mask is None else read_booleans(self.library, "answer_mask", answer_mask, tokens, "logprobs")
        )
        self.group_ids = self._response_integers("group_ids", group_ids)
        self.correct = self._response_booleans("correct", correct)
        self.tool_calls = self._response_integers("tool_calls", tool_calls)
        self.tool_calls_valid = self._response_integers("tool_calls_valid", tool_calls_valid)
        self.tool_calls_empty = self._response_integers("tool_calls_empty", tool_calls_empty)
        self.first_feedback = self._response_integers("first_feedback", first_feedback)
        self.truncated = self._response_booleans("truncated", truncated)
        if isinstance(trained, str | list | tuple) or getattr(trained, "ndim", None):
            raise RolloutsError(
                f"trained must be True, False or None for all responses, got {describe_object(trained)}"
            )
        self.trained = trained
        self.clip_range = _clip_range(clip_range)
        self.control_ids = read_control_ids(control_ids)
        if texts is not None and not hasattr(texts, "__iter__"):
            raise RolloutsError(f"texts must be a list of one text a response, got {describe_object(texts)}")
        self.texts = None if texts is None else tuple(texts)
        self.vocabulary = vocabulary
        self.decode = decode
        self._check_lengths()
        self.is_checked = False
        if check:
            self.check()

    @property
    def is_correct(self) -> Array:
        """Whether each response is correct, shape ``(B,)``."""
        return self._is_rewarded & (self.rewards > 0) if self.correct is None else self.correct

    @property
    def is_incorrect(self) -> Array:
        """Whether each response is incorrect, shape ``(B,)``."""
        return self._is_rewarded & (self.rewards <= 0) if self.correct is None else ~self.correct

    @property
    def _is_rewarded(self) -> Array:
        return self.library.xp.isfinite(self.rewards)

    @property
    def nbytes(self) -> int:
        """Bytes held by the arrays and the texts."""
        values: list[Array] = [getattr(self, name) for name in self.__slots__]
        arrays: int = sum(array.nbytes for array in values if hasattr(array, "nbytes"))
        return arrays + self.text_bytes + sum(map(getsizeof, self.control_ids or ()))

    @property
    def text_bytes(self) -> int:
        """Bytes held by the texts."""
        return sum(map(getsizeof, self.texts or ()))

    @property
    def capability(self) -> Literal["L2", "L3"]:
        """The capability level of these arrays: L3 with old log-probabilities or entropies, else L2."""
        return "L2" if self.old_logprobs is None and self.entropies is None else "L3"

    def check(self) -> None:
        """Check the values once, and refuse what no policy can have produced.

        Raises:
            RolloutsError: At the first contradiction.
        """
        if self.is_checked:
            return
        self.is_checked = True
        refuse_where = self.library.refuse_where
        for name in ("logprobs", "old_logprobs", "sampler_logprobs", "ref_logprobs"):
            self._check_logprobs(name)
        if self.entropies is not None and not (self.library.is_host and self.entropies.min() >= -ROUNDING_NATS):
            negative = self.mask & (self.entropies < -ROUNDING_NATS) & (self.entropies > -inf)
            refuse_where(negative, self.entropies, "entropies must be at least 0 on action tokens")
        if self.answer_mask is not None:
            rule = "answer_mask must lie within mask, which is False on feedback and padding"
            refuse_where(self.answer_mask & ~self.mask, self.answer_mask, rule)
        if self.tool_calls is not None:
            refuse_where(self.tool_calls < 0, self.tool_calls, "tool_calls must be at least 0")
        if self.tool_calls_valid is not None:
            wrong = (self.tool_calls_valid < 0) | (self.tool_calls_valid > self.tool_calls)
            refuse_where(wrong, self.tool_calls_valid, "tool_calls_valid must be between 0 and tool_calls")
        if self.tool_calls_empty is not None:
            wrong = (self.tool_calls_empty < 0) | (self.tool_calls_empty > self.tool_calls_valid)
            refuse_where(wrong, self.tool_calls_empty, "tool_calls_empty must be between 0 and tool_calls_valid")

    def _token_floats(self, name: str, value: ArrayLike | None) -> Array | None:
        return None if value is None else read_floats(self.library, name, value, tuple(self.logprobs.shape), "logprobs")

    def _response_integers(self, name: str, value: ArrayLike | None) -> Array | None:
        return None if value is None else read_integers(self.library, name, value, tuple(self.rewards.shape), "rewards")

    def _response_booleans(self, name: str, value: ArrayLike | None) -> Array | None:
        return None if value is None else read_booleans(self.library, name, value, tuple(self.rewards.shape), "rewards")

    def _advantages(self, value: ArrayLike | None) -> Array | None:
        if value is None:
            return None
        advantages = read_floats(self.library, "advantages", value, None, "")
        responses, tokens = tuple(self.rewards.shape), tuple(self.logprobs.shape)
        if tuple(advantages.shape) not in (responses, tokens):
            raise RolloutsError(
                f"advantages must have the shape of rewards {responses} or of logprobs {tokens}, "
                f"got {tuple(advantages.shape)}"
            )
        return advantages

    def _check_lengths(self) -> None:
        if self.tool_calls_valid is not None and self.tool_calls is None:
            raise RolloutsError("tool_calls_valid needs tool_calls, got none")
        if self.tool_calls_empty is not None and self.tool_calls_valid is None:
            raise RolloutsError("tool_calls_empty needs tool_calls_valid, got none")
        if self.texts is not None and len(self.texts) != len(self.rewards):
            raise RolloutsError(f"texts must hold one text a response ({len(self.rewards)}), got {len(self.texts)}")

    def _check_logprobs(self, name: str) -> None:
        logprobs: Array | None = getattr(self, name)
        if logprobs is None:
            return
        # On the host one pass over all values is enough in nearly all cases.
        if not (self.library.is_host and logprobs.max() <= ROUNDING_NATS):
            # +Inf is counted as a bad value, like any other non-finite number.
            positive = self.mask & (logprobs > ROUNDING_NATS) & (logprobs < inf)
            rule = f"{name} must be log-probabilities, at most 0 on action tokens"
            self.library.refuse_where(positive, logprobs, rule)
        if self.library.is_host and logprobs.reshape(-1)[self.mask.argmax()] != 0:
            return
        is_certain = self.mask.any() & ~(self.mask & (logprobs != 0)).any()
        if self.entropies is not None:
            # A policy that has collapsed to certainty may have 0 everywhere, and then its entropies are 0 too.
            is_certain = is_certain & (self.mask & (self.entropies > ROUNDING_NATS)).any()
        self.library.refuse_if(
            is_certain,
            f"{name} must be log-probabilities, got 0 (certainty) on every action token; "
            "leave out what is not known instead of filling it with 0",
        )


def read_control_ids(value: Sequence[int] | None) -> tuple[int, ...] | None:
    """Return the token ids of a protocol as integers; None if there are none.

    Raises:
        RolloutsError: If they are not one list of integers; a tokenizer returns None for a token that it lacks.
    """
    if value is None:
        return None
    try:
        given = value if hasattr(value, "shape") else tuple(value)
        length = len(given)
    except TypeError:
        raise RolloutsError(f"control_ids must be one list of integers, got {describe_object(value)}") from None
    if not length:  # numpy would make floats of none
        return ()
    return tuple(read_integers(HOST, "control_ids", given, (length,), "one list").tolist())


def _clip_range(value: float | Sequence[float] | None) -> tuple[float, float] | None:
    if value is None:
        return None
    low = high = nan
    # A configuration file gives a list of the two.
    is_pair = getattr(value, "ndim", 0) == 1 or (isinstance(value, Sequence) and not isinstance(value, str))
    with suppress(TypeError, ValueError, OverflowError):
        pair: Any = value if is_pair else (value, value)
        low, high = map(float, pair)
    if not (0 < low < 1 and high > 0):
        raise RolloutsError(
            f"clip_range must be ε or (ε_low, ε_high) with 0 < ε_low < 1 and ε_high > 0, got {describe_object(value)}"
        )
    return low, high
