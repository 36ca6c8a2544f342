"""A run that is forked: it goes on as the best fork, or to the last bit as if it had never forked."""

import random
import resource
from dataclasses import replace

import pytest
import torch

from tests.full_disk import disk_of
from tests.trainer_hooks.reference.run.loops import Flushing, first_attempt, newest_of, trainer_of, weights
from trainer_hooks.forks import CONTROL, TREATMENTS, Estimate
from trainer_hooks.reference.__main__ import main
from trainer_hooks.reference.config import Config
from trainer_hooks.reference.presets import PRESETS
from trainer_hooks.reference.run.checkpoints import Checkpoints
from trainer_hooks.reference.run.forks import forking as module
from trainer_hooks.reference.run.forks.contexts import ForkContexts
from trainer_hooks.reference.run.forks.forking import Forking
from trainer_hooks.reference.run.forks.reports import fork_reports
from trainer_hooks.reference.run.forks.treatment_settings import adjustments
from trainer_hooks.reference.run.loop import Loop
from trainer_hooks.reference.run.trainer import TrainingError
from trainer_hooks.wire import AlertNotice, Receipt

ALERT = AlertNotice(id="a1", kind="death_spiral", severity="critical", opened_step=3, summary="it dies")


@pytest.fixture
def forked(tiny, tmp_path):
    """Settings of a run that is forked for one step, on a few questions."""
    return forked_for_a_step(tiny, tmp_path)


@pytest.fixture(scope="module")
def uninterrupted(tiny_cache, tmp_path_factory):
    """The result of forks that nothing interrupts, and the weights with which the run goes on."""
    settings = Config(**PRESETS["tiny"], cache=tiny_cache)
    trainer, forking = forked_at_two(forked_for_a_step(settings, tmp_path_factory.mktemp("uninterrupted")))
    return forking.finish(), weights(trainer)


def forked_for_a_step(settings, folder):
    """Settings of a run that keeps its checkpoints and its forks in a folder."""
    return replace(
        settings,
        on_acceleration="fork",
        checkpoint_every=1,
        checkpoints=folder,
        fork_steps=1,
        fork_questions=4,
        questions_per_step=2,
        steps=3,
    )


def forked_at_two(config):
    """A trainer after two steps with its forks from the first planned."""
    trainer = trainer_of(config)
    checkpoints = Checkpoints(config.checkpoints)
    trainer.step()
    healthy = checkpoints.save(trainer)
    trainer.step()
    forking = Forking(trainer, checkpoints, [].append)
    forking.begin(healthy)
    return trainer, forking


def winning(name):
    """A choice that one fork wins, for any measurement."""
    return lambda measured: replace(choose(measured), winner=name)


choose = module.choose


def test_a_run_whose_unchanged_fork_wins_is_the_run_that_never_forked(forked, monkeypatch):
    """Weights, draws and numbers of the next step to the last bit; the forks are all measured."""
    monkeypatch.setattr(module, "choose", winning(CONTROL))
    straight = trainer_of(forked)
    for _ in range(2):
        straight.step()
    trainer, forking = forked_at_two(forked)
    result = forking.finish()
    assert (trainer.step_number, result.begun_at, result.asked_at, result.has_changed) == (2, 1, 2, False)
    assert [score.name for score in result.choice.scores] == [
        CONTROL,
        "half-rate",
        "tenth-rate",
        "llds",
        "kl",
        "nthr",
        "clip-higher",
    ]
    assert result.extra_steps == 7
    assert trainer.step().scalars == straight.step().scalars
    assert torch.equal(weights(trainer), weights(straight))
    assert torch.equal(trainer.generator.get_state(), straight.generator.get_state())
    forking.close()
    assert not forking.is_unfinished
    assert not (forked.checkpoints / "forks").exists()


def test_a_run_goes_on_with_the_state_of_the_fork_that_wins(forked, monkeypatch):
    """The weights of a run that was treated at the checkpoint, with the same draws, and its steps."""
    monkeypatch.setattr(module, "choose", winning("half-rate"))
    treated = trainer_of(forked)
    treated.step()
    treated.learner.adjustment = adjustments(treated.learner)["half-rate"]
    trainer, forking = forked_at_two(forked)
    result = forking.finish()
    assert result.choice.scores[0].reward_gain == Estimate(0.0, 0.0, 0.0)
    treated.step()
    assert torch.equal(weights(trainer), weights(treated))
    assert trainer.learner.adjustment.lr_factor == 0.5
    assert list(result.rows) == [2]
    assert result.extra_steps == 6


