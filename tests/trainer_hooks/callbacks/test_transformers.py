import copy
import gc
import os
import pickle
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest
import tiny_trl
import torch
from tiny_transformers import tiny_trainer
from transformers import Trainer, TrainerCallback

from tests import warm
from tests.live import PATIENCE_SECONDS
from trainer_hooks.callbacks import transformers, trl
from trainer_hooks.callbacks.transformers import VitalsCallback
from trainer_hooks.wire import HIDDEN, decode_record

PREEMPTED = """
import os, signal, sys
from pathlib import Path
from transformers import TrainerCallback
from tiny_transformers import tiny_trainer
from trainer_hooks.callbacks.transformers import VitalsCallback

class Preempting(TrainerCallback):
    def on_step_end(self, _args, state, *_, **__):
        if state.global_step == 2:
            os.kill(os.getpid(), signal.SIGTERM)

signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
tiny_trainer(Path(sys.argv[1]), [VitalsCallback(run="preempted"), Preempting()]).train()
"""


@pytest.fixture
def watched(tmp_path, connect):
    """Return a training that the live collector has received."""
    monitor = connect()
    trainer = tiny_trainer(tmp_path, [VitalsCallback(monitor)])
    trainer.train()
    assert monitor.flush(PATIENCE_SECONDS)
    return trainer


def test_every_step_arrives_whatever_the_logging_window(watched, steps):
    """Loss, gradient norm before clipping and learning rate of each step equal the values that the Trainer computed."""
    signals = steps()
    assert list(signals) == [1, 2, 3, 4]
    logged = [entry for entry in watched.state.log_history if "loss" in entry]
    mean_loss = sum(signals[step]["loss/policy"] for step in (1, 2)) / 2
    assert mean_loss == pytest.approx(logged[0]["loss"], rel=1e-5)
    assert signals[2]["grad/norm"] == pytest.approx(logged[0]["grad_norm"], rel=1e-5)
    assert signals[2]["grad/norm"] > 0.05
    assert signals[2]["grad/clipped_frac"] == 1
    assert signals[2]["lr"] == pytest.approx(logged[0]["learning_rate"])


def test_final_weights_are_the_same_to_the_last_bit(watched, tmp_path):
    """Training with the callback must end in the weights of training without it."""
    alone = tiny_trainer(tmp_path)
    alone.train()
    assert tiny_trl.weights(alone) == tiny_trl.weights(watched)


def test_report_to_names_it(tmp_path, collector, monkeypatch):
    """`report_to="rlvitals"` works once the module is imported, and the run's name is that of the arguments."""
    monkeypatch.setenv("RLVITALS_URL", collector.url)
    scheduler = {"lr_scheduler_type": "constant", "lr_scheduler_kwargs": {"api_key": "s3cret", "last_epoch": -1}}
    tiny_trainer(tmp_path, report_to="rlvitals", run_name="named", **scheduler).train()
    assert {batch.run for batch in collector.batches} == {"named"}
    assert collector.batches[-1].end == "finished"
    assert collector.batches[0].source.startswith("transformers ")
    assert collector.batches[0].config["lr_scheduler_kwargs"] == {"api_key": HIDDEN, "last_epoch": -1}


@pytest.mark.parametrize(("given", "named"), [(None, "of the environment"), ("given", "given")])
def test_the_environment_names_a_run_before_the_training_arguments(given, named, tmp_path, collector, monkeypatch):
    """The name is the argument, else that of `RLVITALS_RUN`, else that of the training arguments."""
    monkeypatch.setenv("RLVITALS_RUN", "of the environment")
    callback = VitalsCallback(url=collector.url, run=given)
    tiny_trainer(tmp_path, [callback], run_name="of the arguments", max_steps=1).train()
    assert {batch.run for batch in collector.batches} == {named}


def test_a_trainer_library_that_was_never_installed_is_named_without_its_version(tmp_path, collector):
    """A folder on the path has no distribution; the training begins all the same."""

    class OfFolder(VitalsCallback):
        library = "a_folder_on_the_path"

    tiny_trainer(tmp_path, [OfFolder(url=collector.url, run="r")], max_steps=1).train()
    assert collector.batches[0].source == "a_folder_on_the_path unknown"


