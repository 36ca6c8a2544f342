import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch.distributed import HashStore

from trainer_hooks.actions import Decision
from trainer_hooks.ranks.agreement import (
    PATIENCE_SECONDS,
    PATIENCE_STEPS,
    StoreCoordinator,
    make_coordinator,
)
from trainer_hooks.ranks.coordinators import RefusingCoordinator, SingleProcessCoordinator
from trainer_hooks.wire import ActionRequest, AlertNotice

STEPS = 12


def decision(name="a", action="stop"):
    """Return a decision about an alert."""
    return Decision(action, AlertNotice(id=name, kind="k", severity="critical", opened_step=1, summary="s"))


class Rank:
    """A rank that makes its steps when the test lets it, and receives alerts after some of them."""

    def __init__(self, rank, world_size, store, heard_after, clock):
        self.agreement = StoreCoordinator(store, rank=rank, world_size=world_size, clock=lambda: clock[0])
        self.heard_after = heard_after
        self.step = 0
        self.taken, self.refused = {}, set()

    def end_step(self):
        """End a step: receive alerts, ask for an agreement, and record the outcome."""
        self.step += 1
        new = [decision(name) for name, step in self.heard_after.items() if step == self.step]
        for settled in self.agreement.settle(new, self.step):
            if settled.refusal is None:
                self.taken[settled.decision.alert.id] = self.step
            else:
                self.refused.add(settled.decision.alert.id)


def test_one_collapse_leads_to_one_rollback_although_the_ranks_agree_late():
    """Alert b is open when the loops go back to step 3, c comes at once after that, and a new alert counts."""
    store = HashStore()
    ranks = [StoreCoordinator(store, rank=rank, world_size=2) for rank in range(2)]

    def rollback(name, opened_step):
        return Decision(
            "rollback", AlertNotice(name, kind="k", severity="critical", opened_step=opened_step, summary="s")
        )

    def end_step(step, *new):
        first, second = (
            [(each.decision.alert.id, each.refusal is None) for each in rank.settle(new, step)] for rank in ranks
        )
        assert [name for name, is_due in first if is_due] == [name for name, is_due in second if is_due]
        return dict(first)

    assert [end_step(4, rollback("a", 3)), end_step(5), end_step(6, rollback("b", 3))] == [{}, {}, {"a": True}]
    for rank in ranks:
        rank.go_back(3)
    settled = end_step(3, rollback("c", 3)) | end_step(4)
    assert settled == {"b": False, "c": False}
    assert [end_step(5, rollback("new", 4)), end_step(6), end_step(7)] == [{}, {}, {"new": True}]


@given(data=st.data(), world_size=st.integers(2, 4))
def test_all_ranks_act_after_the_same_step_whichever_alerts_they_receive(data, world_size):
    """All ranks act after the same step, where a rank ends a step only after all have entered it."""
    store, clock = HashStore(), [0.0]
    hearing = st.dictionaries(st.sampled_from("ab"), st.integers(1, STEPS))
    ranks = [Rank(rank, world_size, store, data.draw(hearing), clock) for rank in range(world_size)]
    while any(rank.step < STEPS for rank in ranks):
        slowest = min(rank.step for rank in ranks)
        ready = [rank for rank in ranks if rank.step == slowest and rank.step < STEPS]
        data.draw(st.sampled_from(ready)).end_step()
        clock[0] += data.draw(st.sampled_from([0.0, PATIENCE_SECONDS / 4]))
    first, *others = ranks
    assert all(rank.taken == first.taken for rank in others)
    for name in first.taken:
        assert all(rank.heard_after[name] < first.taken[name] for rank in ranks)


@given(data=st.data(), seconds=st.sampled_from([0.1, 90.0, 600.0]))
def test_ranks_whose_steps_take_minutes_act_all_the_same(data, seconds):
    """Ranks that receive an alert within a step of each other act on it, in whichever order they end their steps."""
    store, clock, world_size = HashStore(), [0.0], data.draw(st.integers(2, 6))
    ranks = [Rank(rank, world_size, store, {"a": data.draw(st.integers(1, 2))}, clock) for rank in range(world_size)]
    for _ in range(STEPS):
        clock[0] += seconds
        for rank in data.draw(st.permutations(ranks)):
            rank.end_step()
    assert ranks[0].taken.keys() == {"a"}
    assert all(rank.taken == ranks[0].taken for rank in ranks)


