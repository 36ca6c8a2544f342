"""Counts the batches of each version of the SDK, by the User-Agent that it sends."""

import re
import threading

__all__ = ["SdkVersions"]

# A real fleet has at most this many versions. Further ones are counted together, because clients choose the text.
MOST_VERSIONS = 20
OTHERS = "others"
_AGENT = re.compile(r"rlvitals-sdk/([0-9A-Za-z.+!-]{1,40})", re.ASCII)


class SdkVersions:
    """Batches by version since the process began; for any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[str, int] = {}

    def count(self, user_agent: str) -> None:
        """Count one batch; a client that is not our SDK, or sends no version, is counted under an empty text."""
        match = _AGENT.fullmatch(user_agent)
        version = match.group(1) if match else ""
        with self._lock:
            if version not in self._counts and len(self._counts) >= MOST_VERSIONS:
                version = OTHERS
            self._counts[version] = self._counts.get(version, 0) + 1

    def counts(self) -> dict[str, int]:
        """Return the number of batches of each version."""
        with self._lock:
            return dict(self._counts)
