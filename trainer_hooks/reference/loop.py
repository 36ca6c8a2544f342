"""The loop around the trainer: stream each step, keep checkpoints, and act on what the collector says.

The verdict comes back through the SDK; a rewind shows in the run's history as a new attempt.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import trainer_hooks
from trainer_hooks.reference.checkpoints import Checkpoints
from trainer_hooks.reference.config import Config
from trainer_hooks.reference.telemetry import append_log, line, rollouts
from trainer_hooks.reference.train import Trainer

__all__ = ["Loop"]

LINE_EVERY = 2
SICK = ("decay", "acceleration", "collapsed")
DYING = ("acceleration", "collapsed")


class Loop:
    """Trains to the last step, or to what `Config.on_acceleration` makes of the collector's verdict.

    Args:
        config: The run's settings.
        trainer: The trainer, fresh or resumed.
        monitor: Where steps go and verdicts come from.
        report: Takes lines for the terminal.
    """

    def __init__(
        self, config: Config, trainer: Trainer, monitor: trainer_hooks.Monitor, report: Callable[[str], None]
    ) -> None:
        self.config = config
        self.trainer = trainer
        self.monitor = monitor
        self.report = report
        self.checkpoints = Checkpoints(config.checkpoints or config.cache / "checkpoints" / config.run_name)
        self.rollbacks = 0
        self._candidate: Path | None = None
        self._healthy: Path | None = None
        self._is_armed = True

    def resume(self) -> None:
        """Go on from the newest checkpoint, where the settings ask for it and there is one.

        Raises:
            ValueError: If the checkpoint comes from another configuration.
        """
        if self.config.resume and (newest := self.checkpoints.newest()) is not None:
            self.checkpoints.load(self.trainer, newest)
            self.report(f"resumed from {newest}")

    def run(self) -> int:
        """Train; give how many times the run was rolled back."""
        while self.trainer.step_number < self.config.steps:
            self._step()
            if self._is_dying() and not self._act():
                break
        return self.rollbacks

    def _step(self) -> None:
        config, trainer = self.config, self.trainer
        result = trainer.step()
        self.monitor.log_step(
            result.step,
            scalars=result.scalars,
            rollouts=rollouts(result, clip=config.clip),
            grad_norm=result.grad_norm,
        )
        if config.log is not None:
            append_log(config.log, result, clip=config.clip)
        if result.step % LINE_EVERY == 0 or result.step == 1:
            self.report(line(result, self.monitor.phase))
        if config.checkpoint_every and result.step % config.checkpoint_every == 0:
            self._keep(self.checkpoints.save(trainer))

    def _keep(self, path: Path) -> None:
        """Count a checkpoint as healthy once the next one is written and the run is still well: verdicts come late."""
        is_well = self.monitor.phase not in SICK
        self._healthy = self._candidate if is_well and self._candidate else self._healthy
        self._candidate = path if is_well else None

    def _is_dying(self) -> bool:
        """Say whether to act; after a rollback not before the collector has taken its verdict back."""
        is_dying = self.monitor.phase in DYING
        self._is_armed = self._is_armed or not is_dying
        return is_dying and self._is_armed and self.config.on_acceleration != "none"

    def _act(self) -> bool:
        """Answer a verdict of death; give whether training goes on."""
        phase, action = self.monitor.phase, self.config.on_acceleration
        if action == "stop" or self._healthy is None or self.rollbacks >= self.config.max_rollbacks:
            self.report(f"phase {phase} at step {self.trainer.step_number}: stopped")
            return False
        self.rollbacks += 1
        self._is_armed, self._candidate = False, None
        self.checkpoints.load(self.trainer, self._healthy)
        self.trainer.reseed(self.rollbacks)
        if action == "rollback+llds":
            self.trainer.config = replace(self.trainer.config, lambda_=max(0.1, 2 * self.trainer.config.lambda_))
        self.report(
            f"phase {phase}: rolled back to step {self.trainer.step_number}, λ = {self.trainer.config.lambda_:g}"
        )
        return True
