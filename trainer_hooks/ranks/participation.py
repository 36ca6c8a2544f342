"""Finds out whether every rank takes part in something. Adds no collective (decision 0004)."""

import itertools
import logging

from trainer_hooks.ranks.process_group import (
    KeyValueStore,
    find_group,
    find_world_size,
    open_store,
    synchronize_device,
)

__all__ = ["Unanimity"]

logger = logging.getLogger("trainer_hooks")

# Objects of this class have the same numbers on every rank, because all ranks run one script. If the numbers differ, no
# rank finds that all take part.
_numbers = itertools.count()


class Unanimity:
    """Finds out once whether every rank takes part in something, over the process group's store.

    Each rank registers after its first step, and counts the registered ranks after its second. By then every rank that
    takes part has registered, because it took part in the second step's collectives. So all ranks read the same count,
    and none waits for another. In another process group, whose ranks may be others, no rank takes part any more.

    Args:
        what: The activity that the ranks take part in, in words, the same on every rank.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._name = f"{what} {next(_numbers)}"
        self._store: KeyValueStore | None = None
        self._is_decided = self._is_unanimous = False
        self._group: object = None

    def __reduce__(self) -> "tuple[type[Unanimity], tuple[str]]":
        """Become one that finds out anew, because a copy is for another training; a store cannot be copied."""
        return Unanimity, (self._what,)

    @property
    def is_unanimous(self) -> bool:
        """Whether every rank is known to take part; always True for a single process."""
        return find_world_size() == 1 or (self._is_unanimous and self._group is find_group())

    def after_step(self) -> None:
        """Register or count; call this after every step.

        Raises:
            DistNetworkError: If the store is gone; this rank then does not take part.
            TimeoutError: If the store does not answer; likewise.
        """
        if self._is_decided or find_world_size() == 1:
            return
        if self._store is None:
            # A rank that failed to register must not do so later, when the others have counted.
            self._is_decided = True
            self._group = find_group()
            self._store = open_store(self._name)
            self._store.add("registered", 1)
            self._is_decided = False
            return
        self._is_decided = True
        synchronize_device()
        registered = self._store.add("registered", 0)
        self._store = None
        self._is_unanimous = registered == find_world_size()
        if not self._is_unanimous:
            logger.warning(
                "rlvitals: no %s, because only %d of %d ranks ask for it and have the collector's address; "
                "set RLVITALS_URL on every node",
                self._what,
                registered,
                find_world_size(),
            )
