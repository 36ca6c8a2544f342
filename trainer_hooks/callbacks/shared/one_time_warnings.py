"""Logs each warning once, where its cause lasts for a whole training. Depends on no framework."""

import logging

__all__ = ["OneTimeWarnings"]

logger = logging.getLogger("trainer_hooks")


class OneTimeWarnings:
    """The warnings of one adapter, for example that a signal is not observed, and why."""

    def __init__(self) -> None:
        self._logged: set[str] = set()

    def log(self, message: str) -> None:
        """Log a warning, unless it was logged before."""
        if message not in self._logged:
            self._logged.add(message)
            logger.warning("rlvitals: %s", message)
