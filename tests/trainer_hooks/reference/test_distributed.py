"""torchrun: the same global batch gives the same run on one process and on two, each streaming its own shard."""

import json
import sys
from dataclasses import replace

import pytest
import torch

from tests.trainer_hooks.reference.launching import ONE, TWO, launch, launch_by_torchrun
from trainer_hooks.reference.distributed import SINGLE_PROCESS, Ranks, device_of
from trainer_hooks.reference.policy.warm_start import warm_start
from trainer_hooks.reference.run.telemetry import numbers
from trainer_hooks.reference.run.trainer import Trainer
from trainer_hooks.wire import Receipt, decode_record, merge

LEAVING = "tests.trainer_hooks.reference.leaving"


def run(world_size, folder, cache, *options):
    """Train three steps; return the log's rows and the newest checkpoint."""
    settings = ["--group-size", "8", "--steps", "3", "--lr", "1e-3", "--checkpoint-every", "1"]
    launch(world_size, folder, cache, *settings, *options)
    rows = [json.loads(text) for text in (folder / "log.jsonl").read_text().splitlines()]
    return rows, torch.load(folder / "step-000003.pt", weights_only=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", [("--method", "llds-action", "--kl", "0.01", "--probe-every", "1"), ("--method", "ppo")]
)
def test_two_processes_train_the_run_of_one(tiny, tmp_path, collector, options):
    """The same numbers at every step and the same weights, to float tolerance; two shards make the whole batch."""
    warm_start(tiny)
    alone, one = run(ONE, tmp_path / "one", tiny.cache, *options)
    shared, two = run(TWO, tmp_path / "two", tiny.cache, *options, "--url", collector.url)
    for row, other in zip(alone, shared, strict=True):
        assert row.keys() == other.keys()
        assert row == {name: pytest.approx(value, rel=2e-4, abs=2e-5, nan_ok=True) for name, value in other.items()}
    assert torch.equal(one["generator"], two["generator"])
    for part in one.keys() & {"model", "critic"}:
        for name, weights in one[part].items():
            assert torch.allclose(weights, two[part][name], atol=2e-5), name
    assert {batch.rank for batch in collector.batches} == {0, 1}
    assert len({batch.attempt for batch in collector.batches}) == 1
    for row in shared:
        first, second = (
            next(record for batch in collector.batches if batch.rank == rank for record in decoded(batch, row["step"]))
            for rank in (0, 1)
        )
        assert not second.scalars.keys() & {"grad/norm", "loss/policy", "lr"}
        merged = merge([second, first])
        for name in ("reward/mean", "length/mean", "entropy/mean", "grad/norm", "reward/zero_std_frac"):
            assert merged[name] == pytest.approx(row[name], rel=1e-5), name


def decoded(batch, step):
    """Return a batch's records of one step."""
    records = [decode_record(raw) for raw in batch.records]
    return [record for record in records if record.step == step]


@pytest.mark.slow
def test_two_processes_resume_to_the_last_bit(tiny, tmp_path):
    """Three steps, or two, a new launch and one more: the same weights and moments on two processes."""
    warm_start(tiny)
    _, straight = run(TWO, tmp_path / "run", tiny.cache, "--method", "ppo")
    (tmp_path / "run" / "step-000003.pt").unlink()
    _, resumed = run(TWO, tmp_path / "run", tiny.cache, "--method", "ppo", "--resume")
    assert straight["step"] == resumed["step"] == 3
    for part in ("model", "critic"):
        assert all(torch.equal(weights, resumed[part][name]) for name, weights in straight[part].items())
    for part in ("optimiser", "critic_optimiser"):
        for place, moments in straight[part]["state"].items():
            assert all(torch.equal(value, resumed[part]["state"][place][name]) for name, value in moments.items())