def test_a_run_that_is_forked_again_keeps_what_it_was_given(forked, monkeypatch):
    """The checkpoint is older than the first forks: their half rate applies to all later ones, and is halved again."""
    monkeypatch.setattr(module, "choose", winning("half-rate"))
    trainer, forking = forked_at_two(forked)
    forking.finish()
    forking.begin(forked.checkpoints / "step-000001.pt")
    forking.finish()
    adjustment = trainer.learner.adjustment
    assert (adjustment.lr_factor, adjustment.rollbacks, trainer.step_number) == (0.25, 2, 2)


def test_a_run_that_took_over_a_kl_term_keeps_it_without_forks(forked):
    """Resumed without forks it still refers to the warm start: the next step is the same to the last bit."""
    straight = trainer_of(forked)
    straight.step()
    straight.learner.adjustment = adjustments(straight.learner)["kl"]
    saved = Checkpoints(forked.checkpoints).save(straight)
    resumed = trainer_of(replace(forked, on_acceleration="none"))
    Checkpoints(forked.checkpoints).load(resumed, saved)
    assert resumed.step().scalars["kl/ref"] == straight.step().scalars["kl/ref"] > 0
    assert torch.equal(weights(resumed), weights(straight))
    begun = trainer_of(replace(forked, on_acceleration="none"))
    begun.step()
    with pytest.raises(ValueError, match="kl must be 0 where no copy of the warm start is kept"):
        Checkpoints(forked.checkpoints).load(begun, saved)


def test_a_fork_that_loses_its_weights_is_data(forked, monkeypatch):
    """The fork with NTHR fails: it has diverged with its reason, and the others are not touched by it."""
    _, forking = forked_at_two(forked)
    step = module.Trainer.step

    def failing(trainer):
        if trainer.learner.config.method == "nthr":
            raise TrainingError("logits must be finite")
        return step(trainer)

    monkeypatch.setattr(module.Trainer, "step", failing)
    result = forking.finish()
    assert [score.name for score in result.choice.scores if score.has_diverged] == ["nthr"]


def test_forks_that_were_interrupted_go_on_with_the_one_that_was_missing(forked, uninterrupted, monkeypatch):
    """A process dies in its fourth fork; another trains the rest, and the choice equals that without a death."""
    whole, reached = uninterrupted
    _, forking = forked_at_two(forked)
    step = module.Trainer.step

    def dying(trainer):
        if trainer.learner.config.method == "llds":
            raise KeyboardInterrupt
        return step(trainer)

    with monkeypatch.context() as patch:
        patch.setattr(module.Trainer, "step", dying)
        with pytest.raises(KeyboardInterrupt):
            forking.finish()
    reported = []
    trainer = trainer_of(forked)
    forking = Forking(trainer, Checkpoints(forked.checkpoints), reported.append)
    assert forking.is_unfinished
    assert repr(forking.finish()) == repr(whole)  # NaN is not equal to itself
    assert [line.split(":")[0] for line in reported] == ["fork llds", "fork kl", "fork nthr", "fork clip-higher"]
    assert torch.equal(weights(trainer), reached)


def test_forks_that_were_interrupted_go_on_as_they_were_planned(forked, uninterrupted):
    """Under other settings than those that they began with: as many steps, the same questions and the same alert."""
    whole, _ = uninterrupted
    _, forking = forked_at_two(forked)
    forking.begin(forked.checkpoints / "step-000001.pt", [ALERT])
    changed = trainer_of(replace(forked, fork_steps=3, fork_questions=2))
    result = Forking(changed, Checkpoints(forked.checkpoints), [].append).finish()
    assert [score.steps for score in result.choice.scores] == [1] * 7
    assert repr(result.choice) == repr(whole.choice)
    assert list(result.alerts) == [ALERT]
    assert fork_reports(result)[0].alert_id == "a1"


