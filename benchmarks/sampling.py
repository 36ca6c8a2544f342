"""``python -m benchmarks.sampling``: tokens per second of our sampler and of `transformers.generate`.

Both sample from the same tiny random Qwen2, with the same prompts and the same number of new tokens, batched with a
cache of keys and values, at temperature 1 over the whole vocabulary, in turn in one process on one thread. As in a
rollout batch of GRPO, eight responses share a prompt. Our sampler also does the work for a search environment: it reads
every token for tags and keeps a mask. There are two measurements: responses of one length, and responses that end at
random, as those of a policy do. In the second measurement one token in 32 ends a response, and tokens after it are not
counted. Time is processor time, which a busy machine lengthens for both. Read the ratios.
"""

import argparse
import random
import statistics
import time
from collections.abc import Callable, Sequence

import torch
from transformers import GenerationConfig, Qwen2Config, Qwen2ForCausalLM
from transformers.utils import logging

from trainer_hooks.reference.custom_task.episode import EpisodeRules, SearchEpisode
from trainer_hooks.reference.custom_task.questions import TextQuestion
from trainer_hooks.reference.huggingface.policy import HuggingFacePolicy

TARGET = 3.0
VOCABULARY, CONTEXT, GROUP = 512, 144, 8
ENDING = range(VOCABULARY // 32)
"""Tokens that may end a response; their probability under random weights is one in 32."""

Sampler = Callable[[], int]
"""Samples once and returns the number of new tokens, up to the end of each response."""


class Silent:
    """An environment with one action per episode, up to its end or a given length, and no feedback."""

    questions: Sequence[TextQuestion] = ()
    control_ids: Sequence[int] = ()

    def __init__(self, prompts: Sequence[list[int]], new_tokens: int, ending: Sequence[int]) -> None:
        self._prompts = prompts
        self._rules = EpisodeRules(
            piece=str,
            decode=lambda tokens: " ".join(map(str, tokens)),
            end_of_text=frozenset(ending),
            watched=frozenset(
                {*ending, *range(8)}
            ),  # about as many tokens as contain the last character of a tag elsewhere
            max_actions=1,
            max_action_tokens=new_tokens,
        )

    def held_out(self, draw: random.Random, count: int) -> list[int]:
        """Return prompts by their numbers."""
        return [draw.randrange(len(self._prompts)) for _ in range(count)]

    def episode(self, question: int) -> SearchEpisode:
        """Begin an episode."""
        return SearchEpisode(self._rules, TextQuestion("", ("",), ""), self._prompts[question])

    def feedback(self, episodes: Sequence[SearchEpisode]) -> list[list[int]]:
        """Return no feedback."""
        return [[] for _ in episodes]


def samplers(
    width: int, layers: int, *, rows: int, prompt: int, new_tokens: int, ending: Sequence[int]
) -> dict[str, Sampler]:
    """Return the two samplers over the same weights and prompts; tokens of ``ending`` end a response."""
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=VOCABULARY, hidden_size=width, intermediate_size=4 * width, num_hidden_layers=layers,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=CONTEXT, tie_word_embeddings=True,
        eos_token_id=None, bos_token_id=None, pad_token_id=0,
    )  # fmt: skip
    model = Qwen2ForCausalLM(config).eval()  # type: ignore[no-untyped-call]
    policy = HuggingFacePolicy(model, CONTEXT)
    prompts = torch.randint(1, VOCABULARY, (rows // GROUP, prompt)).repeat_interleave(GROUP, dim=0)
    environment = Silent(prompts.tolist(), new_tokens, ending)
    generator = torch.Generator().manual_seed(0)
    plain = GenerationConfig(  # type: ignore[no-untyped-call]
        do_sample=True, temperature=1.0, top_k=0, top_p=1.0, max_new_tokens=new_tokens,
        eos_token_id=list(ending) or None, pad_token_id=0,
    )  # fmt: skip

    def theirs() -> int:
        with torch.no_grad():
            found = model.generate(prompts, attention_mask=torch.ones_like(prompts), generation_config=plain)
        ended = torch.isin(found[:, prompt:], torch.tensor(ending, dtype=torch.long)).cumsum(dim=1)
        return int((ended == 0).sum() + (ended.amax(dim=1) > 0).sum())

    def ours() -> int:
        rollout = policy.sample(environment, [environment.episode(row) for row in range(rows)], generator=generator)
        return int(rollout.mask.sum())

    return {"transformers.generate": theirs, "our sampler": ours}


def measure(candidates: dict[str, Sampler], repeats: int) -> dict[str, list[float]]:
    """Measure tokens per second of each repeat, with the candidates in turn."""
    rates: dict[str, list[float]] = {name: [] for name in candidates}
    for repeat in range(repeats + 1):
        for name, sample in candidates.items():
            started = time.process_time()
            tokens = sample()
            if repeat:  # the first pays for imports and warm caches
                rates[name].append(tokens / (time.process_time() - started))
    return rates


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a table: median tokens a second, and the ratio to transformers.generate with its range over the repeats."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sampling", description=__doc__)
    parser.add_argument("--groups", type=int, nargs="+", default=[2, 8], help="groups of 8 sampled at once [2 8]")
    parser.add_argument("--width", type=int, default=64, help="width of the model [64]")
    parser.add_argument("--layers", type=int, default=2, help="layers of the model [2]")
    parser.add_argument("--new-tokens", type=int, default=96, help="new tokens of each response [96]")
    parser.add_argument("--repeats", type=int, default=9, help="repeats of each [9]")
    given = parser.parse_args(arguments)
    torch.set_num_threads(1)
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    print(
        f"Qwen2 of width {given.width}, {given.layers} layers, up to {given.new_tokens} new tokens after 32, one thread"
    )
    for ends, ending in (("of one length", range(0)), ("that end at random", ENDING)):
        print(f"\n{'responses ' + ends:32} {'tokens/s':>10} {'ratio':>7} {'range':>14}")
        for rows in (GROUP * groups for groups in given.groups):
            candidates = samplers(
                given.width, given.layers, rows=rows, prompt=32, new_tokens=given.new_tokens, ending=ending
            )
            rates = measure(candidates, given.repeats)
            base = rates["transformers.generate"]
            for name, found in rates.items():
                ratios = sorted(ours / theirs for ours, theirs in zip(found, base, strict=True))
                spread = f"{ratios[0]:.2f} to {ratios[-1]:.2f}"
                label = f"{name}, {rows} rows"
                print(f"{label:32} {statistics.median(found):10,.0f} {statistics.median(ratios):7.2f} {spread:>14}")
    print(f"\ntarget: {TARGET:.0f} times transformers.generate\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
