"""Groups of responses to one prompt: how often a grader gives all of them the same verdict.

The success rate p of a prompt has the law Beta(c·s, c·(1−s)) with the mean s of the step.
"""

from math import comb

import numpy as np

from benchmarks.detection.authored.noise import Floats

__all__ = ["all_correct", "all_marked"]

DIFFICULTY_SPREAD = 2.0  # c, the concentration of the law


def all_correct(success: Floats, group: int) -> Floats:
    """Return E[p^G] over prompts: the share of groups that are all correct.

    Args:
        success: Mean success rate by step, in (0, 1).
        group: Responses in a group, G.
    """
    share = np.ones_like(success)
    for i in range(group):
        share *= (success * DIFFICULTY_SPREAD + i) / (DIFFICULTY_SPREAD + i)
    return share


def all_marked(success: Floats, group: int, *, floor: Floats, slope: Floats) -> Floats:
    """Return E[(a + b·p)^G]: the share of groups that a faulty grader marks correct as a whole.

    A grader marks a response of a prompt with success rate p as correct with probability a + b·p. A sound one has
    a = 0 and b = 1, an inverted one a = 1 and b = −1. By the binomial theorem the share is
    Σₖ C(G, k) a^(G−k) b^k E[p^k].

    Args:
        success: Mean success rate by step, in (0, 1).
        group: Responses in a group, G.
        floor: a, by step.
        slope: b, by step.
    """
    terms = [comb(group, k) * floor ** (group - k) * slope**k * all_correct(success, k) for k in range(group + 1)]
    share: Floats = np.clip(np.sum(terms, axis=0), 0.0, 1.0)
    return share
