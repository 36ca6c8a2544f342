import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from tests.patience import PATIENCE_SECONDS
from tests.privileges import without_privileges
from trainer_hooks.delivery import Spool
from trainer_hooks.delivery.spool import SpoolFolder
from trainer_hooks.errors import RefusedError, UnavailableError
from trainer_hooks.sync import BUSY_SECONDS, PatientTransport, main, sync
from trainer_hooks.wire import Batch, Receipt, Rejection, decode_batch, encode


@pytest.fixture
def left(tmp_path):
    """Make a dead process's folder with two batches of two records."""
    spool = Spool(tmp_path / "run", name="1", capacity_bytes=1 << 20)
    for body in (b"first", b"second"):
        spool.write(body, 2)
    spool.close()
    return tmp_path


class Answers:
    """A transport that returns or raises these answers in turn, and keeps its requests."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.bodies = []

    def send(self, body):
        """Return the next answer."""
        self.bodies.append(body)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def on_disk(folder):
    """Count the batches on disk."""
    return len(list(folder.rglob("*.msgpack")))


def test_a_refused_batch_stays_on_disk_and_does_not_block_the_next(left):
    """A refused batch stays on disk, because a newer collector may accept it, and the next batch is sent."""
    transport = Answers(RefusedError("too new"), Receipt(run_id="r", accepted=2))
    synced = sync(left, transport)
    assert (synced.sent, synced.refused, synced.in_use) == (2, 2, 0)
    assert transport.bodies == [b"first", b"second"]
    assert on_disk(left) == 1
    assert sync(left, Answers(Receipt(run_id="r", accepted=2))).sent == 2
    assert list(left.iterdir()) == []


def test_a_folder_that_cannot_be_read_does_not_block_the_next(left, capsys):
    """The first folder cannot be locked, as another user's could not; here a folder is in the lock's place."""
    first = left / "run" / "0-0-00000000"
    first.with_suffix(".lock").mkdir()
    first.mkdir()
    (first / "0000000000-1.msgpack").write_bytes(b"waits")
    synced = sync(left, Answers(*[Receipt(run_id="r", accepted=2)] * 2))
    assert (synced.sent, synced.unreadable) == (4, 1)
    assert f"{first} cannot be read and stays on disk" in capsys.readouterr().err
    assert on_disk(left) == 1


@pytest.mark.parametrize("make", [Path.mkdir, lambda path: path.symlink_to(os.devnull)], ids=["folder", "device"])
def test_a_batch_that_cannot_be_read_does_not_block_those_after_it(left, capsys, make):
    """A folder, or a link to a device, has the name of a batch; it stays, and so does the folder of the process.

    The read of other devices, and of pipes, would never end.
    """
    (ours,) = (left / "run").glob("*/")
    unreadable = ours / "0000000000-1.msgpack"
    make(unreadable)
    synced = sync(left, Answers(*[Receipt(run_id="r", accepted=2)] * 2))
    assert (synced.sent, synced.unreadable) == (4, 1)
    assert f"{unreadable} cannot be read and stays on disk" in capsys.readouterr().err
    assert list(ours.iterdir()) == [unreadable]


def test_the_folder_of_another_user_is_named(left, capsys):
    """Nothing in it can be read, so that it is not known whether it holds batches."""
    theirs = left / "run"
    theirs.chmod(0)
    try:
        with without_privileges():
            synced = sync(theirs, Answers())
    finally:
        theirs.chmod(0o700)
    assert (synced.sent, synced.unreadable) == (0, 1)
    assert f"{theirs} cannot be read and stays on disk" in capsys.readouterr().err
    assert on_disk(left) == 2


def test_a_spool_may_be_a_disk_of_its_own(capsys):
    """Only root can read the folder of recovered files of a disk, and no batch is in it."""
    with tempfile.TemporaryDirectory() as disk:  # another user may enter its parents
        Path(disk).chmod(0o755)
        (Path(disk) / "lost+found").mkdir(0)
        with without_privileges():
            synced = sync(Path(disk), Answers())
    assert (synced.unreadable, capsys.readouterr().err) == (0, "")


def test_a_configuration_that_is_refused_costs_itself_alone(left, capsys):
    """The first batch of an offline run has the configuration, which may be too large, and is sent again without it."""
    (ours,) = (left / "run").glob("*/")
    batch = Batch(schema_version=1, run="r", attempt=1, rank=0, world_size=1, config={"files": ["x"]}, records=[])
    (ours / "0000000000-2.msgpack").write_bytes(encode(batch))
    accepted = Receipt(run_id="r", accepted=2)
    transport = Answers(RefusedError("config must have at most 9 bytes"), accepted, accepted)
    synced = sync(left, transport)
    assert (synced.sent, synced.refused) == (4, 0)
    assert decode_batch(transport.bodies[1]).config == {}
    assert capsys.readouterr().err.count("config must have at most 9 bytes") == 1
    assert on_disk(left) == 0


def test_a_refused_record_is_printed_and_removed_with_its_batch(left, capsys):
    """A refused record is printed, and its batch is removed, because the other records are stored."""
    rejected = Receipt(run_id="r", accepted=1, rejected=[Rejection(index=0, error="E", detail="step must be ≥ 0")])
    synced = sync(left, Answers(rejected, Receipt(run_id="r", accepted=2)))
    assert (synced.sent, synced.refused) == (3, 1)
    assert "step must be ≥ 0" in capsys.readouterr().err
    assert on_disk(left) == 0


def test_trainers_that_end_meanwhile_do_not_keep_others_from_being_sent(left):
    """Each removes its folder and that of its run, which may just have been found."""
    is_over = threading.Event()

    def come_and_go():
        while not is_over.is_set():
            for number in range(20):
                SpoolFolder.create(left / f"other {number}", "1-1-00000000").release()

    thread = threading.Thread(target=come_and_go)
    thread.start()
    try:
        errors = []
        found = [SpoolFolder.find(left, errors.append) for _ in range(300)]
    finally:
        is_over.set()
        thread.join()
    assert [len(each) for each in found] == [1] * 300
    assert errors == []


def test_foreign_files_are_neither_sent_nor_removed_nor_locked(left):
    """Only folders and files with the spool's names are touched, also where a folder too high up is given."""
    (ours,) = (left / "run").glob("*/")
    foreign = [left / "dataset" / name for name in ("2024-01.msgpack", "0000000000-1.msgpack", "checkpoint.tmp")]
    foreign += [ours / "2024-01.msgpack", ours / "precious.tmp"]
    (left / "dataset").mkdir()
    for path in foreign:
        path.write_bytes(b"precious")
    assert sync(left, Answers(*[Receipt(run_id="r", accepted=2)] * 2)).sent == 4
    assert sorted(path for path in left.rglob("*") if path.is_file() and path.suffix != ".lock") == sorted(foreign)
    assert [path.name for path in left.rglob("*.lock")] == [f"{ours.name}.lock"]


