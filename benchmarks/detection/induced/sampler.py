"""The sampler of suite D, which a failure can break."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from transformers import Qwen2ForCausalLM
from trl import GRPOTrainer, RLOOTrainer

from benchmarks.detection.induced.decoding import Decoder
from benchmarks.detection.induced.failures import Cause, Failure
from benchmarks.detection.induced.task import BLANK, END, LETTERS, Problems, shifted

__all__ = ["LONGEST", "Sampler"]

LONGEST = 12  # tokens of a response; an answer has 7
NEVER = -1e9  # the score of a token that is masked


class Sampler:
    """Samples responses token by token, as TRL's ``rollout_func``, and reports the log-probabilities that it used.

    Args:
        problems: The problems among which prompts are looked up.
        seed: The seed of its own generator.
        amount: Returns the share of the failure's full level at the present step.
        failure: The failure; None in a healthy run.
    """

    def __init__(self, problems: Problems, seed: int, amount: Callable[[], float], failure: Failure | None) -> None:
        self._ids = dict(zip(problems.texts(), problems.prompts.tolist(), strict=True))
        self._random = torch.Generator().manual_seed(seed)
        self._held_out_random = torch.Generator().manual_seed(seed + 1)
        self._amount, self._failure = amount, failure
        self._noise: list[torch.Tensor] = []

    def __call__(self, prompts: Sequence[str], trainer: GRPOTrainer | RLOOTrainer) -> dict[str, Any]:
        """Return prompt ids, response ids and the log-probability of each response token, nats."""
        level = self._level
        ids = torch.tensor([self._ids[prompt] for prompt in prompts])
        dead = round(level(Cause.DEAD_ENVIRONMENT) * len(prompts))
        ids[:dead, :LETTERS] = BLANK
        moved = round(level(Cause.TOKENISER_SHIFT) * len(prompts))
        ids[:moved, :LETTERS] = shifted(ids[:moved, :LETTERS])
        unending = round(level(Cause.UNENDING) * len(prompts))
        model = trainer.accelerator.unwrap_model(trainer.model)
        drift = level(Cause.SAMPLER_DRIFT)
        temperature = 1.0
        if self._is(Cause.TEMPERATURE) and self._failure is not None:
            temperature = 1.0 - self._amount() * (1.0 - self._failure.level)
        kept = [value.detach().clone() for value in model.parameters()] if drift else []
        try:
            if drift:
                self._disturb(model, drift)
            tokens, logprobs = self._sampled(model, ids, temperature, self._random, unending)
        finally:
            with torch.no_grad():
                for value, original in zip(model.parameters(), kept, strict=False):
                    value.copy_(original)
        lengths = _lengths(tokens).tolist()
        return {
            "prompt_ids": ids.tolist(),
            "completion_ids": [row[:length] for row, length in zip(tokens.tolist(), lengths, strict=True)],
            "logprobs": [row[:length] for row, length in zip(logprobs.tolist(), lengths, strict=True)],
        }

    def hold_out(self, model: Qwen2ForCausalLM, problems: Problems) -> dict[str, Any]:
        """Sample responses that no update trains on, as the arguments of `PairedProbe.note`."""
        ids = torch.from_numpy(problems.prompts)
        tokens, _ = self._sampled(model, ids, 1.0, self._held_out_random)
        mask = torch.arange(tokens.shape[1]) < _lengths(tokens)[:, None]
        whole = torch.cat([ids, tokens], dim=1)

        @torch.no_grad()
        def score() -> tuple[torch.Tensor, torch.Tensor]:
            logprobs = model(input_ids=whole).logits[:, ids.shape[1] - 1 : -1].log_softmax(dim=-1)
            return logprobs.gather(2, tokens[:, :, None])[:, :, 0], -(logprobs.exp() * logprobs).sum(dim=2)

        answers = torch.from_numpy(problems.answers)
        width = min(tokens.shape[1], answers.shape[1])
        correct = (tokens[:, :width] == answers[:, :width]).all(dim=1) & (_lengths(tokens) == answers.shape[1])
        return {"score": score, "mask": mask, "correct": correct}

    @torch.no_grad()
    def _sampled(
        self,
        model: Qwen2ForCausalLM,
        ids: torch.Tensor,
        temperature: float,
        random: torch.Generator,
        unending: int = 0,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        decoder = Decoder(model, ids.shape[1] + LONGEST)
        newest, tokens, logprobs = ids, [], []
        ended = torch.zeros(len(ids), dtype=torch.bool)
        for _ in range(LONGEST):
            logits = decoder(newest) / temperature
            logits[:unending, END] = NEVER
            scores = logits.log_softmax(dim=-1)
            # With weights that are no longer finite the samples are arbitrary, as those of an inference engine are.
            usable = torch.nan_to_num(scores, nan=-30.0, neginf=-30.0, posinf=0.0).softmax(dim=-1)
            newest = torch.multinomial(usable, 1, generator=random)
            logprobs.append(scores.gather(1, newest))
            tokens.append(newest)
            ended |= newest[:, 0] == END
            if bool(ended.all()):
                break
        return torch.cat(tokens, dim=1), torch.cat(logprobs, dim=1)

    @torch.no_grad()
    def _disturb(self, model: Qwen2ForCausalLM, drift: float) -> None:
        """Add the same noise at every step, as a wrong quantisation does."""
        if not self._noise:
            self._noise = [
                torch.randn(value.shape, generator=self._random) * value.std(correction=0)
                for value in model.parameters()
            ]
        for value, noise in zip(model.parameters(), self._noise, strict=True):
            value.add_(noise, alpha=drift)

    def _is(self, cause: Cause) -> bool:
        return self._failure is not None and self._failure.cause is cause

    def _level(self, cause: Cause) -> float:
        return self._failure.level * self._amount() if self._failure is not None and self._is(cause) else 0.0


def _lengths(tokens: torch.Tensor) -> torch.Tensor:
    """Return the tokens of each response up to its end."""
    ended = tokens == END
    return torch.where(ended.any(dim=1), ended.int().argmax(dim=1) + 1, tokens.shape[1])
