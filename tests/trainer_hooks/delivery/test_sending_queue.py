import errno
import shutil
import stat
import sys
import threading
from pathlib import Path

import pytest

from tests.privileges import without_privileges
from trainer_hooks.delivery import DropCounter, SendingQueue, Spool
from trainer_hooks.delivery.spool.folder import BLOCK_BYTES, SpoolFolder


def spool(folder, name="1", capacity_bytes=1 << 30):
    """A spool in a run's folder."""
    return Spool(folder / "run", name=name, capacity_bytes=capacity_bytes)


def drained(queue):
    """Remove and return all batches, the oldest first."""
    bodies = []
    while (batch := queue.peek()) is not None:
        bodies.append(batch.read())
        assert queue.remove(batch)
    return bodies


def files(folder):
    """Return the files of all batches on disk."""
    return sorted(path.name for path in folder.rglob("*.msgpack"))


def test_full_memory_drops_the_oldest_batch_and_counts_its_records():
    """Three batches of 4 bytes do not fit into 10: the first, of 2 records, is dropped."""
    drops = DropCounter()
    queue = SendingQueue(drops, memory_bytes=10)
    for body, records in ((b"aaaa", 2), (b"bbbb", 1), (b"cccc", 1)):
        queue.append(body, records)
    assert queue.records_in_memory == 2
    assert drained(queue) == [b"bbbb", b"cccc"]
    assert drops["outbox_full"] == drops.dropped_records == 2


def test_a_full_spool_drops_the_oldest_batch(tmp_path):
    """A batch takes at least one block: three do not fit into two blocks, and the first is deleted."""
    drops = DropCounter()
    queue = SendingQueue(drops, spool=spool(tmp_path, capacity_bytes=2 * BLOCK_BYTES))
    for body in (b"a", b"b", b"c"):
        queue.append(body, 1)
    assert queue.spool_bytes == 2 * BLOCK_BYTES
    assert len(files(tmp_path)) == 2
    assert drained(queue) == [b"b", b"c"]
    assert drops.dropped_records == 1


def test_a_batch_that_cannot_be_written_waits_in_memory_in_its_place_until_the_disk_takes_it(tmp_path):
    """The middle one of three cannot be written, because a file is in the place of the folder; it is counted once."""
    drops = DropCounter()
    queue = SendingQueue(drops, spool=spool(tmp_path))
    queue.append(b"a", 1)
    (own,) = (tmp_path / "run").glob("*/")
    own.rename(tmp_path / "away")
    own.write_text("in the way")
    queue.append(b"b", 3)
    assert (queue.records_on_disk, queue.records_in_memory) == (1, 3)
    own.unlink()
    (tmp_path / "away").rename(own)
    queue.append(b"c", 1)
    assert (queue.records_on_disk, queue.records_in_memory) == (5, 0)
    assert [path.read_bytes() for path in sorted(own.iterdir())] == [b"a", b"b", b"c"]
    assert (drops["unspooled"], drops.dropped_records) == (3, 0)
    assert drained(queue) == [b"a", b"b", b"c"]


def refuse(*_):
    """Refuse a batch, as a disk that is full."""
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_large_batch_that_the_disk_does_not_take_keeps_no_other_from_it(tmp_path, monkeypatch):
    """A disk that is nearly full takes the small batches that come after a large one."""
    write = Spool.write
    monkeypatch.setattr(
        Spool, "write", lambda self, body, records: (write if len(body) < 9 else refuse)(self, body, records)
    )
    queue = SendingQueue(DropCounter(), spool=spool(tmp_path))
    for body in (b"a" * 9, b"b", b"c"):
        queue.append(body, 1)
    assert (queue.records_on_disk, queue.records_in_memory) == (2, 1)
    assert [body[:1] for body in drained(queue)] == [b"a", b"b", b"c"]