def test_a_folder_of_a_process_can_be_sent_from_within(left, monkeypatch):
    """The folder of one process may be given by a relative path."""
    monkeypatch.chdir(next((left / "run").glob("*/")))
    assert sync(Path(), Answers(*[Receipt(run_id="r", accepted=2)] * 2)).sent == 4


def test_a_wrong_key_deletes_nothing(left, collector, capsys):
    """After an answer of 401 the batches are still on disk for another attempt."""
    collector.answers = [(401, b'{"error": "NotAllowed"}', {})]
    assert main([str(left), "--url", collector.url]) == 1
    assert "answered 401" in capsys.readouterr().err
    assert on_disk(left) == 2


def test_a_busy_collector_is_asked_again_after_the_time_that_it_states(left, collector, capsys):
    """A spool of a thousand batches passes a limit of requests; both statuses of a busy collector are obeyed."""
    busy, stored = {"Retry-After": "1"}, (200, encode(Receipt(run_id="r", accepted=2)), {})
    collector.answers = [(429, b"{}", busy), stored, (503, b"{}", busy), stored]
    assert main([str(left), "--url", collector.url]) == 0
    assert "the collector asks to wait" in capsys.readouterr().err
    assert on_disk(left) == 0


def test_a_collector_that_is_busy_for_too_long_leaves_the_batches_on_disk(left):
    """Each batch waits for two minutes at most; a longer time is not waited for at all."""
    waits = []
    transport = PatientTransport(Answers(*[UnavailableError("busy", retry_after_seconds=50)] * 3), sleep=waits.append)
    with pytest.raises(UnavailableError):
        sync(left, transport)
    transport = PatientTransport(Answers(UnavailableError("busy", retry_after_seconds=BUSY_SECONDS + 1)), waits.append)
    with pytest.raises(UnavailableError):
        sync(left, transport)
    assert waits == [50, 50]
    assert on_disk(left) == 2


@pytest.mark.parametrize("command", [["trainer_hooks.sync"], ["monitor_server", "sync"]])
def test_ctrl_c_ends_a_sync_and_leaves_the_rest_on_disk(left, command):
    """A collector that accepts the connection and never answers is not waited for, and one line says what is left."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(PATIENCE_SECONDS)
        asked = [*command, str(left), "--url", f"http://127.0.0.1:{listening.getsockname()[1]}"]
        process = subprocess.Popen(
            [sys.executable, "-m", *asked], stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        with process, listening.accept()[0] as connection:
            connection.recv(1)
            os.killpg(process.pid, signal.SIGINT)
            _, said = process.communicate(timeout=PATIENCE_SECONDS)
    assert said == "rlvitals: interrupted; records that were not sent are still on disk\n"
    assert process.returncode == 130
    assert on_disk(left) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere", "--url", "http://127.0.0.1:9"], "FOLDER must be an existing folder, got nowhere"),
        (["."], "the address of the collector is missing; give --url or set RLVITALS_URL"),
        ([".", "--url", "127.0.0.1:9"], "url must look like http://host:8600, got '127.0.0.1:9'"),
        ([".", "--url", f"http://{'ü' * 80}.example"], "url must look like http://host:8600, got 'http://ü"),
    ],
)
def test_a_missing_folder_or_address_is_reported(arguments, message, capsys):
    """The error's message is one line, after the usage of the command that people type."""
    with pytest.raises(SystemExit):
        main(arguments)
    printed = capsys.readouterr().err
    assert f"rlvitals sync: error: {message}" in printed


def test_without_a_folder_the_message_names_the_place_where_trainers_leave_records(monkeypatch, tmp_path, capsys):
    """The user has given no folder, so that the message must not say that it does not exist."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("RLVITALS_SPOOL_DIR", raising=False)
    with pytest.raises(SystemExit):
        main([])
    assert (
        f"there is no spool at {tmp_path}/rlvitals/spool, so no trainer has left records there"
        in capsys.readouterr().err
    )
