import re

import pytest
import torch
from accelerate import Accelerator
from torch.utils._python_dispatch import TorchDispatchMode

import trainer_hooks
from tests.live import PATIENCE_SECONDS
from trainer_hooks import ConfigurationError
from trainer_hooks.actions import ActionPolicy
from trainer_hooks.callbacks.torch_loop import LoopWatch
from trainer_hooks.model_monitors import ModelMonitors
from trainer_hooks.model_monitors.gradients import total_norm
from trainer_hooks.probes.recomputation import ReportedResponses
from trainer_hooks.wire import AlertNotice, Receipt


@pytest.fixture
def optimizer():
    """Return an optimiser of two weights, 3 and 4, with the learning rate 0.5."""
    weights = [torch.nn.Parameter(torch.tensor(3.0)), torch.nn.Parameter(torch.tensor(4.0))]
    return torch.optim.SGD(weights, lr=0.5)


def step(optimizer, gradients=(3.0, 4.0)):
    """Take a step of the optimiser with these gradients."""
    for weight, gradient in zip(optimizer.param_groups[0]["params"], gradients, strict=True):
        weight.grad = torch.tensor(gradient)
    optimizer.step()


def test_each_optimiser_step_is_a_step(optimizer, connect, collector):
    """Gradient norm and learning rate are read from the optimiser, and notes belong to the step after them."""
    with LoopWatch(optimizer, connect(), first_step=11) as watch:
        watch.note({"loss/policy": torch.tensor(2.0, requires_grad=True)})
        step(optimizer)
        step(optimizer)
    first, second = collector.records
    assert (first.step, second.step) == (11, 12)
    assert first.policy_version == 10
    # √(3² + 4²) = 5
    assert first.scalars == {"loss/policy": 2, "grad/norm": 5, "lr": 0.5}
    assert "loss/policy" not in second.scalars
    assert collector.batches[-1].end == "finished"


@pytest.mark.parametrize("is_named", [False, True])
def test_a_closure_computes_the_gradients_of_its_own_step(is_named, connect, collector):
    """Before the step there are none, or those of the step before."""
    model = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.constant_(model.weight, 4.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.25)

    def closure():
        optimizer.zero_grad()
        loss = model(torch.ones(1)).square().sum()
        loss.backward()
        return loss

    with LoopWatch(optimizer, connect(), model_monitors=ModelMonitors(torch.nn.ModuleList([model]), every=1)):
        for _ in range(2):
            optimizer.step(closure=closure) if is_named else optimizer.step(closure)
    norms = [(record.scalars["grad/norm"], record.scalars["grad/norm/0"]) for record in collector.records]
    assert norms == [(8.0, 8.0), (4.0, 4.0)]


def test_sparse_gradients_have_a_norm(connect, collector):
    """An embedding stands beside a dense weight; a row that was looked up twice has the sum of both."""
    embedding, weight = torch.nn.Embedding(5, 2, sparse=True), torch.nn.Parameter(torch.tensor(1.0))
    optimizer = torch.optim.SGD([*embedding.parameters(), weight], lr=0.1)
    with LoopWatch(optimizer, connect()):
        (embedding(torch.tensor([1, 1, 3])).sum() + 4 * weight).backward()
        optimizer.step()
    (record,) = collector.records
    # √(2 · 2² + 2 · 1² + 4²)
    assert record.scalars["grad/norm"] == pytest.approx(26**0.5)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_gradients_in_half_precision_have_the_norm_of_float32(dtype, connect, collector):
    """√(5 · 300² · 100² + 3²): beyond float16, and between two numbers of bfloat16."""
    weight, other = (torch.nn.Parameter(torch.zeros(shape, dtype=dtype)) for shape in ((5, 300, 300), (1,)))
    optimizer = torch.optim.SGD([weight, other], lr=0.0)
    with LoopWatch(optimizer, connect()):
        weight.grad, other.grad = torch.full_like(weight, 100.0), torch.full_like(other, 3.0)
        optimizer.step()
    (record,) = collector.records
    assert record.scalars["grad/norm"] == pytest.approx((5 * 300**2 * 100**2 + 3**2) ** 0.5, rel=2e-4)