def test_a_process_that_dies_before_it_reports_its_forks_reports_them_later(forked, collector, connect, monkeypatch):
    """It has chosen, and dies before the winner's step is logged: the next process logs it, and takes over the same."""
    monkeypatch.setattr(module, "choose", winning("half-rate"))
    trainer, forking = forked_at_two(forked)
    forking.begin(forked.checkpoints / "step-000001.pt", [ALERT])
    forking.finish()
    later = replace(forked, resume=True, steps=2)
    loop = Loop(later, trainer_of(later), monitor := connect(), [].append)
    loop.resume()
    loop.run()
    monitor.close()
    (record,) = collector.records
    assert (record.step, [action.alert_id for action in record.actions]) == (2, ["a1"])
    assert torch.equal(weights(loop.trainer), weights(trainer))
    assert loop.trainer.learner.adjustment == trainer.learner.adjustment
    assert not Forking(trainer, loop.checkpoints, [].append).is_unfinished


def test_forks_are_compared_on_questions_that_are_not_trained_on(forked):
    """Held-out questions come from the same distribution as training questions; these are drawn again."""
    trainer = trainer_of(replace(forked, train_questions=400))
    trained = {question.prompt for question in trainer.environment.questions}
    drawn = trainer.environment.held_out(random.Random(0), 64)
    assert sum(question.prompt in trained for question in drawn) > 5
    contexts = ForkContexts.of(trainer.model, trainer.environment, 64)
    assert len(contexts.questions) == 64
    assert not [question for question in contexts.questions if question.prompt in trained]


def test_forks_are_compared_also_where_every_question_is_trained_on(forked):
    """Two entities have 144 different prompts, and 9,000 draws have them all; where more are wanted, none repeats."""
    trainer = trainer_of(replace(forked, entities=2, train_questions=9000, warm_steps=1))
    for wanted, most in ((8, 8), (300, 144)):
        prompts = [
            question.prompt for question in ForkContexts.of(trainer.model, trainer.environment, wanted).questions
        ]
        assert 8 <= len(prompts) == len(set(prompts)) <= most


def test_a_fork_ends_where_the_run_ends(forked):
    """Forks of thirty steps are asked for two steps before the end: no fork trains more than the run has left."""
    config = replace(forked, fork_steps=30, fork_questions=2)
    _, forking = forked_at_two(config)
    assert [score.steps for score in forking.finish().choice.scores] == [2] * 7


def test_a_full_disk_among_forks_loses_none_that_is_finished(forked, uninterrupted, monkeypatch):
    """The disk fills in the third fork: an OSError and no torn file; with room again only the missing forks train."""
    whole, _ = uninterrupted
    _, forking = forked_at_two(forked)
    write = module.write_whole

    def filling(kept, path):
        with disk_of(20_000 if path.stem == "tenth-rate" else resource.RLIM_INFINITY):
            write(kept, path)

    with monkeypatch.context() as patch:
        patch.setattr(module, "write_whole", filling)
        with pytest.raises(OSError, match=r"tenth-rate\.pt cannot be written: "):
            forking.finish()
    files = sorted(path.name for path in (forked.checkpoints / "forks").iterdir())
    assert files == ["half-rate.pt", "plan.json", "unchanged.pt"]
    reported = []
    forking = Forking(trainer_of(forked), Checkpoints(forked.checkpoints), reported.append)
    assert repr(forking.finish()) == repr(whole)
    assert len(reported) == 5


def test_forks_whose_checkpoint_cannot_be_read_end_in_one_line(tiny_cache, tmp_path, tiny, collector, capsys):
    """The healthy checkpoint is torn: exit code 1 and its name, and the plan stays for another try."""
    folder = tmp_path / "checkpoints"
    forked_at_two(
        replace(tiny, on_acceleration="fork", checkpoint_every=1, checkpoints=folder, fork_steps=1, fork_questions=2)
    )
    (folder / "step-000001.pt").write_bytes(b"torn")
    options = ["--preset", "tiny", "--cache", str(tiny_cache), "--checkpoints", str(folder), "--resume"]
    options += ["--url", collector.url, "--on-acceleration", "fork", "--checkpoint-every", "1"]
    assert main(options) == 1
    assert "step-000001.pt must be one of this trainer's" in capsys.readouterr().err
    assert (folder / "forks" / "plan.json").exists()


