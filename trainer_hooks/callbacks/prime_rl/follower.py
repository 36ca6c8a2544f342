"""Follows a prime-rl run by the files that it exports: ``python -m trainer_hooks.callbacks.prime_rl RUN_FOLDER``.

prime-rl writes the tokens of each step with ``trainer.enable_token_export = true``; nothing of ours runs in the
trainer. A step counts once its folder is marked ``STABLE``. What the collector has answered for is remembered in the
run's folder, so that the follower may be stopped and started at any time.
"""

import argparse
import contextlib
import itertools
import json
import logging
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

import trainer_hooks
from trainer_hooks.callbacks.parts.guard import Guard
from trainer_hooks.callbacks.parts.sample_lists import padded
from trainer_hooks.callbacks.prime_rl.rewards import RewardIndex

__all__ = ["Follower", "main"]

logger = logging.getLogger("trainer_hooks")

EXPORTS, STABLE, STATE = "token_exports", "STABLE", "rlvitals_followed.json"
LOOK_EVERY_SECONDS = 2.0
LOOKS_AT_ALL_STEPS = 15  # every so many looks, for a run that has gone back
ANSWER_SECONDS = 30.0  # as long as a request may take


@dataclass(frozen=True, slots=True, order=True)
class Mark:
    """When a step was marked as complete, and its number. A run that goes back marks its steps anew."""

    stable_ns: int = -1
    step: int = -1


class Follower:
    """Hands the complete steps of a run over, oldest first, each once.

    Args:
        folder: The run's folder, the one that holds ``token_exports``.
        monitor: From `trainer_hooks.connect`.
    """

    def __init__(self, folder: Path, monitor: "trainer_hooks.Monitor") -> None:
        self._folder = folder
        self._monitor = monitor
        self._state = folder / STATE
        self._handed_over = _read(self._state)
        self._rewards = RewardIndex(folder)
        self._guard = Guard()
        self._guard.tell(monitor)
        self._has_said = False

    def is_behind(self) -> bool:
        """Say whether the next step is complete: one question to the file system, where `catch_up` asks about each."""
        newest = self._handed_over.step
        return newest < 0 or (self._folder / EXPORTS / f"step_{newest + 1}" / STABLE).exists()

    def catch_up(self) -> int:
        """Hand over what has become complete since the last call, and say how many steps that were.

        Where the collector takes too long for an answer, the rest is left to the next call.
        """
        steps = 0
        for mark, folder in self._complete():
            with self._guard:  # a step that cannot be read costs itself alone
                self._hand_over(mark.step, folder)
            self._handed_over = mark
            steps += 1
            # What the collector has not answered for is read again after a restart.
            if not self._monitor.flush(ANSWER_SECONDS):
                break
            self._remember(mark)
        return steps

    def _complete(self) -> list[tuple[Mark, Path]]:
        found = []
        with contextlib.suppress(OSError):  # prime-rl clears the folder
            for marker in self._folder.glob(f"{EXPORTS}/step_*/{STABLE}"):
                with contextlib.suppress(ValueError, OSError):  # another folder's name, or written anew
                    step = int(marker.parent.name.removeprefix("step_"))
                    found.append((Mark(marker.stat().st_mtime_ns, step), marker.parent))
        return sorted(pair for pair in found if pair[0] > self._handed_over)

    def _hand_over(self, step: int, folder: Path) -> None:
        sequences = list(_sequences(folder))
        self._rewards.read(up_to=step)
        rewards = [self._rewards.of(sequence) for sequence in sequences]
        scored = [place for place, found in enumerate(rewards) if found is not None]
        if not scored and sequences and not self._has_said:
            self._has_said = True
            logger.warning("rlvitals: no rewards beside %s; only metrics of its tokens are sent", folder)
        rollouts = _rollouts([sequences[place] for place in scored], [rewards[place] for place in scored])
        self._monitor.log_step(step, {} if rollouts else _metrics(sequences), rollouts=rollouts)

    def _remember(self, mark: Mark) -> None:
        try:
            half = self._state.with_suffix(".half")
            half.write_text(json.dumps({"stable_ns": mark.stable_ns, "step": mark.step}), encoding="utf-8")
            half.replace(self._state)
        except OSError as error:
            logger.warning("rlvitals: a restart will send steps again, because %s cannot be written: %s", STATE, error)