def test_what_the_disk_has_no_room_for_stays_in_memory(tmp_path, monkeypatch):
    """A disk that works again takes one of two batches, and the room that the spool may take is then used up."""
    drops = DropCounter()
    queue = SendingQueue(drops, spool=spool(tmp_path, capacity_bytes=2 * BLOCK_BYTES))
    with monkeypatch.context() as full:
        full.setattr(Spool, "write", refuse)
        for body in (b"a", b"b" * BLOCK_BYTES * 2):
            queue.append(body, 1)
    queue.append(b"c", 1)
    assert (queue.records_on_disk, queue.records_in_memory) == (2, 1)
    assert len(files(tmp_path)) == 2
    assert [body[:1] for body in drained(queue)] == [b"a", b"b", b"c"]
    assert drops.dropped_records == 0


def test_batches_are_dropped_from_disk_while_another_thread_removes_batches_from_memory(tmp_path, monkeypatch):
    """The disk holds one batch, and many wait in memory before it: each append drops one batch on disk only."""
    drops = DropCounter()
    queue = SendingQueue(drops, spool=spool(tmp_path, capacity_bytes=BLOCK_BYTES))
    with monkeypatch.context() as full:
        full.setattr(Spool, "write", refuse)
        for _ in range(20_000):
            queue.append(b"a", 1)
    unspooled = drops["unspooled"]
    done = threading.Event()

    def take():
        while not done.is_set():
            queue.remove(queue.peek())

    taker = threading.Thread(target=take)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        taker.start()
        for _ in range(50):
            queue.append(b"b", 1)
    finally:
        sys.setswitchinterval(interval)
        done.set()
        taker.join()
    assert queue.records_on_disk <= 1
    assert drops["unspooled"] == unspooled


def test_a_folder_that_was_removed_is_made_anew(tmp_path):
    """Its batches are lost, and each later batch is on disk under a new path."""
    drops = DropCounter()
    queue = SendingQueue(drops, spool=spool(tmp_path))
    queue.append(b"a", 1)
    shutil.rmtree(tmp_path)
    queue.append(b"b", 1)
    shutil.rmtree(next((tmp_path / "run").glob("*/")))  # its lock stays
    queue.append(b"c", 1)
    assert (queue.records_in_memory, drops["unspooled"]) == (0, 0)
    assert [batch.path.exists() for batch in queue.batches] == [False, False, True]
    for _ in range(2):
        queue.remove(queue.peek())
    assert drained(queue) == [b"c"]


def test_without_a_spool_batches_wait_in_memory(tmp_path):
    """A file is in the place of the spool: opening raises nothing, and batches stay in memory."""
    (tmp_path / "run").write_text("in the way")
    queue = SendingQueue(DropCounter(), spool=spool(tmp_path))
    queue.open()
    queue.append(b"a", 1)
    assert drained(queue) == [b"a"]
    queue.close()


def test_the_next_process_takes_over_what_a_dead_one_has_left(tmp_path):
    """They are sent oldest first, before its own; after that the disk is empty."""
    for name in ("1", "2"):
        dead = SendingQueue(DropCounter(), spool=spool(tmp_path, name))
        dead.append(f"{name}a".encode(), 1)
        dead.append(f"{name}b".encode(), 1)
        dead.close()  # lets go of the lock, as the kernel does
    queue = SendingQueue(DropCounter(), spool=spool(tmp_path, "3"))
    queue.open()
    queue.append(b"3a", 1)
    assert queue.records_on_disk == 5
    assert drained(queue) == [b"1a", b"1b", b"2a", b"2b", b"3a"]
    queue.close()
    assert list(tmp_path.iterdir()) == []


def test_a_dead_folder_that_cannot_be_claimed_keeps_none_of_the_others(tmp_path, caplog):
    """The middle one of three cannot be locked, as another user's could not; here a folder is in the lock's place."""
    for name in ("1", "2", "3"):
        dead = SendingQueue(DropCounter(), spool=spool(tmp_path, name))
        dead.append(name.encode(), 1)
        dead.close()
    (lock,) = (tmp_path / "run").glob("2-*.lock")
    lock.unlink()
    lock.mkdir()
    queue = SendingQueue(DropCounter(), spool=spool(tmp_path, "4"))
    queue.open()
    assert drained(queue) == [b"1", b"3"]
    assert "the spool cannot be read" in caplog.text


