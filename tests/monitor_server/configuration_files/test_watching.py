"""A changed file is due once it is no longer being written."""

import os

from monitor_server.configuration_files.watching import SETTLED_SECONDS, WatchedFile


def write(path, text):
    """Write a file with a set time of change, which no clock of the file system rounds."""
    before = path.stat().st_mtime_ns if path.exists() else 0
    path.write_text(text)
    os.utime(path, ns=(before + 1, before + 1))


def test_a_file_is_due_after_it_has_been_the_same_for_a_while(tmp_path):
    """Each further change restarts the wait, and a file that was read is not due."""
    now, path = [0.0], tmp_path / "rules.toml"
    write(path, "a = 1")
    watched = WatchedFile(path, monotonic=lambda: now[0])
    now[0] = 10 * SETTLED_SECONDS
    assert not watched.is_due()
    write(path, "a = 2")
    assert not watched.is_due()
    now[0] += SETTLED_SECONDS / 2
    write(path, "a = 3")
    assert not watched.is_due()
    now[0] += SETTLED_SECONDS
    assert watched.is_due()
    watched.mark_read()
    assert not watched.is_due()


def test_a_missing_file_is_due_when_it_is_there_and_again_when_it_is_gone(tmp_path):
    """Not at once, because an editor may remove it before it writes the new one."""
    now, path = [0.0], tmp_path / "rules.toml"
    watched = WatchedFile(path, monotonic=lambda: now[0])
    now[0] += 2 * SETTLED_SECONDS
    assert not watched.is_due()
    write(path, "a = 1")
    assert not watched.is_due()
    now[0] += SETTLED_SECONDS
    assert watched.is_due()
    watched.mark_read()
    path.unlink()
    assert not watched.is_due()
    now[0] += SETTLED_SECONDS
    assert watched.is_due()
    watched.mark_read()
    now[0] += SETTLED_SECONDS
    assert not watched.is_due()