class FailingStore(HashStore):
    """A store whose connection to one rank fails at some requests, or loses what is written without an error."""

    def __init__(self, shared, fails):
        super().__init__()
        self.shared, self.fails = shared, fails

    def ask(self, request, *arguments):
        """Pass a request on, or fail."""
        fault = next(self.fails, "")
        if fault == "before":
            raise RuntimeError("connection reset")
        if fault == "lost" and request == "set":
            return None
        answer = getattr(self.shared, request)(*arguments)
        if fault == "after":
            raise RuntimeError("connection reset")
        return answer

    def set(self, *arguments):
        """Write a value."""
        return self.ask("set", *arguments)

    def get(self, *arguments):
        """Read a value."""
        return self.ask("get", *arguments)

    def add(self, *arguments):
        """Add to a counter."""
        return self.ask("add", *arguments)

    def check(self, *arguments):
        """Return whether keys exist."""
        return self.ask("check", *arguments)


@given(data=st.data())
def test_a_store_that_fails_makes_no_rank_act_after_another_step(data):
    """Ranks that act on an alert do so after the same step, no error is raised, and every decision is settled."""
    store, clock, world_size = HashStore(), [0.0], data.draw(st.integers(2, 4))
    faults = st.lists(st.sampled_from(["", "", "before", "after"]), max_size=20)
    ranks = [
        Rank(rank, world_size, FailingStore(store, iter(data.draw(faults))), {"a": 1, "b": 2}, clock)
        for rank in range(world_size)
    ]
    for _ in range(3 * STEPS):
        clock[0] += PATIENCE_SECONDS / 4
        for rank in data.draw(st.permutations(ranks)):
            rank.end_step()
    for name in "ab":
        assert len({rank.taken[name] for rank in ranks if name in rank.taken}) <= 1
    assert all(rank.taken.keys() | rank.refused == {"a", "b"} for rank in ranks)


def test_a_rank_that_has_armed_itself_waits_as_long_as_rank_0():
    """Rank 0 counts on it until it gives up itself, however long the rank had waited for the proposal."""
    store, clock = HashStore(), [0.0]
    ranks = [Rank(rank, 3, store, {"a": heard_after}, clock) for rank, heard_after in enumerate((6, 1, 12))]
    for _ in range(14):
        clock[0] += PATIENCE_SECONDS / 6
        for rank in ranks:
            rank.end_step()
    assert [rank.taken for rank in ranks] == [{"a": 14}] * 3


def test_a_store_that_fails_for_one_decision_costs_no_other():
    """The rank that cannot read of the second decision carries out the first one with the other rank."""
    store, clock = HashStore(), [0.0]
    faults = [""] * 3 + ["before"] * 9  # the first three requests of its third step are for the first decision
    first = Rank(0, 2, store, {"a": 1, "b": 2}, clock)
    second = Rank(1, 2, FailingStore(store, iter([""] * 2 + faults)), {"a": 1, "b": 2}, clock)
    for _ in range(4):
        first.end_step()
        second.end_step()
    assert first.taken["a"] == second.taken["a"] == 3


@pytest.mark.parametrize("faults", [["before"], ["after"], [*[""] * 5, "lost"]], ids=["before", "after", "step lost"])
def test_what_rank_0_could_not_write_is_written_again(faults):
    """A single fault costs a step, and not the action: rank 0 acts only after a step that the store has."""
    store, clock = HashStore(), [0.0]
    first = Rank(0, 2, FailingStore(store, iter(faults)), {"a": 1}, clock)
    second = Rank(1, 2, store, {"a": 1}, clock)
    for _ in range(4):
        first.end_step()
        second.end_step()
    assert first.taken == second.taken
    assert first.taken.keys() == {"a"}