def test_a_run_folder_that_cannot_be_read_is_named(tmp_path, monkeypatch, caplog):
    """What dead processes have left there is not sent yet, and nothing else would tell."""
    tmp_path.chmod(0o755)
    monkeypatch.chdir(tmp_path)  # its parents need not be readable then
    Path("run").mkdir(mode=0)
    with without_privileges():
        SendingQueue(DropCounter(), spool=spool(Path())).open()
    assert "the spool cannot be read, and batches that it may hold are not sent yet" in caplog.text
    assert "Permission denied" in caplog.text


def test_many_dead_folders_are_claimed_a_few_at_a_time(tmp_path, monkeypatch):
    """Each claimed folder takes a descriptor from the training, and a launch of a thousand ranks leaves a thousand."""
    monkeypatch.setattr("trainer_hooks.delivery.spool.spool.MOST_CLAIMED", 2)
    for name in "1234567":
        dead = SendingQueue(DropCounter(), spool=spool(tmp_path, name))
        dead.append(name.encode(), 1)
        dead.close()
    for path in (tmp_path / "run").glob("[345]-*/*.msgpack"):
        path.unlink()  # folders without a batch count as well
    queue = SendingQueue(DropCounter(), spool=spool(tmp_path, "8"))
    queue.open()
    assert len(queue.batches) == 2
    queue.append(b"8", 1)
    assert drained(queue) == [b"1", b"2", b"8", b"6", b"7"]
    queue.close()
    assert list((tmp_path / "run").glob("[1267]*")) == []


def test_more_than_the_spool_may_hold_is_taken_over_in_parts_and_nothing_is_dropped(tmp_path):
    """Each of four dead ranks had room of its own; one process claims as many of their folders as it has room for."""
    for name in "1234":
        dead = SendingQueue(DropCounter(), spool=spool(tmp_path, name, capacity_bytes=2 * BLOCK_BYTES))
        dead.append(f"{name}a".encode(), 1)
        dead.append(f"{name}b".encode(), 1)
        dead.close()
    drops = DropCounter()
    queue = SendingQueue(drops, spool=spool(tmp_path, "5", capacity_bytes=5 * BLOCK_BYTES))
    queue.open()
    assert queue.spool_bytes == 4 * BLOCK_BYTES
    assert drained(queue) == [b"1a", b"1b", b"2a", b"2b", b"3a", b"3b", b"4a", b"4b"]
    assert drops.dropped_records == 0
    queue.close()
    assert list(tmp_path.iterdir()) == []


def test_a_dead_folder_with_more_than_the_spool_may_hold_is_taken_over_all_the_same(tmp_path):
    """The limit was lowered since: the oldest batches are dropped and counted, and the newest is sent."""
    dead = SendingQueue(DropCounter(), spool=spool(tmp_path, "1"))
    for body in (b"a", b"b"):
        dead.append(body, 1)
    dead.close()
    drops = DropCounter()
    queue = SendingQueue(drops, spool=spool(tmp_path, "2", capacity_bytes=BLOCK_BYTES))
    queue.open()
    assert drained(queue) == [b"b"]
    assert drops["outbox_full"] == 1


