"""Repairs a run after a stray message: removes a later attempt, or corrects the number of ranks.

Every reset also ends the quarantine of the run, so that the projector tries it again.
"""

from monitor_server.detection.protocol import Phase
from monitor_server.errors import InvalidField, UnknownRun
from monitor_server.store.repositories import Repositories
from monitor_server.store.repositories.recent_steps import RECENT_STEPS, SPARKLINE_SIGNAL, Recent

__all__ = ["reset_run"]

ROWS_REMOVED_AT_ONCE = 250  # the same number as in a slice of retention


def reset_run(
    repositories: Repositories, run_id: str, *, attempt: int | None = None, world_size: int | None = None, now: float
) -> int:
    """Reset a run's newest attempt, the number of its ranks, or both, and return the end of its log.

    Args:
        repositories: An open transaction.
        run_id: The run.
        attempt: The attempt, counted from 1, that becomes the newest. Every later one is hidden with its records and
            steps. This function removes the first rows of them, and the worker of retention removes the others. If
            detection has seen a hidden step, the detectors start anew, because they cannot unlearn it.
        world_size: The number of ranks of the newest attempt from now on.
        now: Seconds since the epoch.

    Raises:
        UnknownRun: If there is no such run.
        InvalidField: If the run has no such attempt, or the world size is less than 1.
    """
    run = repositories.runs.lock(run_id)
    if run is None:
        raise UnknownRun.by_id(run_id)
    if world_size is not None and world_size < 1:
        raise InvalidField(f"world_size must be at least 1, got {world_size}")
    if attempt is not None:
        attempts = repositories.attempts.ordinals(run_id)
        # The store has the attempt numbers of the trainers; readers and operators count attempts from 1.
        numbers = list(attempts)
        if not 1 <= attempt <= len(numbers):
            raise InvalidField(f"attempt must be one that the run has, 1 to {len(numbers)}, got {attempt}")
        number = numbers[attempt - 1]
        spans = repositories.attempts.spans(run_id)[attempt:]
        first_removed = min((span.first_step for span in spans if span.first_step is not None), default=None)
        seen = repositories.detector_states.load(run_id)
        if seen is not None and seen.attempt > number:
            repositories.detector_states.remove(run_id)
            repositories.rules.reset_states(run_id)
            repositories.phases.rewind(run_id, first_removed or 0)
            run.phase = Phase.UNKNOWN
        if repositories.attempts.mark_removed(run_id, above=number):
            if first_removed is not None:
                repositories.compaction.remove_from(run_id, first_removed)
            _remove_some_rows(repositories, run_id)
        run.attempt = number
        # The projector may still be before the attempt. Raised here, it would end the waits of the earlier attempts'
        # steps for ranks whose records follow in the log.
        run.projected_attempt = min(run.projected_attempt, number)
        run.world_size = attempts[number][1]
        run.ended, run.last_step_at = None, now
        if run.last_attempt > number:
            run.last_attempt = number
            run.last_step = repositories.steps.last(run_id, number)
            # Steps of a removed attempt do not show the usual distance of this attempt's steps, or which number is a
            # stray one.
            numbers = repositories.steps.newest(run_id, number, limit=RECENT_STEPS)
            rewards = repositories.steps.values_at(run_id, SPARKLINE_SIGNAL, numbers)
            numbers = [step for step in numbers if step in rewards]
            run.recent = Recent(rewards=[rewards[step] for step in numbers], reward_steps=numbers)
    if world_size is not None:
        repositories.attempts.set_world_size(run_id, run.attempt, world_size)
        run.world_size = world_size
    run.log_end += 1  # makes the projector read the run again
    run.quarantined_at = run.quarantine_reason = None
    repositories.runs.save_ingest(run)
    repositories.runs.save_projection(run)
    return run.log_end


def _remove_some_rows(repositories: Repositories, run_id: str) -> None:
    """Remove the rows of removed attempts if they are few, so that the number of a stray attempt is free at once."""
    left = ROWS_REMOVED_AT_ONCE
    while left > 0:
        removed = repositories.deletion.remove_attempt_rows(run_id, limit=left)
        if removed is None:
            return
        left -= max(1, removed[1])
