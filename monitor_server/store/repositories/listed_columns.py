"""Derived columns of `runs`, by which lists of runs are searched, grouped and sorted.

Code that writes the labels of a run, or its newest rewards, must write these columns as well.
"""

import math
import re
from collections.abc import Sequence

__all__ = ["reward_columns", "text_columns"]

OWNER_TAG = "owner:"
COMPARED = 8  # the number of values at each end of the kept rewards whose means are compared
SEED = re.compile(r"[-_ /]*seed[-_ =]*\d+", re.IGNORECASE)


def text_columns(*, project: str, name: str, title: str | None, tags: Sequence[str]) -> dict[str, str | None]:
    """Return the columns for search and grouping: the words, the setting, the owner and the first tag.

    The setting is the name without its seed. The owner comes from the first tag of the form ``owner:ana``.
    """
    return {
        "search_text": " ".join((project, name, title or "", *tags)).lower(),
        "setting": SEED.sub("", name) or name,
        "tagged_owner": next(
            filter(None, (tag.removeprefix(OWNER_TAG).strip() for tag in tags if tag.startswith(OWNER_TAG))), None
        ),
        "first_tag": next(iter(tags), None),
    }


def reward_columns(rewards: Sequence[float]) -> dict[str, float | None]:
    """Return the newest finite reward, and the mean of the newest 8 rewards minus the mean of the first 8."""
    finite = [value for value in rewards if math.isfinite(value)]
    if not finite:
        return {"reward": None, "reward_change": None}
    newest, first = finite[-COMPARED:], finite[:COMPARED]
    # `fmean` raises an error if a sum is beyond the largest float.
    change = sum(newest) / len(newest) - sum(first) / len(first)
    return {"reward": finite[-1], "reward_change": change if math.isfinite(change) else None}
