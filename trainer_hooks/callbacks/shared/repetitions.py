"""Keeps a callback that was given twice to a trainer from being called twice. Depends on no framework."""

from collections.abc import MutableSequence

__all__ = ["remove_repetitions"]


def remove_repetitions(callback: object, callbacks: MutableSequence[object]) -> None:
    """Leave only the first place of a callback; its first event of a training calls this.

    It would count each batch and log each step twice, and its ranks, which count the ends of steps, would not agree on
    a step. The trainer may be iterating over the list, and goes on behind the first place.
    """
    places = [place for place, each in enumerate(callbacks) if each is callback]
    for place in reversed(places[1:]):
        del callbacks[place]
