import copy
import pickle

import lightning.pytorch as pl
import pytest
import torch
from lightning.pytorch.plugins import MixedPrecision
from tiny_lightning import Tiny, fit
from torch.utils._python_dispatch import TorchDispatchMode

import trainer_hooks
from tests.live import PATIENCE_SECONDS
from trainer_hooks.callbacks.lightning import VitalsCallback
from trainer_hooks.wire import decode_record


class Counting(Tiny):
    """A module whose batch i has the loss i + 1 and one response of i + 1 tokens with the reward i + 1."""

    def rollouts(self, index):
        """Return the response of a batch."""
        tokens = torch.full((1, index + 1), -1.0, requires_grad=True)
        known = {"logprobs": tokens, "mask": tokens < 0, "rewards": [index + 1.0]}
        return known if index == 2 else known | {"entropies": tokens + index + 2.0}

    def training_step(self, batch, index):
        """Return a loss that identifies the batch, and its rollouts."""
        return {"loss": self.layer(batch).sum() * 0 + index + 1.0, "rollouts": self.rollouts(index)}


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda callback: pickle.loads(pickle.dumps(callback))])  # noqa: S301
def test_a_callback_copied_in_the_middle_of_a_training_watches_another_one(collector, copied):
    """The run of the first goes on and is finished, and the other training has its own run."""
    copies = []

    class Copying(pl.Callback):
        def on_train_batch_end(self, *_):
            copies.append(copied(watching))

    watching = VitalsCallback(url=collector.url)  # each connection makes a name
    fit([watching, Copying()])
    fit([copies[1]])
    runs = {}
    for batch in collector.batches:
        runs.setdefault(batch.run, []).extend(decode_record(record).step for record in batch.records)
    assert list(runs.values()) == [[1, 2], [1, 2]]
    assert [(batch.run, batch.end) for batch in collector.batches if batch.end] == [(run, "finished") for run in runs]


def test_each_optimiser_step_arrives_with_its_tokens(connect, collector):
    """The gradient norm is that before clipping, and signals of rollouts replace scalars of the same name."""
    monitor = connect()
    fit([VitalsCallback(monitor)])
    assert monitor.flush(PATIENCE_SECONDS)
    assert [record.step for record in collector.records] == [1, 2]
    record = collector.records[0]
    assert record.scalars["grad/norm"] > 0.01
    assert record.scalars["lr"] == 0.125
    assert record.scalars["lightning/accuracy"] == 0.5
    assert record.summaries["reward/mean"].value() == 0.75


def test_final_weights_are_the_same_to_the_last_bit(connect):
    """Training with the callback must end in the weights of training without it."""
    assert torch.equal(fit([VitalsCallback(connect())]).layer.weight, fit().layer.weight)


def test_hyperparameters_that_cannot_be_sent_do_not_keep_a_module_from_training(collector):
    """Lightning collects them from the module's arguments: one that cannot be read becomes text, the others stay."""

    class Configured(Tiny):
        def __init__(self):
            super().__init__()
            itself = {}
            itself["again"] = itself
            self.save_hyperparameters({"rewards": {("math", "hard"): 2.0}, "itself": itself, "rate": {"start": 0.125}})

    fit([VitalsCallback(url=collector.url, run="configured")], Configured)
    assert len(collector.records) == 2
    config = collector.batches[0].config
    assert config["rate"] == {"start": 0.125}
    assert config["rewards"] == {"('math', 'hard')": 2.0}
    assert config["itself"] == {"again": "a dict that cannot be shown"}


@pytest.mark.parametrize("is_fused", [False, True], ids=["plain", "fused"])
def test_the_gradient_norm_has_no_scale_of_mixed_precision(is_fused, connect, collector):
    """The norm of scaled float16 training is that of training without a scale, up to the precision of float16."""

    class Adam(Tiny):
        def configure_optimizers(self):
            """Create an optimiser that may divide by the scale itself."""
            return torch.optim.AdamW(self.parameters(), fused=is_fused)

    monitor = connect()
    options = {"module": Adam, "batches": 2, "gradient_clip_val": None}
    scaled = MixedPrecision("16-mixed", "cpu", scaler=torch.amp.GradScaler("cpu", init_scale=8.0))
    fit([VitalsCallback(monitor)], **options)
    fit([VitalsCallback(monitor)], plugins=[scaled], **options)
    assert monitor.flush(PATIENCE_SECONDS)
    plain, mixed = (record.scalars["grad/norm"] for record in collector.records)
    assert mixed == pytest.approx(plain, rel=1e-2)