def test_report_to_sees_the_tokens_of_trl(tmp_path, collector, monkeypatch):
    """On a GRPOTrainer `report_to="rlvitals"` gives level L3."""
    monkeypatch.setenv("RLVITALS_URL", collector.url)
    tiny_trl.trainer(tmp_path, report_to="rlvitals", max_steps=1).train()
    assert collector.batches[-1].capability == "L3"


@pytest.mark.parametrize("kind", [transformers.VitalsCallback, trl.VitalsCallback], ids=["transformers", "trl"])
def test_asked_for_twice_it_streams_once(kind, tmp_path, collector, monkeypatch, caplog):
    """The callback that was given by hand is used alone, and the log says that `report_to` does nothing."""
    monkeypatch.setenv("RLVITALS_URL", collector.url)
    tiny_trainer(tmp_path, [kind(run="by hand")], report_to="rlvitals", run_name="named").train()
    assert {batch.run for batch in collector.batches} == {"by hand"}
    assert len({batch.attempt for batch in collector.batches}) == 1
    assert 'report_to="rlvitals" does nothing' in caplog.text


def test_a_callback_that_was_added_twice_streams_once(tmp_path, collector):
    """The run has one attempt, and each step one record."""
    callback = VitalsCallback(url=collector.url, run="r")
    trainer = tiny_trainer(tmp_path, [callback, callback])
    trainer.train()
    assert [record.step for record in collector.records] == [1, 2, 3, 4]
    assert len({batch.attempt for batch in collector.batches}) == 1
    assert [batch.end for batch in collector.batches if batch.end] == ["finished"]
    assert trainer.callback_handler.callbacks.count(callback) == 1


def test_what_the_user_logs_is_kept(tmp_path, connect, steps):
    """An evaluation and the user's own metrics are sent at the step at which they were logged."""
    monitor = connect()
    trainer = tiny_trainer(tmp_path, [VitalsCallback(monitor)], eval_strategy="steps", eval_steps=2)
    trainer.train()
    assert monitor.flush(PATIENCE_SECONDS)
    assert steps()[2]["transformers/eval_loss"] > 0
    assert "loss/policy" in steps()[2]
    trainer.evaluate()  # after the training, at its last step
    assert monitor.flush(PATIENCE_SECONDS)
    assert {name for name in steps()[4] if name.startswith("transformers/")} == {"transformers/eval_loss"}


@pytest.mark.parametrize("counts_tokens", ["no", "all"], ids=["plain", "counting tokens"])
def test_no_metric_of_the_user_is_taken_for_the_trainers_own(counts_tokens, tmp_path, connect, steps):
    """Metrics whose names begin like the Trainer's own arrive, also where it adds its speed to every log."""

    class Logging(TrainerCallback):
        def on_step_end(self, *_, **__):
            trainer.log({"train_accuracy": 0.5, "epoch_seconds": 2.0})

    monitor = connect()
    options = {"include_num_input_tokens_seen": counts_tokens, "eval_strategy": "steps", "eval_steps": 2}
    trainer = tiny_trainer(tmp_path, [VitalsCallback(monitor), Logging()], **options)
    trainer.train()
    assert monitor.flush(PATIENCE_SECONDS)
    for signals in steps().values():
        assert signals["transformers/train_accuracy"] == 0.5
        assert signals["transformers/epoch_seconds"] == 2
        assert not signals.keys() & {"transformers/train_runtime", "transformers/train_loss", "transformers/epoch"}
    assert steps()[2]["transformers/eval_loss"] > 0


@pytest.mark.parametrize("fails", [False, True])
def test_an_evaluation_of_the_checkpoint_that_a_training_resumes_from_is_no_rewind(fails, tmp_path, connect, collector):
    """With `eval_on_start` it is sent with the first step; at its own it would replace what was trained there."""
    options = {"save_strategy": "steps", "save_steps": 2, "max_steps": 3}
    tiny_trainer(tmp_path, **options | {"max_steps": 2}).train()
    monitor = connect()
    trainer = tiny_trainer(tmp_path, [VitalsCallback(monitor)], eval_on_start=True, **options)
    if fails:
        fails_at = iter([False, False, True])  # after the evaluation and a microbatch

        def run_out_of_memory(*_):
            if next(fails_at, False):
                raise MemoryError

        trainer.model.register_forward_pre_hook(run_out_of_memory)
        with pytest.raises(MemoryError):
            trainer.train(resume_from_checkpoint=True)
    else:
        trainer.train(resume_from_checkpoint=True)
    assert monitor.flush(PATIENCE_SECONDS)
    (record,) = collector.records
    assert record.step == 3
    assert record.scalars["transformers/eval_loss"] > 0
    assert record.scalars["loss/policy"] > 0
    assert record.scalars.get("hooks/partial_step") == (1.0 if fails else None)


