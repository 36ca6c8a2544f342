"""Checkpoints that resume to the last bit, and the effect of a verdict of the collector on a run."""

from dataclasses import replace

import pytest
import torch

import trainer_hooks
from tests.bad_collectors import BAD_COLLECTORS, connect_impatiently
from tests.trainer_hooks.reference.run.loops import Flushing, first_attempt, newest_of, trainer_of, weights
from trainer_hooks.reference.builtin_task.environment import FactsEnvironment
from trainer_hooks.reference.policy.warm_start import warm_start
from trainer_hooks.reference.run.checkpoints import Checkpoints
from trainer_hooks.reference.run.loop import Loop
from trainer_hooks.reference.run.trainer import Trainer
from trainer_hooks.wire import Receipt


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
    """The message names the differing settings; settings that may differ between attempts do not count."""
    path = Checkpoints(tmp_path).save(trainer_of(tiny))
    with pytest.raises(ValueError, match=r"same configuration, got lr 0\.0006 there and 0\.01 here"):
        Checkpoints(tmp_path).load(trainer_of(replace(tiny, lr=0.01)), path)
    Checkpoints(tmp_path).load(trainer_of(replace(tiny, method="llds", steps=9)), path)
    with pytest.raises(ValueError, match="got has_critic False there and True here"):
        Checkpoints(tmp_path).load(trainer_of(replace(tiny, method="ppo")), path)


def test_a_checkpoint_of_a_version_with_fewer_settings_goes_on(tiny, tmp_path):
    """A setting that it does not name has the default, which is how that version trained; another value is refused."""
    path = Checkpoints(tmp_path).save(trainer_of(tiny))
    state = torch.load(path, weights_only=True)
    del state["settings"]["unbiased_std"]
    torch.save(state, path)
    Checkpoints(tmp_path).load(trainer_of(tiny), path)
    with pytest.raises(ValueError, match="got unbiased_std False there and True here"):
        Checkpoints(tmp_path).load(trainer_of(replace(tiny, unbiased_std=True)), path)


def test_a_file_that_is_no_checkpoint_is_refused(tiny, tmp_path):
    """A torn file and a file of something else: one line that names it."""
    torn, other = tmp_path / "step-000001.pt", tmp_path / "step-000002.pt"
    torn.write_bytes(Checkpoints(tmp_path).save(trainer_of(tiny)).read_bytes()[:1000])
    torch.save({"weights": 1}, other)
    for path in (torn, other):
        with pytest.raises(ValueError, match=rf"checkpoint .*{path.name} must be one of this trainer's, got"):
            Checkpoints(tmp_path).load(trainer_of(tiny), path)


def test_checkpoints_are_found_by_their_step_and_the_healthy_one_is_never_dropped(tiny, tmp_path):
    """Of many the newest 20 stay, and the one marked healthy; going back to it removes the later ones."""
    checkpoints, trainer = Checkpoints(tmp_path), trainer_of(tiny)
    assert checkpoints.newest() is None
    assert checkpoints.healthy() is None
    for step in range(1, 24):
        trainer.step_number = step
        path = checkpoints.save(trainer)
        if step == 2:
            checkpoints.mark_healthy(path)
    assert len(list(tmp_path.glob("step-*.pt"))) == 21
    assert checkpoints.newest().name == "step-000023.pt"
    assert Checkpoints(tmp_path).healthy().name == "step-000002.pt"
    checkpoints.forget_after(checkpoints.healthy())
    assert checkpoints.newest() == checkpoints.healthy()


@pytest.mark.parametrize("method", ["ppo", "nthr", "llds-action"])
def test_a_resumed_run_is_the_same_under_every_kind_of_method(tiny, tmp_path, method):
    """Two steps, a checkpoint and one more step: the weights of three steps, the critic's too, to the last bit."""
    config = replace(tiny, method=method, kl=0.01)
    straight, first, resumed = (trainer_of(config) for _ in range(3))
    results = [straight.step() for _ in range(3)]
    for _ in range(2):
        first.step()
    checkpoints = Checkpoints(tmp_path)
    checkpoints.load(resumed, checkpoints.save(first))
    assert resumed.step().scalars == results[-1].scalars
    kept, again = straight.learner.state(), resumed.learner.state()
    assert all(
        torch.equal(kept[name][key], again[name][key])
        for name in kept.keys() & {"model", "critic"}
        for key in kept[name]
    )


def test_a_dying_run_is_stopped_where_asked(tiny, collector, connect):
    """The collector says acceleration; the trainer stops short of its last step and says so."""
    collector.receipt = lambda batch: Receipt(run_id="r", accepted=len(batch.records), phase="acceleration")
    lines = []
    loop = Loop(replace(tiny, steps=500, on_acceleration="stop"), trainer_of(tiny), connect(), lines.append)
    loop.run()
    assert loop.trainer.step_number < 500
    assert lines[-1].endswith("stopped")


