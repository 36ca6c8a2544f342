"""Follows a prime-rl run by the files that it exports.

prime-rl writes the tokens of each step with ``trainer.enable_token_export = true``; no code of this package runs in the
trainer. A step is read once its folder is marked ``STABLE``. Progress is saved in the run's folder as soon as the
collector has acknowledged a step, so that the follower may be stopped and started at any time.
"""

import contextlib
import json
import logging
from dataclasses import dataclass
from pathlib import Path

import msgspec

import trainer_hooks
from trainer_hooks.callbacks.prime_rl.exports import read_sequences, rollout_arguments, token_metrics
from trainer_hooks.callbacks.prime_rl.rewards import RewardIndex
from trainer_hooks.callbacks.shared.error_guard import Guard

__all__ = ["Follower"]

logger = logging.getLogger("trainer_hooks")

EXPORTS, STABLE, STATE = "token_exports", "STABLE", "rlvitals_followed.json"
ANSWER_SECONDS = 30.0  # longest wait for the collector's answer to a step


@dataclass(frozen=True, slots=True, order=True)
class StableMarker:
    """The time at which a step was marked as complete, and its number. A run that goes back marks its steps again."""

    stable_ns: int = -1
    step: int = -1


_MARKERS = msgspec.json.Decoder(StableMarker)


class Follower:
    """Logs the complete steps of a run, oldest first, each once.

    Args:
        folder: The run's folder, the one that holds ``token_exports``.
        monitor: From `trainer_hooks.connect`.
    """

    def __init__(self, folder: Path, monitor: "trainer_hooks.Monitor") -> None:
        self._folder = folder
        self._monitor = monitor
        self._state = folder / STATE
        self._last = _read_progress(self._state)
        self._rewards = RewardIndex(folder)
        self._guard = Guard()
        self._guard.count_for(monitor)
        self._has_warned = False
        self.is_acknowledged = True
        """Whether the collector has acknowledged the last step that was logged."""

    def is_behind(self) -> bool:
        """Whether the next step is complete. This reads one file's status, whereas `catch_up` reads one per step."""
        newest = self._last.step
        return newest < 0 or (self._folder / EXPORTS / f"step_{newest + 1}" / STABLE).exists()

    def catch_up(self) -> int:
        """Log the steps that have become complete since the last call.

        Where the collector takes too long to answer, the rest is left to the next call.

        Returns:
            How many steps the collector has acknowledged.
        """
        steps = 0
        for marker, folder in self._complete_steps():
            with self._guard:  # a step that cannot be read must not keep the others back
                self._log_step(marker.step, folder)
            self._last = marker
            # A step that the collector has not acknowledged is read again after a restart.
            self.is_acknowledged = self._monitor.flush(ANSWER_SECONDS)
            if not self.is_acknowledged:
                break
            steps += 1
            self._save_progress(marker)
        return steps

    def _complete_steps(self) -> list[tuple[StableMarker, Path]]:
        found = []
        with contextlib.suppress(OSError):  # prime-rl deletes old folders
            for file in self._folder.glob(f"{EXPORTS}/step_*/{STABLE}"):
                with contextlib.suppress(ValueError, OSError):  # another folder, or one that is written again
                    step = int(file.parent.name.removeprefix("step_"))
                    found.append((StableMarker(file.stat().st_mtime_ns, step), file.parent))
        return sorted(pair for pair in found if pair[0] > self._last)

    def _log_step(self, step: int, folder: Path) -> None:
        sequences = list(read_sequences(folder))
        self._rewards.read(up_to=step)
        rewards = [self._rewards.find(sequence) for sequence in sequences]
        scored = [(sequence, found) for sequence, found in zip(sequences, rewards, strict=True) if found is not None]
        if not scored and sequences and not self._has_warned:
            self._has_warned = True
            logger.warning("rlvitals: no rewards beside %s; only metrics of its tokens are sent", folder)
        rollouts = rollout_arguments([sequence for sequence, _ in scored], [found for _, found in scored])
        self._monitor.log_step(step, {} if rollouts else token_metrics(sequences), rollouts=rollouts)

    def _save_progress(self, marker: StableMarker) -> None:
        try:
            half = self._state.with_suffix(".half")
            half.write_text(json.dumps({"stable_ns": marker.stable_ns, "step": marker.step}), encoding="utf-8")
            half.replace(self._state)
        except OSError as error:
            logger.warning("rlvitals: a restart will send steps again, because %s cannot be written: %s", STATE, error)


def _read_progress(state: Path) -> StableMarker:
    try:
        return _MARKERS.decode(state.read_bytes())
    except FileNotFoundError:
        return StableMarker()
    except (OSError, msgspec.MsgspecError) as error:
        logger.warning("rlvitals: everything is sent again, because %s cannot be read: %s", state, error)
        return StableMarker()