def test_an_evaluation_before_the_first_step_of_a_run_is_sent_at_once(tmp_path, connect, steps):
    """It is at step 0, where nothing was trained."""
    monitor = connect()
    tiny_trainer(tmp_path, [VitalsCallback(monitor)], eval_on_start=True, max_steps=1).train()
    assert monitor.flush(PATIENCE_SECONDS)
    assert list(steps()) == [0, 1]
    assert steps()[0]["transformers/eval_loss"] > 0


def test_a_training_after_one_that_raised_is_an_attempt_of_its_own(tmp_path, collector):
    """A second train(), as in a notebook after a lack of memory, is not merged with the step that an error ended."""
    trainer = tiny_trainer(tmp_path, [VitalsCallback(url=collector.url, run="again")])
    fails = iter([False, True])  # in the second microbatch of the first step

    def run_out_of_memory(*_):
        if next(fails, False):
            raise MemoryError

    trainer.model.register_forward_pre_hook(run_out_of_memory)
    with pytest.raises(MemoryError):
        trainer.train()
    trainer.train()
    first, *later = [
        (batch.attempt, record.step) for batch in collector.batches for record in map(decode_record, batch.records)
    ]
    assert first[1] == 1
    assert [step for _, step in later] == [1, 2, 3, 4]
    assert {attempt > first[0] for attempt, _ in later} == {True}
    assert [batch.end for batch in collector.batches if batch.end] == ["stopped", "finished"]


class Raising(TrainerCallback):
    """Raises after the first step, where no method of the trainer's is wrapped."""

    def __init__(self, before=lambda: None):
        self.before = before

    def on_step_end(self, *_, **__):
        """Raise."""
        self.before()
        raise MemoryError


def test_the_run_of_a_training_that_raised_is_stopped_when_another_trainer_begins(tmp_path, collector):
    """A script that catches the error goes on with new objects, and nothing but the monitor is left of the old ones."""
    with pytest.raises(MemoryError):
        tiny_trainer(tmp_path, [VitalsCallback(url=collector.url, run="first"), Raising()]).train()
    gc.collect()
    tiny_trainer(tmp_path, [VitalsCallback(url=collector.url, run="second")], max_steps=1).train()
    ends = {batch.run: batch.end for batch in collector.batches if batch.end}
    assert ends == {"first": "stopped", "second": "finished"}


def test_a_trainer_is_found_beside_a_callback_that_cannot_be_compared_and_within_one_without_callbacks(
    tmp_path, collector
):
    """The latter is a trainer that has another one train first, before it is initialised."""

    class Incomparable(TrainerCallback):
        __hash__ = object.__hash__

        def __eq__(self, other):
            raise MemoryError

    class Distilling(Trainer):
        def __init__(self):
            with pytest.raises(MemoryError):
                tiny_trainer(tmp_path, [VitalsCallback(url=collector.url, run="first"), Raising()]).train()
            callbacks = [Incomparable(), VitalsCallback(url=collector.url, run="second")]
            tiny_trainer(tmp_path, callbacks, max_steps=1).train()

    Distilling()
    ends = {batch.run: batch.end for batch in collector.batches if batch.end}
    assert ends == {"first": "stopped", "second": "finished"}


def test_the_run_of_a_training_that_raised_in_a_thread_is_stopped_when_the_next_begins(tmp_path, collector):
    """As in a notebook whose widgets need the main thread, or in a pool whose workers have ended."""
    trainer = tiny_trainer(tmp_path, [VitalsCallback(url=collector.url, run="first"), Raising()])
    with ThreadPoolExecutor(1) as pool:
        assert isinstance(pool.submit(trainer.train).exception(), MemoryError)
    tiny_trainer(tmp_path, [VitalsCallback(url=collector.url, run="second")], max_steps=1).train()
    ends = {batch.run: batch.end for batch in collector.batches if batch.end}
    assert ends == {"first": "stopped", "second": "finished"}