def test_gradients_in_half_precision_cost_an_accelerator_one_launch():
    """The norms of all gradients on an accelerator come from one call, however many there are."""
    calls = []

    class Calls(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            calls.append(func.overloadpacket.__name__)
            return func(*args, **(kwargs or {}))

    gradients = [torch.empty(4, dtype=torch.bfloat16, device="meta") for _ in range(9)]
    with Calls():
        norm = total_norm(gradients)
    assert norm.dtype == torch.float32
    # Then come the norms of the nine norms, which a GPU takes in one launch too, and the norm of them all.
    assert calls == ["_foreach_norm", *9 * ["linalg_vector_norm"], "stack", "linalg_vector_norm"]


def test_what_is_noted_without_a_name_is_counted(optimizer, connect, collector):
    """A note that is not a mapping is counted, and no error is raised into the loop."""
    with LoopWatch(optimizer, connect()) as watch:
        watch.note(torch.zeros(3))
        step(optimizer)
    (record,) = collector.records
    assert record.scalars == {"grad/norm": 5, "lr": 0.5}
    assert record.summaries["hooks/rejected_scalars"].value() == 1


def test_an_optimiser_that_accelerate_prepared_is_watched_where_it_steps(optimizer, connect, collector):
    """With two microbatches per step every second call of Accelerate's optimiser is a step."""
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    prepared = accelerator.prepare(optimizer)
    with LoopWatch(prepared, connect()):
        for _ in range(4):
            with accelerator.accumulate():
                step(prepared)
    assert [record.step for record in collector.records] == [1, 2]
    assert collector.records[0].scalars == {"grad/norm": 5, "lr": 0.5}


def test_an_optimiser_that_steps_another_one_twice_is_watched_at_its_own_steps(optimizer, connect, collector):
    """Each call of an optimiser that calls another one twice, as sharpness-aware minimisation does, is one step."""

    class Twice(torch.optim.Optimizer):
        def __init__(self, inner):
            super().__init__(inner.param_groups, {})
            self.optimizer = inner

        def step(self, closure=None):  # noqa: ARG002 - torch's signature
            self.optimizer.step()
            self.optimizer.step()

    twice = Twice(optimizer)
    with LoopWatch(twice, connect()):
        for _ in range(2):
            step(twice)
    assert [record.step for record in collector.records] == [1, 2]


def test_what_is_no_optimiser_is_refused_before_training(connect):
    """An object that is no torch optimiser, such as Accelerate's wrapper of DeepSpeed, is refused with an error."""
    with pytest.raises(ConfigurationError, match=r"must be a torch\.optim\.Optimizer.* got Linear"):
        LoopWatch(torch.nn.Linear(1, 1), connect())


def test_an_action_is_recorded_as_handed_to_the_loop(optimizer, connect, collector):
    """An action is reported as handed to the loop; a notification has no such detail."""
    rules = {"likelihood_drift": "notify", "run_collapsed": "stop"}
    alerts = [AlertNotice(id=kind, kind=kind, severity="critical", opened_step=1, summary="s") for kind in rules]
    collector.receipt = lambda batch: Receipt(run_id="r", accepted=len(batch.records), alerts=alerts)
    policy = ActionPolicy(rules, dry_run=False)
    monitor = connect(actions=policy)
    assert monitor.flush(PATIENCE_SECONDS)
    with LoopWatch(optimizer, monitor) as watch:
        step(optimizer)
        assert [decision.action for decision in watch.decisions] == ["notify", "stop"]
    reports = [(report.action, report.outcome, report.detail) for report in collector.records[0].actions]
    assert reports == [("notify", "taken", ""), ("stop", "taken", "handed to the loop, which carries it out itself")]


def test_a_loop_that_has_gone_back_is_not_sent_back_again_by_an_alert_of_the_steps_it_left_behind(
    optimizer, connect, collector
):
    """Two alerts of one collapse: the second arrives while the loop loads its checkpoint, and a later one counts."""

    def alert(opened_step):
        fields = {"id": f"at {opened_step}", "kind": "run_collapsed", "severity": "critical", "summary": "s"}
        return AlertNotice(opened_step=opened_step, **fields)

    monitor = connect(actions=ActionPolicy({"critical": "rollback"}, dry_run=False))
    policy = monitor.policy
    with LoopWatch(optimizer, monitor, first_step=40) as watch:
        for _ in range(6):
            step(optimizer)
        policy.consider(alert(43))
        step(optimizer)
        assert [decision.alert.opened_step for decision in watch.decisions] == [43]
        policy.consider(alert(45))
        watch.note({"reward/mean": 0.0})
        watch.go_back(42)
        assert watch.decisions == ()
        step(optimizer)
        assert watch.decisions == ()
        policy.consider(alert(42))
        step(optimizer)
        assert [decision.alert.opened_step for decision in watch.decisions] == [42]
    assert [record.step for record in collector.records] == [*range(40, 47), 42, 43]
    refused = collector.records[7]
    assert "reward/mean" not in refused.scalars
    (report,) = refused.actions
    assert (report.outcome, report.alert_id) == ("refused", "at 45")
    assert "gone back to before the step" in report.detail
    assert collector.batches[-1].attempt == collector.batches[0].attempt + 1


def test_an_alert_is_said_to_lead_to_no_action_where_nothing_carries_it_out(optimizer, connect, collector, caplog):
    """A loop that only logs its steps is told once, and one with a watch is not."""
    alert = AlertNotice(id="a", kind="run_collapsed", severity="critical", opened_step=1, summary="s")
    collector.receipt = lambda batch: Receipt(run_id="r", accepted=len(batch.records), alerts=[alert])
    policy = ActionPolicy({"critical": "stop"}, dry_run=False)
    with connect(run="logged", actions=policy) as monitor:
        monitor.log_step(1, {"reward/mean": 0.0})
    assert "AN ALERT LEADS TO NO ACTION" in caplog.text
    caplog.clear()
    with LoopWatch(optimizer, connect(run="watched", actions=policy)):
        step(optimizer)
    assert "AN ALERT LEADS TO NO ACTION" not in caplog.text


def test_a_loop_that_steps_several_times_a_batch_reads_every_decision_once(optimizer, connect):
    """A decision stays until the first step after it was read, and may be read several times until then."""
    monitor = connect(actions=ActionPolicy({"critical": "stop"}, dry_run=False))
    with LoopWatch(optimizer, monitor) as watch:
        step(optimizer)
        monitor.policy.consider(AlertNotice(id="a", kind="drift", severity="critical", opened_step=1, summary="s"))
        for _ in range(4):
            step(optimizer)
        for _ in range(2):
            assert [decision.alert.id for decision in watch.decisions] == ["a"]
        step(optimizer)
        assert watch.decisions == ()


@pytest.mark.parametrize("is_one_run", [False, True], ids=["another run", "the same run"])
def test_a_training_does_not_carry_out_what_was_decided_about_an_earlier_one(is_one_run, optimizer, connect, collector):
    """The alert of the first training's last step arrives when its loop has ended; one policy serves both trainings."""
    alert = AlertNotice(id="a", kind="run_collapsed", severity="critical", opened_step=1, summary="s")
    policy = ActionPolicy({"critical": "stop"}, dry_run=False)
    first = connect(run="first", actions=policy)
    ended = torch.optim.SGD(optimizer.param_groups[0]["params"], lr=0.5)
    LoopWatch(ended, first)
    collector.receipt = lambda batch: Receipt(
        run_id="r", accepted=len(batch.records), alerts=[alert] if batch.run == "first" and batch.records else []
    )
    step(ended)
    assert first.flush(PATIENCE_SECONDS)
    second = first if is_one_run else connect(run="second", actions=policy)
    with LoopWatch(optimizer, second) as other:
        step(optimizer)
        assert not other.decisions
    refused = [report.outcome for record in collector.records for report in record.actions if report.action == "stop"]
    assert refused == (["refused"] if is_one_run else [])


@pytest.mark.parametrize("is_fused", [False, True], ids=["plain", "fused"])
def test_the_gradient_norm_has_no_scale_of_mixed_precision(is_fused, connect, collector):
    """A GradScaler's scale, by which a fused optimiser divides only while it steps, is in no gradient norm."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(2, 1))
    optimizer = torch.optim.AdamW(model.parameters(), fused=is_fused)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    with LoopWatch(optimizer, connect(), model_monitors=ModelMonitors(model, every=1)):
        loss = model(torch.ones(3, 2)).square().mean()
        expected = torch.nn.utils.get_total_norm(torch.autograd.grad(loss, model.parameters(), retain_graph=True))
        scaler.scale(loss).backward()
        scaler.step(optimizer)
    (record,) = collector.records
    assert record.scalars["grad/norm"] == pytest.approx(expected.item())
    assert record.scalars["grad/norm/0"] == pytest.approx(expected.item())


def test_a_noted_gradient_norm_wins(optimizer, connect, collector):
    """A noted gradient norm, which is that before clipping, replaces the norm that is read from the gradients."""
    with LoopWatch(optimizer, connect()) as watch:
        watch.note({"grad/norm": 100.0})
        step(optimizer)
    assert collector.records[0].scalars["grad/norm"] == 100


def test_rollouts_become_signals(optimizer, connect, collector):
    """Noted token arrays are reduced to signals, and arrays that contradict each other lose only themselves."""
    good = {"logprobs": torch.tensor([[-1.0, -3.0]]), "mask": torch.ones(1, 2), "rewards": torch.ones(1)}
    with LoopWatch(optimizer, connect()) as watch:
        watch.note(rollouts=good)
        step(optimizer)
        watch.note(rollouts=good | {"mask": torch.ones(1, 3)})
        step(optimizer)
    first, second = collector.records
    assert first.summaries["likelihood/correct"].value() == -2
    assert second.summaries["hooks/rejected_rollouts"].value() == 1
    assert second.scalars["grad/norm"] == 5


def test_the_weights_are_the_same_to_the_last_bit(connect):
    """A watched loop ends in the same weights as the same loop without the watch."""

    def train(monitor):
        torch.manual_seed(0)
        layer = torch.nn.Linear(8, 8)
        optimizer = torch.optim.AdamW(layer.parameters(), lr=1e-2)
        with LoopWatch(optimizer, monitor) as watch:
            for _ in range(5):
                optimizer.zero_grad()
                loss = layer(torch.randn(4, 8)).square().mean()
                loss.backward()
                watch.note({"loss/policy": loss})
                optimizer.step()
        return layer.weight

    assert torch.equal(train(connect()), train(trainer_hooks.NullMonitor()))


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # torch's own
def test_a_compiled_step_is_traced_without_ours(optimizer, connect, collector, caplog):
    """Where the loop compiles its optimiser's step, torch neither traces the hooks nor warns that it cannot."""
    compiled = torch.compile(optimizer.step, backend="eager")
    with LoopWatch(optimizer, connect()) as watch:
        for number in range(3):
            watch.note({"loss/policy": torch.tensor(float(number))})
            for weight in optimizer.param_groups[0]["params"]:
                weight.grad = torch.tensor(3.0)
            compiled()
    assert "trainer_hooks" not in caplog.text
    assert [record.scalars["loss/policy"] for record in collector.records] == [0, 1, 2]


def test_without_a_collector_the_optimiser_is_left_alone(optimizer):
    """With a null monitor the optimiser has no hooks."""
    LoopWatch(optimizer, trainer_hooks.NullMonitor())
    assert not optimizer._optimizer_step_pre_hooks


def test_an_error_of_the_loop_ends_the_run_as_stopped(optimizer, connect, collector):
    """An exception ends the run as `stopped`, and the hooks are removed from the optimiser."""
    with pytest.raises(ZeroDivisionError), LoopWatch(optimizer, connect()):
        _ = 1 / 0
    assert collector.batches[-1].end == "stopped"
    assert not optimizer._optimizer_step_post_hooks


def test_what_was_noted_of_a_step_that_an_exception_ends_is_sent(optimizer, connect, collector):
    """If memory runs out in the backward pass, the noted rewards and tokens are sent and marked as a partial step."""
    tokens = {"logprobs": torch.tensor([[-1.0, -3.0]]), "mask": torch.ones(1, 2), "rewards": torch.ones(1)}

    def train():
        with LoopWatch(optimizer, connect()) as watch:
            step(optimizer)
            watch.note({"loss/policy": 2.0}, rollouts=tokens)
            raise torch.OutOfMemoryError

    with pytest.raises(torch.OutOfMemoryError):
        train()
    whole, partial = collector.records
    assert "hooks/partial_step" not in whole.scalars
    assert partial.step == 2
    assert partial.scalars == {"loss/policy": 2.0, "hooks/partial_step": 1.0}
    assert partial.summaries["likelihood/correct"].value() == -2


@pytest.mark.parametrize("is_watch_closed", [False, True], ids=["noted again", "closed"])
def test_a_loss_that_is_not_finite_is_sent_where_a_scaler_skips_its_update(is_watch_closed, connect, collector):
    """It is sent once, however many updates are skipped, and as a part of the step that never came."""
    weight = torch.nn.Parameter(torch.tensor(3.0))
    optimizer, scaler = torch.optim.SGD([weight], lr=0.5), torch.amp.GradScaler("cpu", init_scale=8.0)
    watch = LoopWatch(optimizer, connect())
    for factor in [1.0, float("nan")] + ([] if is_watch_closed else [float("nan"), float("nan")]):
        loss = weight * factor
        watch.note({"loss/policy": loss, "reward/mean": 0.5})
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    watch.close()
    whole, partial = collector.records
    assert (whole.step, partial.step) == (1, 2)
    assert "hooks/partial_step" not in whole.scalars
    assert partial.scalars == {"loss/policy": pytest.approx(float("nan"), nan_ok=True)} | {
        "reward/mean": 0.5,
        "hooks/partial_step": 1.0,
    }


def test_updates_that_a_scaler_skips_until_its_scale_fits_are_no_steps(connect, collector, caplog):
    """As in a healthy training: the loss is finite. Only if updates are skipped on and on, the log says so, once."""
    weight = torch.nn.Parameter(torch.tensor(3.0))
    optimizer, scaler = torch.optim.SGD([weight], lr=0.0), torch.amp.GradScaler("cpu", init_scale=2.0**127)
    with LoopWatch(optimizer, connect()) as watch:
        for _ in range(5):  # 8 · 2¹²⁷, 8 · 2¹²⁶ and 8 · 2¹²⁵ are infinite in float32
            optimizer.zero_grad()
            loss = 8 * weight
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            watch.note({"loss/policy": loss, "grad/norm": torch.nn.utils.clip_grad_norm_([weight], 1e9)})
            scaler.step(optimizer)
            scaler.update()
        assert "has not stepped" not in caplog.text
        for _ in range(500):
            watch.note({"loss/policy": loss})
    assert [(record.step, record.scalars["grad/norm"]) for record in collector.records] == [(1, 8.0), (2, 8.0)]
    assert caplog.text.count("has not stepped") == 1


def test_responses_are_scored_before_and_after_the_step(optimizer, connect, collector):
    """At every second step held-out responses are scored twice, and those with given scores once more."""
    first, _ = optimizer.param_groups[0]["params"]
    given = {"mask": torch.ones(1, 1), "correct": torch.ones(1)}
    with LoopWatch(optimizer, connect(), probe_every=2) as watch:
        for _ in range(2):
            watch.score_again(lambda: (-first.view(1, 1), first.view(1, 1) * 1), **given)
            watch.score_again(
                lambda: (-first.view(1, 1), None), before=(torch.zeros(1, 1), None), fresh=torch.zeros(1), **given
            )
            step(optimizer)
    untouched, scored = collector.records
    assert "displacement/cross" not in untouched.summaries
    # The weight goes from 3 by 0.5 · 3 to 1.5, and again to 0.
    assert scored.summaries["displacement/cross"].value() == 1.5
    assert scored.summaries["entropy/paired_delta"].value() == -1.5
    assert scored.summaries["displacement/self"].value() == 0.0


class UnreadableError(Exception):
    """An error that raises at any access."""

    def __str__(self):
        raise RuntimeError("no text")


class Unreadable:
    """No mapping, and no number; the error that says so cannot be read."""

    def keys(self):
        """Raise."""
        raise UnreadableError

    __iter__ = __int__ = keys


def test_notes_and_numbers_that_cannot_be_read_raise_nothing_into_a_loop(optimizer, connect, collector, swallowed):
    """They are counted, and the numbers of the steps continue."""
    monitor = connect()
    with LoopWatch(optimizer, monitor, first_step=torch.tensor(3)) as watch:
        watch.note(Unreadable())
        step(optimizer)
        for given in (Unreadable(), None):
            watch.go_back(given)
            step(optimizer)
    assert [record.step for record in collector.records] == [3, 4, 5]
    assert (monitor.drops["scalars"], monitor.drops["internal_errors"]) == (1, 2)
    swallowed.clear()


@pytest.mark.parametrize("given", [None, "first", 1.5, -1, Unreadable()])
def test_a_first_step_that_is_no_step_is_refused_before_training(optimizer, connect, given):
    """Otherwise the first step of the optimiser would raise, or the steps would be dropped or wrong."""
    with pytest.raises(ConfigurationError, match="first_step must be an integer from 0 on, got "):
        LoopWatch(optimizer, connect(), first_step=given)


def test_a_monitor_that_is_none_is_refused(optimizer, connect):
    """An address is no monitor, and the two arguments are easily swapped."""
    for arguments, given in (((optimizer, "http://127.0.0.1:1"), "str"), ((connect(), optimizer), "SGD")):
        with pytest.raises(ConfigurationError, match=f"monitor must be what .* returns, got {given}"):
            LoopWatch(*arguments)


@pytest.mark.parametrize(
    ("scores", "mask", "before", "message"),
    [
        ((torch.zeros(1, 1), None), 2, None, "mask of the paired scores must hold only 0 and 1, got 2 at"),
        (
            torch.zeros(2, 1),
            1,
            None,
            "what score returns must be a pair: log-probabilities, and entropies or None; got",
        ),
        ((torch.zeros(1, 1), None), 1, torch.zeros(2, 1), "before must be a pair: .*; got Tensor"),
    ],
)
def test_contradicting_arrays_to_score_again_are_refused_and_counted(
    optimizer, connect, collector, swallowed, *, scores, mask, before, message
):
    """A mask that contains 2s, or scores that are no pair, lose only the re-scored pair; no rollouts are counted."""
    with LoopWatch(optimizer, connect(), probe_every=1) as watch:
        watch.note(rollouts={"logprobs": [[-1.0]], "mask": [[1]], "rewards": [1.0]})
        watch.score_again(lambda: scores, mask=torch.full((1, 1), mask), correct=torch.ones(1), before=before)
        step(optimizer)
    (record,) = collector.records
    assert record.summaries["hooks/internal_errors"].value() == len(swallowed) > 0
    assert all(re.match(message, str(error)) for error in swallowed)
    assert "reward/mean" in record.summaries
    assert "hooks/rejected_rollouts" not in record.summaries
    assert record.scalars["grad/norm"] == 5
    swallowed.clear()


def test_a_loop_has_its_numbers_computed_again_before_its_step(optimizer, connect, collector):
    """At every second step the reported log-probabilities are compared with those of the model."""
    model = torch.nn.Embedding(4, 4)
    tokens = torch.tensor([[0, 1, 2]])
    logprobs = torch.zeros(1, 3)
    logprobs[:, 1:] = model(tokens)[:, :-1].log_softmax(-1).gather(2, tokens[:, 1:, None])[:, :, 0].detach() - 0.25
    reported = ReportedResponses(tokens, torch.tensor([[0, 1, 1]]), logprobs)
    with LoopWatch(optimizer, connect(), recompute_every=2) as watch:
        for _ in range(2):
            watch.recompute(model, reported, forward=lambda ids, _: model(ids))
            step(optimizer)
    untouched, compared = collector.records
    assert "instrument/logprob_abs" not in untouched.summaries
    assert compared.summaries["instrument/logprob_abs"].value() == pytest.approx(0.25, abs=1e-6)
