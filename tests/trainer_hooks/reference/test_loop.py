"""Checkpoints that resume to the last bit, and what a verdict of the collector does to a run."""

from dataclasses import replace

import pytest
import torch

import trainer_hooks
from tests.bad_collectors import BAD_COLLECTORS
from trainer_hooks.reference.checkpoints import Checkpoints
from trainer_hooks.reference.loop import Loop
from trainer_hooks.reference.train import Trainer
from trainer_hooks.reference.warm_start import warm_start
from trainer_hooks.wire import Receipt


def trainer_of(config):
    return Trainer(config, warm_start(config))


def weights(trainer):
    return torch.cat([weight.detach().flatten() for weight in trainer.model.parameters()])


def test_a_resumed_run_is_the_run_that_never_stopped(tiny, tmp_path):
    """Four steps, or two, a checkpoint, a new process' trainer and two more: the same weights to the last bit."""
    straight = trainer_of(tiny)
    for _ in range(4):
        last = straight.step()
    first = trainer_of(tiny)
    for _ in range(2):
        first.step()
    checkpoints = Checkpoints(tmp_path)
    resumed = trainer_of(tiny)
    checkpoints.load(resumed, checkpoints.save(first))
    assert resumed.step_number == 2
    for _ in range(2):
        again = resumed.step()
    assert torch.equal(weights(straight), weights(resumed))
    assert again.scalars == last.scalars
    assert torch.equal(again.batch.tokens, last.batch.tokens)


def test_a_checkpoint_of_another_configuration_is_refused(tiny, tmp_path):
    """The message names what differs; what may differ between attempts does not count."""
    path = Checkpoints(tmp_path).save(trainer_of(tiny))
    with pytest.raises(ValueError, match=r"same configuration, got lr 0\.0006 there and 0\.01 here"):
        Checkpoints(tmp_path).load(trainer_of(replace(tiny, lr=0.01)), path)
    Checkpoints(tmp_path).load(trainer_of(replace(tiny, lambda_=0.1, steps=9)), path)


def test_the_newest_checkpoint_is_found_by_its_step(tiny, tmp_path):
    """Newest of all, or newest below a step; None from an empty folder."""
    checkpoints, trainer = Checkpoints(tmp_path), trainer_of(tiny)
    assert checkpoints.newest() is None
    for step in (2, 10):
        trainer.step_number = step
        checkpoints.save(trainer)
    assert checkpoints.newest().name == "step-000010.pt"
    assert checkpoints.newest(before=10).name == "step-000002.pt"


def test_a_dying_run_is_stopped_where_asked(tiny, collector, connect):
    """The collector says acceleration; the trainer stops short of its last step and says so."""
    collector.receipt = lambda batch: Receipt(run_id="r", accepted=len(batch.records), phase="acceleration")
    said = []
    loop = Loop(replace(tiny, steps=500, on_acceleration="stop"), trainer_of(tiny), connect(), said.append)
    loop.run()
    assert loop.trainer.step_number < 500
    assert said[-1].endswith("stopped")


def test_a_dying_run_goes_back_to_health_with_llds_on(tiny, collector, connect, tmp_path):
    """Healthy to step 3, then dying once, then healthy: back to a healthy checkpoint, λ = 0.1, a new attempt."""
    told = []

    def receipt(batch):
        newest = max((record.step for record in collector.records), default=0)
        phase = "acceleration" if batch.attempt == first_attempt(collector) and newest > 3 else "healthy"
        told.append(phase)
        return Receipt(run_id="r", accepted=len(batch.records), phase=phase)

    collector.receipt = receipt
    config = replace(
        tiny, steps=6, checkpoints=tmp_path, checkpoint_every=1, on_acceleration="rollback+llds", max_rollbacks=1
    )
    trainer = trainer_of(config)
    monitor = connect()
    loop = Loop(config, trainer, Flushing(monitor), [].append)
    assert loop.run() == 1
    monitor.close()
    assert (trainer.step_number, trainer.config.lambda_) == (6, 0.1)
    attempts = [batch.attempt for batch in collector.batches]
    assert len(set(attempts)) == 2
    assert "acceleration" in told


def first_attempt(collector):
    return collector.batches[0].attempt if collector.batches else None


class Flushing:
    """The monitor, waiting for the answer to each step, so that a test knows when a verdict is in."""

    def __init__(self, monitor):
        self.monitor = monitor

    def log_step(self, *arguments, **options):
        """Log and wait."""
        self.monitor.log_step(*arguments, **options)
        assert self.monitor.flush()

    @property
    def phase(self):
        """Give the phase."""
        return self.monitor.phase


@pytest.mark.parametrize("failure", BAD_COLLECTORS)
def test_a_watched_run_ends_with_the_weights_of_an_unwatched_one(tiny, tmp_path, failure):
    """Whatever is wrong with the collector; its own random draws go on alike, too."""
    config = replace(tiny, steps=2, checkpoints=tmp_path)
    alone, watched = trainer_of(config), trainer_of(config)
    Loop(config, alone, trainer_hooks.NullMonitor(), lambda _: None).run()
    with BAD_COLLECTORS[failure]() as url:
        monitor = trainer_hooks.connect(url, run="r")
        Loop(config, watched, monitor, lambda _: None).run()
        monitor._close_timeout_seconds = 0.2
        monitor.close()
    assert torch.equal(weights(watched), weights(alone))
    assert torch.equal(watched.generator.get_state(), alone.generator.get_state())