@pytest.mark.parametrize(("number", "late"), [(100, 0), (0, 2)])
def test_ranks_that_count_their_steps_otherwise_do_not_act(number, late):
    """A rank that began later, or with another number, would act after another step, so no rank does."""
    store, clock = HashStore(), [0.0]
    ranks = [StoreCoordinator(store, rank=rank, world_size=2, clock=lambda: clock[0]) for rank in range(2)]
    found = []
    for step in range(1, STEPS):
        clock[0] += PATIENCE_SECONDS
        new = [decision()] if step == 1 + late else []
        found += ranks[0].settle(new, step)
        if step > late:
            found += ranks[1].settle(new, step + number)
    assert len(found) == 2
    assert all(settled.refusal for settled in found)


def test_ranks_that_go_back_act_after_the_next_step_all_the_same():
    """A loop that goes back gives numbers to its steps again; what the ranks have agreed on does not wait for them."""
    store, clock = HashStore(), [0.0]
    ranks = [StoreCoordinator(store, rank=rank, world_size=2, clock=lambda: clock[0]) for rank in range(2)]
    taken = []
    for step in (10, 11, 3, 4, 5):
        for rank, agreement in enumerate(ranks):
            taken += [(rank, step) for _ in agreement.settle([decision()] if step == 10 else [], step)]
    assert taken == [(0, 3), (1, 3)]


def test_a_rank_without_a_decision_does_not_read_the_store():
    """A rank without a decision does not use its store, which is missing here."""
    agreement = StoreCoordinator(None, rank=1, world_size=2)
    assert agreement.settle([], 1) == []


def test_ranks_that_receive_an_alert_at_the_same_time_act_two_steps_later():
    """All ranks act after step 3 on an alert that they receive after step 1: step 2 is for the agreement."""
    store, clock = HashStore(), [0.0]
    ranks = [Rank(rank, 2, store, {"a": 1}, clock) for rank in range(2)]
    for _ in range(STEPS):
        for rank in ranks:
            rank.end_step()
    assert [rank.taken for rank in ranks] == [{"a": 3}, {"a": 3}]


def requested(action="stop", *, name="a", expires_at=None):
    """Return a decision that a person has asked for, about the same alert as `decision`."""
    plain = decision(name, action=action)
    request = ActionRequest(id=f"q {name}", action=action, by="anna", alert=plain.alert)
    return Decision(action, plain.alert, request, expires_at)


def test_ranks_agree_on_what_a_person_asks_for_beside_what_a_rule_demands():
    """A request and a rule about one alert are two decisions; each rank takes both after the same step.

    It takes them in the same order: ranks that begin different collectives wait for each other for ever.
    """
    store = HashStore()
    ranks = [StoreCoordinator(store, rank=rank, world_size=2, clock=lambda: 0.0) for rank in range(2)]
    taken = []
    for step in range(1, 6):
        for rank, agreement in enumerate(ranks):
            new = [decision(), requested()][:: 1 - 2 * rank] if step == 1 + rank else []
            taken += [(rank, step, settled.decision.key) for settled in agreement.settle(new, step)]
    first, second = ([(step, key) for by, step, key in taken if by == rank] for rank in (0, 1))
    assert first == second
    assert sorted(key for _, key in first) == ["a/critical/stop", "request q a/stop"]


def test_a_single_process_refuses_what_has_expired():
    """A step may last longer than a request holds."""
    agreement = SingleProcessCoordinator(clock=lambda: 10.0)
    over, holds = requested(expires_at=10.0), requested("checkpoint", expires_at=10.5)
    first, second = agreement.settle([over, holds], 1)
    assert first.refusal.startswith("expired")
    assert second.refusal is None


