import copy
import os
import subprocess
import sys
from datetime import timedelta

import pytest
from torch import distributed
from torch.distributed import HashStore, TCPStore
from torch.testing._internal.distributed.fake_pg import FakeStore

from tests.relays import Relay
from tests.warm import ROOT, selectable
from trainer_hooks.actions import Decision
from trainer_hooks.ranks import process_group
from trainer_hooks.ranks.agreement import make_coordinator
from trainer_hooks.ranks.coordinators import RefusingCoordinator
from trainer_hooks.ranks.participation import Unanimity
from trainer_hooks.ranks.process_group import open_store
from trainer_hooks.wire import AlertNotice

# The interpreter stays at its very end until it may go on.
ENDS_WHILE_A_REQUEST_WAITS = """
import os, sys
from torch.distributed import TCPStore
from trainer_hooks.ranks import process_group

class Last:
    def __del__(self, write=os.write, read=os.read):
        write(1, b"last\\n")
        read(0, 1)

sys.modules["last"] = Last()
process_group.STORE_SECONDS = 0.1
store = process_group.BoundedStore(TCPStore("127.0.0.1", int(sys.argv[1]), is_master=False))
print("connected", flush=True)
sys.stdin.readline()
try:
    store.check(["key"])
except TimeoutError:
    print("late", flush=True)
"""


@pytest.fixture
def relay(monkeypatch):
    """Make a process group of this process alone, whose store is behind a relay, and return the relay."""
    monkeypatch.setattr(process_group, "STORE_SECONDS", 5.0)
    server = TCPStore("127.0.0.1", 0, None, is_master=True, wait_for_workers=False)
    relay = Relay(server.port)
    store = TCPStore("127.0.0.1", relay.port, None, is_master=False, timeout=timedelta(seconds=1))
    distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield relay
    distributed.destroy_process_group()
    relay.end()


def test_a_store_that_stands_still_is_waited_for_once(relay, monkeypatch):
    """Torch would wait for its answer without an end, and training with it; a later request is not even sent."""
    store = open_store("a")
    store.set("key", "value")
    assert (store.get("key"), store.add("sum", 2), store.check(["key"])) == (b"value", 2, True)
    relay.moves.clear()
    monkeypatch.setattr(process_group, "STORE_SECONDS", 0.1)
    for message in ("must answer within 0 s", "is not asked again"):
        with pytest.raises(TimeoutError, match=message):
            store.check(["key"])
    with pytest.raises(TimeoutError):
        open_store("b")


def test_a_store_that_is_gone_is_an_error_of_the_request(relay):
    """The error is the one of torch."""
    store = open_store("a")
    relay.end()
    with pytest.raises(distributed.DistNetworkError):
        store.check(["key"])


def test_ranks_whose_store_is_gone_refuse(relay, monkeypatch):
    """Whoever asks for an agreement then gets a refusal for each action, and no error before the training."""
    monkeypatch.setattr(distributed, "get_world_size", lambda: 2)
    relay.end()
    agreement = make_coordinator(2)
    assert isinstance(agreement, RefusingCoordinator)
    notice = AlertNotice(id="a", kind="k", severity="critical", opened_step=1, summary="s")
    (settled,) = agreement.settle([Decision("stop", notice)], 1)
    assert settled.refusal.startswith("the process group's store cannot be opened: ")


def test_a_probe_whose_store_stands_still_takes_no_part(relay, monkeypatch):
    """It has not registered, and does not do so at a later step, when the other ranks have counted."""
    monkeypatch.setattr(distributed, "get_world_size", lambda: 2)
    probe = Unanimity("scoring")
    relay.moves.clear()
    monkeypatch.setattr(process_group, "STORE_SECONDS", 0.1)
    with pytest.raises(TimeoutError):
        probe.after_step()
    relay.moves.set()
    for _ in range(3):
        probe.after_step()
    assert not probe.is_unanimous


@pytest.mark.usefixtures("relay")
def test_a_copy_of_a_probes_agreement_finds_out_anew(monkeypatch):
    """Trainers copy callbacks, also between the two steps after which the ranks register and count."""
    monkeypatch.setattr(distributed, "get_world_size", lambda: 2)
    first = Unanimity("scoring")
    first.after_step()
    again = copy.deepcopy(first)
    monkeypatch.setattr(distributed, "get_world_size", lambda: 1)
    assert again.is_unanimous
    monkeypatch.setattr(distributed, "get_world_size", lambda: 2)
    for _ in range(2):
        again.after_step()
    assert not again.is_unanimous  # only one of the two ranks registered for the copy


def test_the_timeout_of_the_trainings_own_store_stays_as_it_is():
    """Some stores have it in common with their clones, and training waits in its own store for slow ranks."""
    shared = HashStore()
    shared.set_timeout(timedelta(minutes=7))
    distributed.init_process_group("gloo", store=shared, rank=0, world_size=1)
    try:
        open_store("a").set("key", "value")
        assert shared.timeout == timedelta(minutes=7)
    finally:
        distributed.destroy_process_group()


@pytest.mark.usefixtures("relay")
def test_a_store_of_another_process_group_is_not_asked():
    """The ranks of the group that replaces the first one may be others, who have agreed to nothing."""
    store = open_store("a")
    distributed.destroy_process_group()
    with pytest.raises(RuntimeError, match="has been replaced or destroyed"):
        store.check(["key"])
    distributed.init_process_group("gloo", store=HashStore(), rank=0, world_size=1)
    with pytest.raises(RuntimeError, match="has been replaced or destroyed"):
        store.check(["key"])


def test_a_request_that_a_store_answers_too_late_does_not_abort_a_process_that_ends():
    """A thread that came back from torch's code when the interpreter had ended would abort the process."""
    server = TCPStore("127.0.0.1", 0, None, is_master=True, wait_for_workers=False)
    relay = Relay(server.port)
    with subprocess.Popen(
        [sys.executable, "-c", ENDS_WHILE_A_REQUEST_WAITS, str(relay.port)],
        env=os.environ | {"PYTHONPATH": ROOT},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    ) as process:
        assert process.stdout.readline() == "connected\n"
        relay.moves.clear()
        process.stdin.write("ask\n")
        assert process.stdout.readline() == "late\n"
        selectable(process.stdout.fileno(), 0.5)  # an interpreter that does not wait has come to its very end
        relay.end()
        process.communicate("\n", timeout=60)
    assert process.returncode == 0


@pytest.fixture
def second_of_two():
    """Make a process group in which this process is rank 1, and whose other rank does not exist."""
    distributed.init_process_group("fake", store=FakeStore(), rank=1, world_size=2)
    yield
    distributed.destroy_process_group()


@pytest.mark.usefixtures("second_of_two")
def test_a_rank_that_reports_as_the_only_one_is_told_so(connect, caplog, monkeypatch):
    """`torch.multiprocessing.spawn` sets no RANK, and the shards of all ranks would be launches of rank 0."""
    monkeypatch.setenv("RLVITALS_ATTEMPT", "1")
    connect(rank=1, world_size=2)
    assert "torch.distributed" not in caplog.text
    connect()
    assert "torch.distributed has it as rank 1" in caplog.text