def test_a_dying_run_goes_back_to_health_with_llds_on(tiny, collector, connect, tmp_path):
    """Healthy to step 3, then dying once, then healthy: back to a healthy checkpoint, λ = 0.1, a new attempt."""
    phases = []

    def receipt(batch):
        newest = max((record.step for record in collector.records), default=0)
        phase = "acceleration" if batch.attempt == first_attempt(collector) and newest > 3 else "healthy"
        phases.append(phase)
        return Receipt(run_id="r", accepted=len(batch.records), phase=phase, judged_step=newest_of(batch))

    collector.receipt = receipt
    config = replace(
        tiny,
        steps=6,
        checkpoints=tmp_path,
        checkpoint_every=1,
        on_acceleration="rollback+llds",
        rollback_lr=0.5,
        max_rollbacks=1,
    )
    trainer = trainer_of(config)
    monitor = connect()
    lines = []
    loop = Loop(config, trainer, Flushing(monitor), lines.append)
    assert loop.run() == 1
    monitor.close()
    assert (trainer.step_number, trainer.learner.llds_weight) == (6, 0.1)
    assert trainer.learner.optimiser.param_groups[0]["lr"] == tiny.lr / 2
    assert "phase acceleration at step 4: rolled back to step 2, λ = 0.1, learning rate × 0.5" in lines
    attempts = [batch.attempt for batch in collector.batches]
    assert len(set(attempts)) == 2
    assert "acceleration" in phases


def test_a_verdict_that_is_only_held_rolls_nothing_back_again(tiny, collector, connect, tmp_path):
    """A new attempt receives no verdict before a step of it was judged, which takes no verdict back."""

    def receipt(batch):
        newest = max((record.step for record in collector.records), default=0)
        is_judged = bool(batch.records) and (batch.attempt == first_attempt(collector) or len(collector.records) > 5)
        phase = ("acceleration" if newest > 3 else "healthy") if is_judged else "unknown"
        judged = newest_of(batch) if is_judged else None
        return Receipt(run_id="r", accepted=len(batch.records), phase=phase, judged_step=judged)

    collector.receipt = receipt
    config = replace(
        tiny, steps=6, checkpoints=tmp_path, checkpoint_every=1, on_acceleration="rollback+llds", max_rollbacks=2
    )
    monitor = connect()
    assert Loop(config, trainer_of(config), Flushing(monitor), [].append).run() == 1
    monitor.close()


def test_a_run_that_was_rolled_back_resumes_treated(tiny, collector, connect, tmp_path):
    """Killed after its rollback, the run goes on from the healthy branch, with LLDS still on and one rollback spent."""
    collector.receipt = lambda batch: Receipt(
        run_id="r",
        accepted=len(batch.records),
        phase="acceleration" if max((record.step for record in collector.records), default=0) > 3 else "healthy",
        judged_step=newest_of(batch),
    )
    config = replace(
        tiny, steps=4, checkpoints=tmp_path, checkpoint_every=1, on_acceleration="rollback+llds", max_rollbacks=1
    )
    loop = Loop(config, trainer_of(config), Flushing(connect()), [].append)
    loop.monitor.stop_after = 4
    with pytest.raises(KeyboardInterrupt):
        loop.run()
    again = Loop(replace(config, resume=True), trainer_of(config), connect(), [].append)
    again.resume()
    assert again.rollbacks == 1
    assert again.trainer.step_number == 2
    assert again.trainer.learner.llds_weight == 0.1
    once = trainer_of(config)
    once.reseed(1)
    assert torch.equal(again.trainer.generator.get_state(), once.generator.get_state())


def test_no_checkpoint_is_healthy_that_nobody_has_judged(tiny, collector, connect, tmp_path):
    """The collector is away from step 4 on, and its last word was healthy: the run may have died meanwhile."""

    def receipt(batch):
        judged = newest_of(batch)
        if judged == 3:
            collector.answers += [(503, b"", {})] * 1000
        return Receipt(run_id="r", accepted=len(batch.records), phase="healthy", judged_step=judged)

    collector.receipt = receipt
    config = replace(tiny, steps=7, checkpoints=tmp_path, checkpoint_every=1)
    monitor = Flushing(connect())
    monitor.flush_until = 3
    Loop(config, trainer_of(config), monitor, [].append).run()
    assert monitor.phase == "healthy"
    assert Checkpoints(tmp_path).healthy().name == "step-000003.pt"
    collector.answers.clear()  # else the monitor waits a minute for it when it is closed