def test_a_training_within_another_one_does_not_end_it(tmp_path, collector):
    """The outer trainer is on the call stack while the inner one begins, and both runs are finished."""

    class Training(TrainerCallback):
        def on_step_end(self, *_, **__):
            tiny_trainer(tmp_path, [VitalsCallback(url=collector.url, run="inner")], max_steps=1).train()

    tiny_trainer(tmp_path, [VitalsCallback(url=collector.url, run="outer"), Training()], max_steps=1).train()
    assert {batch.run: batch.end for batch in collector.batches if batch.end} == {
        "inner": "finished",
        "outer": "finished",
    }


def test_in_a_notebook_the_run_of_a_training_that_raised_is_stopped_after_its_cell(tmp_path, collector, monkeypatch):
    """A cell that is run within the training, or ends in another thread, does not end the run."""
    hooks = []
    events = SimpleNamespace(register=lambda event, hook: hooks.append((event, hook)))
    notebook = SimpleNamespace(get_ipython=lambda: SimpleNamespace(events=events))
    monkeypatch.setitem(sys.modules, "IPython", notebook)

    def end_cell():
        ((event, hook),) = hooks
        assert event == "post_run_cell"
        hook("its result")

    callback = VitalsCallback(url=collector.url, run="in a cell")
    trainer = tiny_trainer(tmp_path, [callback, Raising(end_cell)])
    with pytest.raises(MemoryError):
        trainer.train()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(end_cell).result()
    assert "training_step" in vars(trainer)  # the run goes on
    end_cell()
    assert "training_step" not in vars(trainer)
    assert [batch.end for batch in collector.batches if batch.end] == ["stopped"]
    assert [record.step for record in collector.records] == [1]


def test_a_signal_handler_that_ends_the_script_in_a_training_stops_the_run(tmp_path, collector):
    """SIGTERM becomes `SystemExit`, which the exit of the interpreter does not see; no end of the training comes."""
    script = tmp_path / "preempted.py"
    script.write_text(PREEMPTED)
    environ = os.environ | {"PYTHONPATH": f"{warm.ROOT}:{Path(__file__).parent}", "RLVITALS_URL": collector.url}
    done = warm.run([str(script), str(tmp_path)], env=environ, timeout=PATIENCE_SECONDS)
    assert done.returncode == 143, done.stdout
    assert [record.step for record in collector.records] == [1, 2]
    assert collector.batches[-1].end == "stopped"


def test_a_trainer_copied_in_the_middle_of_its_training_trains_apart_from_it(tmp_path, collector):
    """The copy trains its own weights, and the run of the original goes on and is finished."""
    copies = []

    class Copying(TrainerCallback):
        def on_step_end(self, _args, state, *_, **__):
            if state.global_step == 2 and not copies:
                copies.append(copy.deepcopy(trainer))
                copies[0].train()

    trainer = tiny_trainer(tmp_path, [VitalsCallback(url=collector.url, run="copied"), Copying()])
    begun = trainer.model.state_dict()["lm_head.weight"].clone()
    trainer.train()
    of_copy = copies[0].model.state_dict()["lm_head.weight"]
    assert not torch.equal(of_copy, begun)
    assert not torch.equal(of_copy, trainer.model.state_dict()["lm_head.weight"])
    steps = {}
    for batch in collector.batches:
        steps.setdefault(batch.attempt, []).extend(decode_record(record).step for record in batch.records)
    assert list(steps.values()) == [[1, 2, 3, 4], [1, 2, 3, 4]]
    assert [batch.end for batch in collector.batches if batch.end] == ["finished", "finished"]


def test_a_callback_in_the_middle_of_a_training_can_be_pickled(tmp_path, connect, collector):
    """A script that pickles a trainer's callbacks pickles this one too, as it was before the training."""
    pickled = []

    class Pickling(TrainerCallback):
        def on_step_end(self, *_, **__):
            pickled.append(pickle.dumps(watching))

    watching = VitalsCallback(connect())
    tiny_trainer(tmp_path, [watching, Pickling()], max_steps=1).train()
    collector.wait_for(lambda seen: seen.records)
    tiny_trainer(tmp_path, [pickle.loads(pickled[0])], max_steps=1).train()  # noqa: S301 - our own
    assert len(collector.records) == 1