@pytest.mark.slow
def test_two_processes_go_back_and_stop_together(tiny, tmp_path, collector):
    """Verdicts reach ranks at different times; the first rank's counts, and no rank waits for another for ever."""
    warm_start(tiny)

    def receipt(batch):
        steps = [record.step for record in collector.records] or [0]
        is_first = len({kept.attempt for kept in collector.batches}) == 1
        phase = "acceleration" if is_first and max(steps) > 6 else "healthy"
        return Receipt(
            run_id="r",
            accepted=len(batch.records),
            phase=phase if is_first or len(steps) < 60 else "collapsed",
            judged_step=max((decode_record(raw).step for raw in batch.records), default=None),
        )

    collector.receipt = receipt
    treated = ["--on-acceleration", "rollback+llds", "--max-rollbacks", "1", "--checkpoint-every", "1"]
    printed = tmp_path / "printed"
    with printed.open("wb") as file:
        options = ["--steps", "500", *treated, "--url", collector.url]
        launch(TWO, tmp_path / "run", tiny.cache, *options, stdout=file.fileno())
    output = printed.read_text()
    assert output.count("rolled back to step") == 1
    assert output.rstrip().endswith("stopped, because max_rollbacks is reached")
    ends = {}
    for batch in collector.batches:
        for raw in batch.records:
            ends[batch.rank, batch.attempt] = decode_record(raw).step
    assert len(ends) == 4
    (first, second) = sorted({attempt for _, attempt in ends})
    assert ends[0, first] == ends[1, first] > 6
    assert ends[0, second] == ends[1, second] < 500


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="threads are named by Linux alone")
def test_a_rank_ends_without_a_thread_of_gloos(tiny, tmp_path):
    """A thread that outlives the interpreter may abort the process at its end."""
    warm_start(tiny)
    output = launch_by_torchrun(LEAVING, tmp_path, tiny.cache, "--steps", "1", "--method", "ppo")
    assert "step    1" in output


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_it_trains_on_a_gpu(tiny):
    """The model, its critic and its reference on the GPU: finite weights that have moved, and signals as on the CPU."""
    config = replace(tiny, method="ppo", kl=0.01, probe_every=1)
    trainer = Trainer(config, warm_start(config).to(device_of("cuda", SINGLE_PROCESS)))
    before = [weight.clone() for weight in trainer.model.parameters()]
    result = trainer.step()
    assert all(weight.is_cuda and weight.isfinite().all() for weight in trainer.model.parameters())
    assert any(not torch.equal(a, b) for a, b in zip(before, trainer.model.parameters(), strict=True))
    on_cpu = Trainer(config, warm_start(config))
    assert numbers(result, clip=0.2).keys() >= numbers(on_cpu.step(), clip=0.2).keys() - {"displacement/cross"}


def test_groups_that_cannot_be_dealt_out_are_refused(tiny):
    """4 questions in 2 minibatches leave nothing whole for a fourth rank."""
    with pytest.raises(
        ValueError, match="must be a multiple of minibatches times ranks, got 4 with 2 minibatches and 4"
    ):
        Trainer(tiny, warm_start(tiny), ranks=Ranks(0, 4))


@pytest.mark.parametrize("method", ["kl-cov", "stare", "acpo"])
def test_methods_that_compare_tokens_of_all_ranks_are_refused(tiny, model, method):
    """Two ranks would each find other tokens than a single process."""
    with pytest.raises(ValueError, match=f"method {method} needs a single process, got 2 ranks"):
        Trainer(replace(tiny, method=method, minibatches=1), model, ranks=Ranks(0, 2))


def test_a_single_process_asks_no_other_process():
    """Sums, broadcasts and gatherings of one process return its own values."""
    tensor = torch.arange(3)
    assert SINGLE_PROCESS.sum(tensor) is tensor
    assert SINGLE_PROCESS.broadcast("healthy") == "healthy"
    assert SINGLE_PROCESS.gather(1) == [1]
    assert torch.equal(SINGLE_PROCESS.shard(tensor), tensor)
    assert Ranks.join() == SINGLE_PROCESS


def test_each_rank_has_a_gpu_of_its_own_while_they_last(monkeypatch):
    """Automatic is a GPU where there is one; more ranks than GPUs share them in turn."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert device_of("auto", SINGLE_PROCESS) == torch.device("cpu")
    with pytest.raises(ValueError, match="device cuda needs a GPU"):
        device_of("cuda", SINGLE_PROCESS)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert [device_of("auto", Ranks(rank, 3)).index for rank in range(3)] == [0, 1, 0]
    assert device_of("cpu", SINGLE_PROCESS) == torch.device("cpu")