@given(data=st.data())
def test_no_rank_carries_out_what_had_expired_when_the_step_was_fixed(data):
    """Rank 0's clock counts: all ranks carry it out after the same step, at most one step after its end, or none."""
    store, clock = HashStore(), [0.0]
    ends = {name: data.draw(st.floats(0.0, 40.0)) for name in "ab"}
    ranks = [StoreCoordinator(store, rank=rank, world_size=3, clock=lambda: clock[0]) for rank in range(3)]
    heard = [{name: data.draw(st.integers(1, 4)) for name in ends} for _ in ranks]
    taken, reported, begun = [{} for _ in ranks], [], {}
    for step in range(1, STEPS + 1):
        begun[step] = clock[0]
        clock[0] += data.draw(st.sampled_from([0.0, 5.0, 15.0]))
        for rank in data.draw(st.permutations(range(3))):
            late = 0.0 if rank == 0 else 1e6  # the other ranks' clocks are of no account
            new = [requested(name=name, expires_at=ends[name] + late) for name in ends if heard[rank][name] == step]
            for settled in ranks[rank].settle(new, step):
                name = settled.decision.alert.id
                if settled.refusal is None:
                    taken[rank][name] = step
                if settled.is_reported_here:
                    reported.append((name, rank))
    assert taken[0] == taken[1] == taken[2]
    assert all(begun[step] < ends[name] for name, step in taken[0].items())
    assert sorted(reported) == [(name, 0) for name in "ab"]


def test_what_has_expired_before_it_is_proposed_is_refused_by_rank_0_for_all():
    """The other ranks read the refusal, and do not report it again."""
    store, clock = HashStore(), [0.0]
    ranks = [StoreCoordinator(store, rank=rank, world_size=2, clock=lambda: clock[0]) for rank in range(2)]
    clock[0] = 5.0
    (settled,) = ranks[0].settle([requested(expires_at=4.0)], 1)
    assert settled.refusal.startswith("expired")
    found = [settled for step in (1, 2) for settled in ranks[1].settle([requested(expires_at=9.0)][: 2 - step], step)]
    assert [(settled.refusal, settled.is_reported_here) for settled in found] == [("rank 0 has refused it", False)]


def test_a_stop_and_a_rollback_after_one_step_are_a_stop():
    """A run that ends does not go back, whichever of the two was asked for first."""
    for asked in (["stop", "rollback"], ["rollback", "stop"]):
        settled = SingleProcessCoordinator().settle([requested(action) for action in asked], 1)
        refusals = {each.decision.action: each.refusal for each in settled}
        assert refusals["stop"] is None
        assert "training ends after this step" in refusals["rollback"]
    store = HashStore()
    ranks = [StoreCoordinator(store, rank=rank, world_size=2, clock=lambda: 0.0) for rank in range(2)]
    taken = []
    for step in range(1, 5):
        for rank, agreement in enumerate(ranks):
            new = [requested("rollback"), requested("stop")] if step == 1 else []
            taken += [(rank, each.decision.action, each.refusal is None) for each in agreement.settle(new, step)]
    assert sorted(taken) == [(rank, action, action == "stop") for rank in (0, 1) for action in ("rollback", "stop")]


def test_a_refusal_has_the_number_of_ranks_that_received_the_alert():
    """After a minute rank 0 refuses, and the reason has the number of ranks that received the alert."""
    store, clock = HashStore(), [0.0]
    leader, deaf = (Rank(rank, 2, store, {"a": 1} if rank == 0 else {}, clock) for rank in range(2))
    leader.end_step()
    deaf.end_step()
    clock[0] = PATIENCE_SECONDS + 1
    (settled,) = [settled for step in range(2, 2 + PATIENCE_STEPS) for settled in leader.agreement.settle([], step)]
    assert settled.refusal == "only 1 of 2 ranks received the alert within 60 s and 3 steps"
    assert settled.is_reported_here


def test_a_notification_needs_no_agreement():
    """A notification is not agreed on: each rank logs it, and rank 0 reports it."""
    for rank in range(2):
        (settled,) = StoreCoordinator(None, rank=rank, world_size=2).settle([decision(action="notify")], 1)
        assert (settled.refusal, settled.is_reported_here) == (None, rank == 0)


def test_processes_without_a_process_group_refuse():
    """Several processes without a process group cannot agree, so each action is refused."""
    agreement = make_coordinator(2)
    assert isinstance(agreement, RefusingCoordinator)
    (settled,) = agreement.settle([decision()], 1)
    assert "cannot agree" in settled.refusal