def test_the_gradient_of_a_sparse_embedding_has_a_norm(connect, collector):
    """It stands beside a dense gradient; a row that was looked up twice has the sum of both."""

    class Sparse(Tiny):
        def __init__(self):
            super().__init__()
            self.embedding = torch.nn.Embedding(5, 2, sparse=True)

        def training_step(self, batch, index):  # noqa: ARG002 - Lightning's signature
            """Return a loss whose gradient is 2 in a row, 1 in another one and 0 elsewhere."""
            return self.embedding(torch.tensor([1, 1, 3])).sum() + 0 * self.layer(batch).sum()

    monitor = connect()
    fit([VitalsCallback(monitor)], Sparse, batches=1, accumulate_grad_batches=1, gradient_clip_val=None)
    assert monitor.flush(PATIENCE_SECONDS)
    (record,) = collector.records
    assert record.scalars["grad/norm"] == pytest.approx(10**0.5)  # √(2 · 2² + 2 · 1²)


def test_a_training_that_dies_is_stopped_and_not_finished(collector):
    """An exception in the module must end the run as `stopped`."""

    class Dying(Tiny):
        def training_step(self, batch, index):
            """Raise an error in the third batch."""
            if index == 2:
                raise ZeroDivisionError
            return super().training_step(batch, index)

    with pytest.raises(ZeroDivisionError):
        fit([VitalsCallback(url=collector.url, run="r")], module=Dying)
    assert collector.batches[-1].end == "stopped"


def test_the_batches_of_an_accumulated_step_are_one(connect, collector):
    """The loss is the mean over the batches, and responses of different lengths are concatenated.

    There are five batches and two batches per step, so the last step has only one. An optional array that only some
    batches have is left out.
    """
    monitor = connect()
    fit([VitalsCallback(monitor)], Counting, batches=5)
    assert monitor.flush(PATIENCE_SECONDS)
    expected = [1.5, 3.5, 5.0]
    assert [record.scalars["loss/policy"] for record in collector.records] == expected
    for name in ("reward/mean", "length/mean"):
        assert [record.summaries[name].value() for record in collector.records] == expected
    assert [record.summaries["reward/mean"].count for record in collector.records] == [2, 2, 1]
    # One token of 1 nat and two of 2: padding does not count.
    assert collector.records[0].summaries["entropy/mean"].value() == pytest.approx(5 / 3)
    assert ["entropy/mean" in record.summaries for record in collector.records] == [True, False, True]


def test_a_batch_whose_arrays_contradict_each_other_costs_only_itself(connect, collector):
    """A mask that is longer than the other arrays is refused, although padding could hide the difference.

    A step of which every batch is refused has lost its rollouts.
    """

    class Contradicting(Counting):
        def rollouts(self, index):
            """Return a mask with one token too many in the first batch, and in both of the last step."""
            mask = torch.ones(1, index + 1 + (index in {0, 4, 5}))
            return super().rollouts(index) | {"mask": mask}

    monitor = connect()
    fit([VitalsCallback(monitor)], Contradicting, batches=6)
    assert monitor.flush(PATIENCE_SECONDS)
    first, second, third = collector.records
    assert first.scalars["loss/policy"] == 1.5
    assert first.summaries["reward/mean"].value() == 2
    assert second.summaries["reward/mean"].value() == 3.5
    assert third.summaries["hooks/rejected_rollouts"].value() == 3
    assert ["hooks/lost_rollouts" in record.summaries for record in collector.records] == [False, False, True]


def test_a_callback_that_was_added_twice_counts_each_batch_once(collector):
    """No loss of a step is in the next one, each step has one record, and the run has one attempt."""
    callback = VitalsCallback(url=collector.url, run="r")
    fit([callback, callback], Counting)
    assert [record.scalars["loss/policy"] for record in collector.records] == [1.5, 3.5]
    assert [record.summaries["reward/mean"].count for record in collector.records] == [2, 2]
    assert len({batch.attempt for batch in collector.batches}) == 1


def test_batches_after_which_an_epoch_was_left_belong_to_no_step(connect, collector):
    """Batches before an early end of an epoch are left out, because Lightning drops their gradients."""

    class Leaving(Counting):
        def on_train_batch_start(self, batch, index):  # noqa: ARG002 - Lightning's signature
            """Stop the first epoch after one batch."""
            return -1 if index == 1 and self.current_epoch == 0 else None

    monitor = connect()
    fit([VitalsCallback(monitor)], Leaving, batches=2, max_epochs=2)
    assert monitor.flush(PATIENCE_SECONDS)
    (record,) = collector.records
    assert (record.step, record.scalars["loss/policy"]) == (1, 1.5)
    assert record.summaries["reward/mean"].count == 2


def test_batches_of_a_training_that_failed_are_not_in_the_next(connect, collector):
    """Under manual optimisation a step may take several epochs, so their beginnings drop nothing."""

    class Manual(Counting):
        fails = True

        def __init__(self):
            super().__init__()
            self.automatic_optimization = False

        def training_step(self, batch, index):
            """Make one step of two batches, or fail in the second."""
            if index == 1 and self.fails:
                raise ZeroDivisionError
            found = super().training_step(batch, index)
            if index == 1:
                self.optimizers().step()
            return found

    monitor = connect()
    callback = VitalsCallback(monitor)
    options = {"module": Manual, "batches": 2, "accumulate_grad_batches": 1, "gradient_clip_val": None}
    with pytest.raises(ZeroDivisionError):
        fit([callback], **options)
    Manual.fails = False
    fit([callback], **options)
    assert monitor.flush(PATIENCE_SECONDS)
    assert collector.records[-1].scalars["loss/policy"] == 1.5
    assert collector.records[-1].summaries["reward/mean"].count == 2


