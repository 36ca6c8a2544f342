"""The report of forks to the collector: a single one, about the most severe alert that fired."""

from typing import get_args

from trainer_hooks.forks import ForkScore
from trainer_hooks.reference.run.forks.forking import Forked
from trainer_hooks.wire import ActionReport, ForkResult, Severity

__all__ = ["fork_reports"]

_SEVERITIES = get_args(Severity)  # the most severe is last


def fork_reports(forked: Forked) -> list[ActionReport]:
    """Report forks about the most severe alert that fired when they were requested; among equals, the newest."""
    if not forked.alerts:
        return []
    alert = max(forked.alerts, key=lambda each: (_SEVERITIES.index(each.severity), each.opened_step))
    choice = forked.choice
    return [
        ActionReport(
            action="fork",
            alert_id=alert.id,
            outcome="taken",
            reason=f"{alert.severity} {alert.kind}, open since step {alert.opened_step}",
            detail=f"asked after step {forked.asked_at}, forked from step {forked.begun_at}: {choice.winner} wins, "
            f"{choice.why}; {forked.extra_steps} steps beside the run",
            forks=[_result(score, is_winner=score.name == choice.winner) for score in choice.scores],
        )
    ]


def _result(score: ForkScore, *, is_winner: bool) -> ForkResult:
    return ForkResult(
        name=score.name,
        steps=score.steps,
        is_winner=is_winner,
        has_diverged=score.has_diverged,
        reward=score.reward.mean,
        reward_gain=(score.reward_gain.low, score.reward_gain.mean, score.reward_gain.high),
        displacement=score.displacement.mean,
        displacement_gain=(score.displacement_gain.low, score.displacement_gain.mean, score.displacement_gain.high),
        entropy=score.entropy.mean,
    )
