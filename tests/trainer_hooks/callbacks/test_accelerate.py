import torch
from accelerate import Accelerator

from trainer_hooks.callbacks.accelerate import VitalsTracker


def test_what_accelerate_logs_arrives(collector):
    """Known names become signals, canonical names are kept, and other names are sent under accelerate/."""
    accelerator = Accelerator(cpu=True, log_with=VitalsTracker("mine", url=collector.url))
    accelerator.init_trackers("project", config={"lr": 0.1})
    accelerator.log({"loss": torch.tensor(2.0), "reward/mean": 0.5, "speed": 3, "note": "text"}, step=7)
    accelerator.end_training()
    (record,) = collector.records
    assert record.step == 7
    assert record.scalars == {"loss/policy": 2.0, "reward/mean": 0.5, "accelerate/speed": 3.0}
    assert record.summaries["hooks/rejected_scalars"].value() == 1
    assert collector.batches[0].run == "mine"
    assert collector.batches[0].config == {"lr": 0.1}
    assert collector.batches[-1].end == "finished"


def test_what_is_no_number_costs_only_itself(collector):
    """A tensor of several elements is counted as rejected, and the other numbers of the step are sent."""
    accelerator = Accelerator(cpu=True, log_with=VitalsTracker("mine", url=collector.url))
    accelerator.init_trackers("project")
    accelerator.log({"loss": torch.tensor(1.0), "per_layer": torch.zeros(3), "grad_norm": 2.0}, step=1)
    accelerator.end_training()
    (record,) = collector.records
    assert record.scalars == {"loss/policy": 1.0, "grad/norm": 2.0}
    assert record.summaries["hooks/rejected_scalars"].value() == 1


def test_the_monitor_is_at_hand(collector):
    """`get_tracker` returns the monitor itself, which accepts token arrays."""
    accelerator = Accelerator(cpu=True, log_with=VitalsTracker("mine", url=collector.url))
    accelerator.init_trackers("project")
    monitor = accelerator.get_tracker("rlvitals", unwrap=True)
    monitor.log_step(1, rollouts={"logprobs": [[-1.0]], "mask": [[True]], "rewards": [1.0]})
    accelerator.end_training()
    assert collector.records[0].summaries["reward/mean"].value() == 1


def test_without_an_address_it_takes_everything():
    """Without an address the tracker accepts every call and does nothing."""
    accelerator = Accelerator(cpu=True, log_with=VitalsTracker())
    accelerator.init_trackers("project")
    accelerator.log({"loss": 1.0})
    accelerator.end_training()


def test_a_second_training_with_the_same_tracker_is_recorded(collector):
    """After `end_training` the tracker of another Accelerator, as in a notebook, sends a new attempt from step 1."""
    tracker = VitalsTracker("mine", url=collector.url)
    for loss in (1.0, 2.0):
        accelerator = Accelerator(cpu=True, log_with=tracker)
        accelerator.init_trackers("project", config={"first_loss": loss})
        accelerator.log({"loss": loss})
        accelerator.end_training()
    assert [(record.step, record.scalars["loss/policy"]) for record in collector.records] == [(1, 1), (1, 2)]
    assert [batch.end for batch in collector.batches if batch.end] == ["finished", "finished"]
    assert len({batch.attempt for batch in collector.batches}) == 2