def test_a_run_that_went_on_without_its_forks_does_not_go_back_to_them(forked, connect):
    """Resumed without forks, and later with them again: the plan of before is gone, and the step stays."""
    forked_at_two(forked)
    other = replace(forked, on_acceleration="none", resume=True)
    loop = Loop(other, trainer_of(other), connect(), [].append)
    loop.resume()
    loop.run()
    later = replace(forked, resume=True, steps=4)
    loop = Loop(later, trainer_of(later), connect(), [].append)
    loop.resume()
    loop.run()
    assert loop.forked == []
    assert loop.trainer.step_number == 4


def test_a_run_that_nothing_helps_goes_on_and_asks_twice_at_most(forked, collector, connect, monkeypatch):
    """It dies from step 3 on: it is forked there and a step later, and trains to its end as if it had never been."""
    monkeypatch.setattr(module, "choose", winning(CONTROL))
    config = replace(forked, steps=6)
    straight = trainer_of(config)
    for _ in range(6):
        straight.step()

    def receipt(batch):
        newest = max((record.step for record in collector.records), default=0)
        phase = "acceleration" if newest > 2 else "healthy"
        return Receipt(run_id="r", accepted=len(batch.records), phase=phase, judged_step=newest_of(batch))

    collector.receipt = receipt
    loop = Loop(config, trainer_of(config), Flushing(connect()), [].append)
    assert loop.run() == 0
    assert [each.asked_at for each in loop.forked] == [3, 4]
    assert torch.equal(weights(loop.trainer), weights(straight))


def test_what_is_in_force_or_cannot_be_is_not_tried_again(forked):
    """A rate can be cut again; LLDS cannot be turned on twice or weakened, and a critic cannot be removed."""
    assert list(adjustments(trainer_of(forked).learner)) == list(TREATMENTS)
    trainer = trainer_of(replace(forked, kl=0.01))
    assert list(adjustments(trainer.learner)) == [CONTROL, "half-rate", "tenth-rate", "llds", "nthr", "clip-higher"]
    trainer.learner.adjustment = adjustments(trainer.learner)["llds"]
    assert list(adjustments(trainer.learner)) == [CONTROL, "half-rate", "tenth-rate", "nthr", "clip-higher"]
    assert trainer.learner.llds_weight == 0.1
    more = trainer_of(replace(forked, method="lld", lambda_=0.3, kl=0.05, clip=0.3))
    assert list(adjustments(more.learner)) == [CONTROL, "half-rate", "tenth-rate", "nthr"]
    once = trainer_of(replace(forked, minibatches=1, epochs=1))  # LLDS and clips do nothing at θ = θ_old
    assert list(adjustments(once.learner)) == [CONTROL, "half-rate", "tenth-rate", "kl", "nthr"]
    critic = trainer_of(replace(forked, method="ppo"))
    assert list(adjustments(critic.learner)) == [CONTROL, "half-rate", "tenth-rate", "kl", "clip-higher"]


def test_a_dying_run_is_forked_and_the_collector_is_told(forked, collector, connect, monkeypatch):
    """At step 3 from step 1: its steps are streamed as a new attempt, with one report that has every fork."""
    monkeypatch.setattr(module, "choose", winning("kl"))

    def receipt(batch):
        newest = max((record.step for record in collector.records), default=0)
        dies = batch.attempt == first_attempt(collector) and newest > 2
        return Receipt(
            run_id="r",
            accepted=len(batch.records),
            phase="acceleration" if dies else "healthy",
            judged_step=newest_of(batch),
            alerts=[ALERT] if dies else [],
        )

    collector.receipt = receipt
    monitor, lines = connect(), []
    loop = Loop(replace(forked, steps=4), trainer_of(forked), Flushing(monitor), lines.append)
    assert loop.run() == 1
    monitor.close()
    (report,) = [line for line in lines if line.startswith("phase")]
    assert report.startswith("phase acceleration at step 3: kl wins of 7 forks from step 1, ")
    assert report.endswith("goes on at step 3, 12 steps beside the run")
    assert [record.step for record in collector.records] == [1, 2, 3, 2, 3, 4]
    (report,) = [action for record in collector.records for action in record.actions]
    assert (report.action, report.alert_id, len(report.forks)) == ("fork", "a1", 7)
    assert [fork.name for fork in report.forks if fork.is_winner] == ["kl"]
    assert loop.trainer.learner.config.kl == 0.01