def main(arguments: Sequence[str] | None = None, *, stop: threading.Event | None = None) -> int:
    """Follow a run until told to stop, and then send what is complete.

    Args:
        arguments: The command line's.
        stop: Set to end it; SIGINT and SIGTERM do unless given.
    """
    parser = argparse.ArgumentParser(prog="python -m trainer_hooks.callbacks.prime_rl", description=__doc__)
    parser.add_argument("folder", type=Path, help="the run's folder, which will hold token_exports")
    parser.add_argument("--url", help="address of the collector (RLVITALS_URL)")
    parser.add_argument("--project", default="default", help="project of the run (RLVITALS_PROJECT)")
    parser.add_argument("--run", help="name of the run (RLVITALS_RUN, else the folder's name)")
    parser.add_argument("--once", action="store_true", help="send what is there, and end the run")
    given = parser.parse_args(arguments)
    if not given.folder.is_dir():
        if given.once or given.folder.exists():
            parser.error(f"{given.folder} must be a folder")
        logger.warning("rlvitals: %s is not there yet; it is followed once prime-rl has made it", given.folder)
    stop = stop or _on_signals()
    monitor = trainer_hooks.connect(
        given.url, given.project, given.run or given.folder.resolve().name, rank=0, world_size=1, source="prime-rl"
    )
    if isinstance(monitor, trainer_hooks.NullMonitor):
        parser.error("the collector's address is needed; give --url or set RLVITALS_URL")
    follower = Follower(given.folder, monitor)
    if given.once:
        while follower.catch_up():
            pass
    else:
        looks = itertools.count()
        while not stop.wait(LOOK_EVERY_SECONDS):
            if next(looks) % LOOKS_AT_ALL_STEPS == 0 or follower.is_behind():
                follower.catch_up()
        follower.catch_up()  # a run's last steps become complete shortly before it ends
    monitor.close("finished" if given.once else "stopped")
    return 0


def _on_signals() -> threading.Event:
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    return stop


def _read(state: Path) -> Mark:
    try:
        return msgspec.json.decode(state.read_bytes(), type=Mark)
    except FileNotFoundError:
        return Mark()
    except (OSError, msgspec.MsgspecError) as error:
        logger.warning("rlvitals: everything is sent again, because %s cannot be read: %s", state, error)
        return Mark()


def _sequences(folder: Path) -> Iterator[dict[str, Any]]:
    """Give the sequences of all ranks that have a token of the loss; a line that is no record is said and left out."""
    for file in sorted(folder.glob("rank_*.jsonl")):
        for line in file.read_bytes().splitlines():
            try:
                sequence = msgspec.json.decode(line)
                if any(sequence["loss_mask"]):
                    yield sequence
            except (msgspec.MsgspecError, KeyError, TypeError) as error:
                logger.warning("rlvitals: a line of %s was left out: %s", file, error)


def _rollouts(sequences: Sequence[Mapping[str, Any]], rewards: Sequence[Any]) -> dict[str, Any] | None:
    if not sequences:
        return None
    groups = [group for _, group in rewards]
    numbers = {group: number for number, group in enumerate(dict.fromkeys(groups))}
    return {
        "logprobs": _columns(sequences, "trainer_logprobs"),
        "mask": _columns(sequences, "loss_mask").astype(bool),
        "rewards": np.array([reward for reward, _ in rewards]),
        "sampler_logprobs": _columns(sequences, "inference_logprobs"),
        "entropies": _columns(sequences, "entropy"),
        "advantages": None if _lacks(sequences, "advantages") else _columns(sequences, "advantages"),
        "group_ids": None if None in groups else np.array([numbers[group] for group in groups]),
        "token_ids": _columns(sequences, "token_ids").astype(np.int64),
    }


def _metrics(sequences: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Give what can be said without knowing any reward."""
    if not sequences:
        return {}
    mask = _columns(sequences, "loss_mask").astype(bool)
    gap = _columns(sequences, "trainer_logprobs") - _columns(sequences, "inference_logprobs")
    return {
        "entropy/mean": float(_columns(sequences, "entropy")[mask].mean()),
        "mismatch/logprob_abs": float(np.abs(gap)[mask].mean()),
        "length/mean": float(mask.sum() / len(mask)),
    }


def _columns(sequences: Sequence[Mapping[str, Any]], name: str) -> Any:
    # prime-rl writes NaN and infinity as null.
    return padded([np.array(sequence[name], dtype=float) for sequence in sequences])


def _lacks(sequences: Sequence[Mapping[str, Any]], name: str) -> bool:
    return any(name not in sequence or None in sequence[name] for sequence in sequences)
