"""Finds out whether a thing is done on every rank. Adds no collective (decision 0004)."""

import itertools
import logging

from trainer_hooks.ranks.process_group import Store, settle, shared_store, world_size

__all__ = ["Unanimity"]

logger = logging.getLogger("trainer_hooks")

# The same on every rank, because all run one script; where they are not, nobody is found to do what the others do.
_numbers = itertools.count()


class Unanimity:
    """Finds out once whether every rank does the same thing, over the process group's store.

    A rank says after its first step that it does, and counts after its second who has said so. By then all have that
    ever will, because they took part in the second step's collectives: all count alike, and nobody waits for anybody.

    Args:
        what: The thing, in words, the same on every rank.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._name = f"{what} {next(_numbers)}"
        self._store: Store | None = None
        self._is_known = self._is_found = False

    @property
    def is_found(self) -> bool:
        """Whether every rank is known to do it; a single process is all there are."""
        return self._is_found or world_size() == 1

    def after_step(self) -> None:
        """Say or count; to be called after every step.

        Raises:
            DistBackendError: If the store is gone; this rank then does not do the thing.
        """
        if self._is_known or world_size() == 1:
            return
        if self._store is None:
            # Who has failed to say it must not do so later, when the others have counted.
            self._is_known = True
            self._store = shared_store(self._name)
            self._store.add("said", 1)
            self._is_known = False
            return
        self._is_known = True
        settle()
        said = self._store.add("said", 0)
        self._store = None
        self._is_found = said == world_size()
        if not self._is_found:
            logger.warning(
                "rlvitals: no %s, because only %d of %d ranks ask for it and have the collector's address; "
                "give it to all of them, by RLVITALS_URL on every node",
                self._what,
                said,
                world_size(),
            )