def test_no_checkpoint_of_a_sick_phase_is_healthy_after_the_phase_has_passed(tiny, collector, connect, tmp_path):
    """Verdicts arrive a step late, so step 3 is saved before it is found sick, and the run recovers before step 6."""

    def receipt(batch):
        judged = (newest_of(batch) or 0) - 1
        phase = "decay" if judged in {3, 4} else "healthy"
        return Receipt(run_id="r", accepted=len(batch.records), phase=phase, judged_step=max(judged, 0))

    collector.receipt = receipt
    config = replace(tiny, steps=6, checkpoints=tmp_path, checkpoint_every=3)
    monitor = connect()
    Loop(config, trainer_of(config), Flushing(monitor), [].append).run()
    assert monitor.healthy_step == 5
    assert Checkpoints(tmp_path).healthy() is None
    monitor.close()


class Failing(FactsEnvironment):
    """The built-in environment, until its tool raises at a given call."""

    def __init__(self, config, calls):
        super().__init__(config)
        self.calls = calls

    def feedback(self, episodes):
        """Answer, or be down."""
        self.calls -= 1
        if self.calls == 0:
            raise ConnectionError("the retriever is down")
        return super().feedback(episodes)


def test_a_tool_that_fails_ends_the_run_where_it_can_go_on_to_the_last_bit(tiny, tmp_path, connect):
    """The tool fails in the third step: the second is kept, and three steps equal those of a run without failure."""
    config = replace(tiny, steps=3, checkpoints=tmp_path, checkpoint_every=100)
    straight = trainer_of(config)
    calls = CountingWorld(config)
    straight.environment = calls
    for _ in range(2):
        straight.step()
    after_two = calls.calls
    straight.step()
    failing = Trainer(config, warm_start(config), Failing(config, after_two + 2))
    lines = []
    with pytest.raises(ConnectionError, match="the retriever is down"):
        Loop(config, failing, connect(), lines.append).run()
    assert lines[-1] == f"kept {tmp_path / 'step-000002.pt'}, to go on from with --resume"
    again = Loop(replace(config, resume=True), trainer_of(config), connect(), lines.append)
    again.resume()
    again.run()
    assert torch.equal(weights(again.trainer), weights(straight))


class CountingWorld(FactsEnvironment):
    """The built-in environment, counting how often it is asked for feedback."""

    calls = 0

    def feedback(self, episodes):
        """Count and answer."""
        self.calls += 1
        return super().feedback(episodes)


def test_a_remark_is_made_once_while_it_lasts(tiny, connect):
    """A dead policy is reported at its first step, and not at every one."""
    trainer = trainer_of(replace(tiny, steps=3, lr=1e-30))
    torch.nn.init.zeros_(trainer.model.embed.weight)
    lines = []
    Loop(trainer.config, trainer, connect(), lines.append).run()
    assert sum("none of 16 responses is correct" in text for text in lines) == 1


@pytest.mark.parametrize("failure", BAD_COLLECTORS)
def test_a_watched_run_ends_with_the_weights_of_an_unwatched_one(tiny, tmp_path, failure):
    """This holds for every fault of the collector; the run's own random draws are equal, too."""
    config = replace(tiny, steps=2, checkpoints=tmp_path)
    alone, watched = trainer_of(config), trainer_of(config)
    Loop(config, alone, trainer_hooks.NullMonitor(), lambda _: None).run()
    with BAD_COLLECTORS[failure]() as url:
        monitor = connect_impatiently(url, close_timeout_seconds=0.2)
        Loop(config, watched, monitor, lambda _: None).run()
        monitor.close()
    assert torch.equal(weights(watched), weights(alone))
    assert torch.equal(watched.generator.get_state(), alone.generator.get_state())


class Remembering(trainer_hooks.NullMonitor):
    """Keeps each array that it is given, and a copy of its values at that time."""

    def __init__(self):
        super().__init__()
        self.held = []

    def log_step(self, *_, rollouts, **__):
        """Keep the arrays, and copies of them."""
        self.held += [(name, value, value.clone()) for name, value in rollouts.items() if torch.is_tensor(value)]


@pytest.mark.parametrize("method", ["llds", "ppo"])
def test_nothing_writes_to_arrays_that_were_handed_over(tiny, tmp_path, method):
    """Probes and updates write to a batch's likelihoods, which are read in the background: all of it before that."""
    config = replace(tiny, steps=3, method=method, probe_every=1, checkpoints=tmp_path)
    monitor = Remembering()
    Loop(config, trainer_of(config), monitor, lambda _: None).run()
    assert {"logprobs", "old_logprobs", "rewards"} <= {name for name, *_ in monitor.held}
    assert [name for name, value, then in monitor.held if not torch.equal(value, then)] == []