def test_processes_that_start_and_end_at_once_get_a_folder_each(tmp_path):
    """Each makes the run's folder and removes it when it is empty, between two operations of another process."""
    failed = []

    def start_and_end(name):
        try:
            for _ in range(300):
                SpoolFolder.create(tmp_path / "run", name).release()
        except OSError as error:
            failed.append(error)

    threads = [threading.Thread(target=start_and_end, args=(str(name),)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []


def test_the_folder_of_a_living_process_cannot_be_claimed(tmp_path):
    """It is locked, so a second process of the same run finds nothing to claim."""
    first, second = (SendingQueue(DropCounter(), spool=spool(tmp_path, name)) for name in ("1", "2"))
    first.append(b"a", 1)
    second.open()
    assert second.peek() is None
    assert drained(first) == [b"a"]


def test_a_claim_is_exclusive(tmp_path):
    """Of two processes that claim a dead process's folder, one gets it."""
    SpoolFolder.create(tmp_path, "1").close_lock()
    first, second = SpoolFolder.claim(tmp_path / "1"), SpoolFolder.claim(tmp_path / "1")
    assert first is not None
    assert second is None
    first.release()


def test_a_folder_that_cannot_be_made_leaves_no_lock(tmp_path):
    """On a full disk a new name needs no space and a folder does; there is an attempt for each batch."""
    (tmp_path / "1").touch()
    with pytest.raises(FileExistsError):
        SpoolFolder.create(tmp_path, "1")
    assert [path.name for path in tmp_path.iterdir()] == ["1"]


def test_a_platform_without_file_locks_leaves_no_files(tmp_path, monkeypatch):
    """There each batch would leave a lock file; the batches of others are not touched."""
    left = SpoolFolder.create(tmp_path, "1-1-0123abcd")
    left.close_lock()
    (tmp_path / "1-1-0123abcd.lock").unlink()
    monkeypatch.setitem(sys.modules, "fcntl", None)
    with pytest.raises(ImportError):
        SpoolFolder.create(tmp_path, "2")
    with pytest.raises(ImportError):
        SpoolFolder.claim(tmp_path / "1-1-0123abcd")
    assert [path.name for path in tmp_path.iterdir()] == ["1-1-0123abcd"]


def test_unfinished_and_foreign_files_are_not_batches(tmp_path):
    """An unfinished file is removed with the folder; foreign files stay."""
    folder = SpoolFolder.create(tmp_path, "1")
    folder.write(b"whole", 1)
    (tmp_path / "1" / "0000000001-1.tmp").write_bytes(b"ha")
    (tmp_path / "1" / "notes.msgpack").write_bytes(b"mine")
    (tmp_path / "1" / "notes.tmp").write_bytes(b"mine")
    assert [batch.read() for batch in folder.batches()] == [b"whole"]
    folder.release()
    assert files(tmp_path) == ["0000000000-1.msgpack", "notes.msgpack"]
    assert [path.name for path in tmp_path.rglob("*.tmp")] == ["notes.tmp"]


def test_a_batch_that_somebody_deleted_is_removed_once(tmp_path):
    """Reading it raises, and only the first removal returns True."""
    queue = SendingQueue(DropCounter(), spool=spool(tmp_path))
    queue.append(b"a", 1)
    batch = queue.peek()
    next(tmp_path.rglob("*.msgpack")).unlink()
    with pytest.raises(FileNotFoundError):
        batch.read()
    assert queue.remove(batch)
    assert not queue.remove(batch)


def test_a_disk_that_is_not_mounted_for_a_while_has_lost_nothing(tmp_path):
    """Its batches are not deleted ones, and none is written where it would be hidden when the disk is back."""
    mount, disk = tmp_path / "mount", tmp_path / "disk"
    disk.mkdir()
    mount.symlink_to(disk)
    queue = SendingQueue(DropCounter(), spool=spool(mount))
    queue.append(b"a", 1)
    mount.unlink()
    mount.symlink_to("/dev")  # another disk
    with pytest.raises(OSError, match="its disk is not mounted"):
        queue.peek().read()
    queue.append(b"b", 1)
    assert queue.records_in_memory == 1
    mount.unlink()
    mount.symlink_to(disk)
    queue.append(b"c", 1)
    assert len(files(disk)) == 3
    assert drained(queue) == [b"a", b"b", b"c"]


def test_only_the_user_can_look_into_the_spool(tmp_path):
    """Folders have the mode 0700."""
    SendingQueue(DropCounter(), spool=spool(tmp_path)).append(b"a", 1)
    assert stat.S_IMODE((tmp_path / "run").stat().st_mode) == 0o700
