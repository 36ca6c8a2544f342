"""The loop around the trainer: stream each step, write checkpoints, and act on the collector's verdict.

The verdict arrives through the SDK; a rewind begins a new attempt in the run's history. With several ranks, the verdict
of rank 0 counts, and only rank 0 writes and reports.
"""

from collections.abc import Callable
from pathlib import Path

import trainer_hooks
from trainer_hooks.reference.config import Config
from trainer_hooks.reference.run.checkpoints import Checkpoints, step_of
from trainer_hooks.reference.run.forks.forking import Forked, Forking
from trainer_hooks.reference.run.forks.reports import fork_reports
from trainer_hooks.reference.run.telemetry import append_log, line, numbers, rollouts, step_warnings
from trainer_hooks.reference.run.trainer import StepResult, Trainer
from trainer_hooks.signals import FamiliarTokens
from trainer_hooks.wire import ActionReport

__all__ = ["Loop"]

LINE_EVERY = 2
UNHEALTHY = ("decay", "acceleration", "collapsed")
COLLAPSING = ("acceleration", "collapsed")
MAX_UNHELPED = 2
"""The number of times that no treatment helped after which a process makes no more forks."""


class Loop:
    """Trains to the last step, or until `Config.on_acceleration` stops the run on the collector's verdict.

    Args:
        config: The run's settings.
        trainer: The trainer, fresh or resumed.
        monitor: The connection that takes steps and returns verdicts.
        report: Takes lines for the terminal.

    Attributes:
        forked: The result of the forks, for each time that the run was forked.

    Raises:
        ValueError: If the settings ask for forks, and several ranks train.
    """

    def __init__(
        self, config: Config, trainer: Trainer, monitor: trainer_hooks.Monitor, report: Callable[[str], None]
    ) -> None:
        self.config = config
        self.trainer = trainer
        self.ranks = trainer.ranks
        self.monitor = monitor
        self.report = report if self.ranks.rank == 0 else lambda _: None
        self.checkpoints = Checkpoints(config.checkpoint_folder)
        self.forked: list[Forked] = []
        self._forking = Forking(trainer, self.checkpoints, self.report) if config.on_acceleration == "fork" else None
        self._candidates: list[Path] = []
        self._may_act = True
        self._asks_from = 0
        self._unhelped = 0
        self._reports: list[ActionReport] = []
        self._active_warnings: set[str] = set()
        self._familiar = FamiliarTokens()

    @property
    def rollbacks(self) -> int:
        """The number of rollbacks of the run."""
        return self.trainer.learner.adjustment.rollbacks

    def resume(self) -> None:
        """Continue from the newest checkpoint, if the settings ask for it and there is one.

        Raises:
            ValueError: If the checkpoint comes from another configuration; or if a new run would write among the
                checkpoints of another.
        """
        newest = self.ranks.broadcast(self.checkpoints.newest())
        if self.config.resume and newest is not None:
            self.checkpoints.load(self.trainer, newest)
            self.report(f"resumed from {newest}")
        elif self.config.resume:
            self.report(f"no checkpoint in {self.checkpoints.directory}: beginning at step 1")
        elif newest is not None and self.config.checkpoint_every:
            raise ValueError(
                f"a new run must not write among the checkpoints of another, got {newest}; go on from it with "
                "--resume, remove its folder, or name another with --checkpoints"
            )
        is_to_go_on = self.config.resume and newest is not None and self._forking is not None
        if not is_to_go_on and self.ranks.rank == 0:
            Forking.abandon(self.checkpoints)

    def run(self) -> int:
        """Train; return how many times the run was rolled back.

        Raises:
            TrainingError: If training cannot go on.
        """
        if self._forking is not None and self.config.resume and self._forking.is_unfinished:
            self._fork(self._forking, "unknown")
        if self.trainer.step_number >= self.config.steps:
            self.report(f"nothing to train: step {self.trainer.step_number} of {self.config.steps} is done")
        while self.trainer.step_number < self.config.steps:
            phase = self._step()
            if self._is_collapsing(phase) and not self._apply_action(phase):
                break
        return self.rollbacks

    def _step(self) -> str:
        """Take a step and report it; return the run's phase."""
        try:
            sampled = self.trainer.sample()
        except Exception:
            # After an error, for example of a tool that is down, the weights of the last step are worth a checkpoint.
            if self.config.checkpoint_every and self.trainer.step_number and self.ranks.rank == 0:
                self.report(f"kept {self.checkpoints.save(self.trainer)}, to go on from with --resume")
            raise
        result = self.trainer.learn(*sampled)
        self.monitor.log_step(
            result.step,
            # Scalars cover all ranks already, so rank 0 sends them; rollouts are this rank's, and the collector merges
            # them.
            scalars=result.scalars if self.ranks.rank == 0 else None,
            rollouts=rollouts(
                result,
                clip=self.trainer.learner.config.reported_clip,
                vocabulary=getattr(self.trainer.environment, "texts", None),
            ),
            grad_norm=result.grad_norm if self.ranks.rank == 0 else None,
            recomputed=result.recomputed,
            actions=self._take_reports(),
        )
        judged = self.monitor.healthy_step or 0  # read first: it must not be newer than the phase
        phase = self.ranks.broadcast(self.monitor.phase)
        if phase in UNHEALTHY:  # verdicts arrive late: what was saved since then is sick, even if the run recovers
            self._candidates = [each for each in self._candidates if step_of(each) <= judged]
        self._report_step(result, phase)
        if self.config.checkpoint_every and result.step % self.config.checkpoint_every == 0:
            self._save_checkpoint(phase)
        return phase

    def _report_step(self, result: StepResult, phase: str) -> None:
        config = self.config
        if config.log is not None:
            clip = self.trainer.learner.config.reported_clip
            values = numbers(result, clip=clip, ranks=self.ranks, familiar=self._familiar)
            if self.ranks.rank == 0:
                append_log(config.log, result.step, values)
        if result.step % LINE_EVERY == 0 or result.step == 1:
            self.report(line(result, phase, self.ranks))
        warnings = step_warnings(result, self.ranks)
        for kind, text in warnings.items():
            if kind not in self._active_warnings:
                self.report(f"step {result.step:>4}  {text}")
        self._active_warnings = set(warnings)

    def _save_checkpoint(self, phase: str) -> None:
        """Save a checkpoint, and mark as healthy the newest earlier one whose step the collector has found healthy.

        The judged step decides and not the phase, because verdicts arrive late, and while the collector is away the
        phase does not change.
        """
        if self.ranks.rank == 0:
            path, judged = self.checkpoints.save(self.trainer), self.monitor.healthy_step
            if phase in UNHEALTHY:
                self._candidates.clear()
            else:
                known = [] if judged is None else [each for each in self._candidates if step_of(each) <= judged]
                if known and known[-1].exists():  # it may have been removed because there were too many
                    self.checkpoints.mark_healthy(known[-1])
                self._candidates = [*self._candidates[len(known) :], path]
        self.ranks.barrier()

    def _is_collapsing(self, phase: str) -> bool:
        """Return whether to act. After a rollback this waits until the collector has withdrawn its verdict."""
        is_collapsing = phase in COLLAPSING
        self._may_act = self._may_act or not (is_collapsing or phase == "unknown")
        is_due = self._may_act and self.trainer.step_number >= self._asks_from and self._unhelped < MAX_UNHELPED
        return is_collapsing and is_due and self.config.on_acceleration != "none"

    def _apply_action(self, phase: str) -> bool:
        """Act on a verdict of acceleration or collapse; return whether training goes on."""
        action, learner = self.config.on_acceleration, self.trainer.learner
        healthy = self.ranks.broadcast(self.checkpoints.healthy())
        if action == "stop" or healthy is None or self.rollbacks >= self.config.max_rollbacks:
            self.report(f"phase {phase} at step {self.trainer.step_number}: stopped{_why(action, healthy)}")
            return False
        if self._forking is not None:
            self._forking.begin(healthy, self.monitor.alerts)
            self._fork(self._forking, phase)
            return True
        adjustment = learner.adjustment.after_rollback(
            lr=self.config.rollback_lr, llds=action == "rollback+llds", weight=learner.llds_weight
        )
        failed_at = self.trainer.step_number
        self._may_act, self._candidates = False, []
        self.checkpoints.load(self.trainer, healthy)
        learner.adjustment = adjustment
        self.trainer.reseed(adjustment.rollbacks)
        if self.ranks.rank == 0:
            self.checkpoints.forget_after(healthy)
            # The checkpoint carries the rollback over to a resumed process.
            self.checkpoints.save(self.trainer)
        self.ranks.barrier()
        self.report(
            f"phase {phase} at step {failed_at}: rolled back to step {self.trainer.step_number}, "
            f"λ = {learner.llds_weight:g}, learning rate × {adjustment.lr_factor:g}"
        )
        return True

    def _fork(self, forking: Forking, phase: str) -> None:
        """Train the forks that are missing, and go on with the winner; its steps become steps of the run."""
        forked = forking.finish()
        self._take_over(forked, phase)
        forking.close()

    def _take_over(self, forked: Forked, phase: str) -> None:
        """Report the choice, and the winner's steps as steps of the run."""
        self.forked.append(forked)
        self._reports += fork_reports(forked)
        choice, step = forked.choice, self.trainer.step_number
        self.report(
            f"phase {phase} at step {forked.asked_at}: {choice.winner} wins of {len(choice.scores)} forks from step "
            f"{forked.begun_at}, {choice.why}; goes on at step {step}, {forked.extra_steps} steps beside the run"
        )
        if not forked.has_changed:
            # Forks made at once again would have the same result, and each later set of forks costs more.
            self._unhelped += 1
            self._asks_from = step + self.config.fork_steps * self._unhelped
            return
        self._may_act, self._candidates = False, []
        for number, row in forked.rows.items():
            self.monitor.log_step(number, scalars=row, actions=self._take_reports())
            if self.config.log is not None:
                append_log(self.config.log, number, row)

    def _take_reports(self) -> list[ActionReport]:
        """Return the reports for the next step, each once."""
        due, self._reports = self._reports, []
        return due


def _why(action: str, healthy: Path | None) -> str:
    if action == "stop":
        return ""
    return ", because max_rollbacks is reached" if healthy else ", because no checkpoint is known to be healthy"
