"""How many held-out questions of the built-in environment are training questions too, as a Markdown table.

Held-out questions are drawn from the same distribution as the training questions, and not from the rest of it.
"""

import random
from collections.abc import Iterable

from trainer_hooks.reference.builtin_task.environment import FactsEnvironment
from trainer_hooks.reference.config import Config
from trainer_hooks.reference.experiments.tables.markdown import markdown_table
from trainer_hooks.reference.presets import PRESETS

__all__ = ["OVERLAP_PRESETS", "overlap_table"]

OVERLAP_PRESETS = ("demo", "spiral", "stubborn", "constant", "long-thoughts", "release", "release-peak")
"""The recorded presets of the built-in environment."""

STEPS_DRAWN = 500


def overlap_table(presets: Iterable[str] = OVERLAP_PRESETS) -> str:
    """Format a row for each preset: its training questions, and the share of its held-out ones that are among them.

    A question is its prompt. The held-out questions are those of the first 500 steps of seed 0.
    """
    head = ["preset", "training questions", "different ones", "held-out ones among them", "of the same step"]
    return markdown_table(head, [_row(preset) for preset in presets])


def _row(preset: str) -> list[object]:
    config = Config(**PRESETS[preset])
    environment, draw = FactsEnvironment(config), random.Random(config.seed)
    trained = {question.prompt for question in environment.questions}
    found: list[tuple[bool, bool]] = []
    for _ in range(STEPS_DRAWN):
        asked = {question.prompt for question in draw.sample(environment.questions, config.questions_per_step)}
        held_out = environment.held_out(draw, config.held_out)
        found += [(question.prompt in trained, question.prompt in asked) for question in held_out]
    shares = (f"{sum(events) / len(found):.1%}" for events in zip(*found, strict=True))
    return [preset, len(environment.questions), len(trained), *shares]