def test_what_is_logged_once_is_sent_once(connect, collector):
    """A metric is sent only with the step after it was logged, although Lightning keeps its last value.

    What is logged after the last step is sent when the training ends.
    """

    class Validated(Tiny):
        def training_step(self, batch, index):
            """Log something in every fourth batch."""
            if index % 4 == 0:
                self.log("seldom", 1.0)
            self.log("of_the_epoch", 1.0, on_step=False, on_epoch=True)
            return super().training_step(batch, index)

        def validation_step(self, batch, index):  # noqa: ARG002 - Lightning's signature
            """Log the same loss every time, and write a number into Lightning's table directly."""
            self.log("val_loss", 42.0)
            self.trainer.callback_metrics["number"] = float(self.global_step)

    monitor = connect()
    options = {"validation": torch.utils.data.DataLoader(torch.zeros(1, 4)), "val_check_interval": 4}
    fit([VitalsCallback(monitor)], Validated, batches=10, accumulate_grad_batches=1, **options)
    assert monitor.flush(PATIENCE_SECONDS)
    for name, steps in (
        ("val_loss", [5, 9]),
        ("number", [5, 9]),
        ("seldom", [1, 5, 9]),
        ("of_the_epoch", [10]),
        ("accuracy", list(range(1, 11))),
    ):
        assert [record.step for record in collector.records if f"lightning/{name}" in record.scalars] == steps


def test_a_training_that_makes_no_step_sends_nothing(connect, collector):
    """What it logs would belong to the last step of the training before it."""

    class Leaving(Tiny):
        def on_train_batch_start(self, batch, index):  # noqa: ARG002 - Lightning's signature
            """Log something, and leave the epoch before its first batch."""
            self.trainer.callback_metrics["number"] = 1.0
            return -1

    monitor = connect()
    fit([VitalsCallback(monitor)], Leaving)
    assert monitor.flush(PATIENCE_SECONDS)
    assert not collector.records


def test_without_an_address_nothing_is_read():
    """Without an address no tensor is read, so nothing waits for a device."""

    class Seen(TorchDispatchMode):
        calls = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.calls += 1
            return func(*args, **(kwargs or {}))

    seen = Seen()

    class Watched(VitalsCallback):
        def on_before_optimizer_step(self, *args):
            with seen:
                super().on_before_optimizer_step(*args)

        def on_train_batch_end(self, *args):
            with seen:
                super().on_train_batch_end(*args)

    fit([Watched()])
    fit([Watched(trainer_hooks.NullMonitor())])
    assert seen.calls == 0


def test_with_several_optimisers_a_batch_is_a_step_by_lightnings_number(connect, collector):
    """The step is Lightning's `global_step`, which counts the updates of each optimiser."""

    class Manual(Tiny):
        def __init__(self):
            super().__init__()
            self.automatic_optimization = False

        def training_step(self, batch, index):
            """Step both optimisers."""
            self.manual_backward(super().training_step(batch, index)["loss"])
            for optimizer in self.optimizers():
                optimizer.step()

        def configure_optimizers(self):
            """Create two optimisers."""
            return [super(Manual, self).configure_optimizers() for _ in range(2)]

    monitor = connect()
    fit([VitalsCallback(monitor)], Manual, batches=2, accumulate_grad_batches=1, gradient_clip_val=None)
    assert monitor.flush(PATIENCE_SECONDS)
    assert [(record.step, record.policy_version) for record in collector.records] == [(2, 0), (4, 2)]


def test_the_gradient_norm_is_that_of_the_optimiser_that_stepped_last(connect, collector):
    """The gradients of the other optimiser, which stay until its own `zero_grad`, are not part of it."""

    class ActorAndCritic(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.actor, self.critic = torch.nn.Linear(2, 1, bias=False), torch.nn.Linear(2, 1, bias=False)
            self.automatic_optimization = False

        def training_step(self, batch, index):  # noqa: ARG002 - Lightning's
            """Step the critic, and then the actor, whose gradients are 3 and 4."""
            critic, actor = self.optimizers()
            for optimizer, loss in (
                (critic, 100 * self.critic(torch.ones(2)).sum()),
                (actor, self.actor(torch.tensor([3.0, 4.0])).sum()),
            ):
                optimizer.zero_grad()
                self.manual_backward(loss)
                optimizer.step()

        def configure_optimizers(self):
            """Create one for each."""
            return [torch.optim.SGD(part.parameters(), lr=1e-3) for part in (self.critic, self.actor)]

    monitor = connect()
    fit([VitalsCallback(monitor)], ActorAndCritic, batches=1, accumulate_grad_batches=1, gradient_clip_val=None)
    assert monitor.flush(PATIENCE_SECONDS)
    assert collector.records[-1].scalars["grad/norm"] == pytest.approx(5.0)
