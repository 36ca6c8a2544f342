"""A file that a setting names is read within a bound, and its defects are named."""

import os
import socket
import tracemalloc
from pathlib import Path

import pytest

from monitor_server.configuration_files.reading import (
    LONGEST_FILE,
    UnusableFileError,
    parse_toml,
    read_bounded,
    read_toml,
)


def test_a_file_is_read_as_toml(tmp_path):
    """Up to the largest size."""
    path = tmp_path / "a.toml"
    path.write_bytes(b"a = 1\n" + b"#" * (LONGEST_FILE - 6))
    assert read_toml(path) == {"a": 1}


def test_a_byte_order_mark_is_no_part_of_the_document(tmp_path):
    """Some editors begin each file with one."""
    path = tmp_path / "a.toml"
    path.write_text("a = -9223372036854775808\n", encoding="utf-8-sig")
    assert read_toml(path) == {"a": -(2**63)}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(b"#" * (LONGEST_FILE + 1), "at most 1 MiB", id="longer"),
        pytest.param(b"a = ", "must be TOML", id="no TOML"),
        pytest.param(b"\xff", "must be TOML", id="no UTF-8"),
        pytest.param(b"a = " + b"9" * 5_000, "must be TOML", id="a number that is too long"),
        pytest.param(b"a = " + b"[" * 5_000, "must be TOML: its arrays and tables must not", id="nested too deeply"),
        pytest.param(
            b"[[a]]\n[[a]]\nb = 0x" + b"f" * 5_000, r"64 bits, got a longer one at a\[1\]\.b", id="hexadecimal"
        ),
        pytest.param(
            b"a = 9223372036854775808", "an integer must have at most 64 bits, got a longer one at a", id="65 bits"
        ),
    ],
)
def test_an_unusable_file_is_named_with_the_reason(content, message, tmp_path):
    """The reason is one line, which a start or a log shows."""
    path = tmp_path / "a.toml"
    path.write_bytes(content)
    with pytest.raises(UnusableFileError, match=message) as raised:
        read_toml(path)
    assert str(path) in str(raised.value)


def test_a_long_name_above_many_numbers_takes_little_memory():
    """Somebody who may check a text could otherwise fill the collector's memory with one of a megabyte."""
    text = f"{'a' * 1_000} = [{'1, ' * 10_000}]"
    tracemalloc.start()
    parse_toml(text)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 5e6


def test_a_missing_file_is_named(tmp_path):
    """A folder likewise."""
    for path in (tmp_path / "missing.toml", tmp_path):
        with pytest.raises(UnusableFileError, match="cannot be read"):
            read_toml(path)


def test_what_is_no_file_is_not_waited_for(tmp_path):
    """The message names a pipe without a writer, a device without an end and a socket by their kind."""
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
        for path, kind in (
            (tmp_path / "pipe", "a named pipe"),
            (tmp_path / "socket", "a socket"),
            (Path("/dev/zero"), "a device"),
        ):
            with pytest.raises(UnusableFileError, match=f"{path} must be a file, got {kind}"):
                read_bounded(path)


def test_a_pipe_of_the_shell_is_read_to_its_end():
    """`<(command)` gives such a pipe."""
    reading, writing = os.pipe()
    with os.fdopen(reading), os.fdopen(writing, "wb") as writer:
        writer.write(b"a = 1\n")
        writer.close()
        assert read_toml(Path(f"/dev/fd/{reading}")) == {"a": 1}


def test_a_pipe_of_the_shell_into_which_nobody_writes_is_named():
    """The command waits for it, but not for ever."""
    reading, writing = os.pipe()
    waited_for = "written and closed by the program at its other end: nothing"
    with os.fdopen(reading), os.fdopen(writing, "wb"), pytest.raises(UnusableFileError, match=waited_for):
        read_bounded(Path(f"/dev/fd/{reading}"), silent_seconds=0.0)


def test_a_pipe_of_the_shell_has_the_bound_of_a_file():
    """An endless writer is not read to its end."""
    reading, writing = os.pipe()
    with os.fdopen(reading), os.fdopen(writing, "wb", buffering=0) as writer:
        writer.write(b"#" * 4_097)
        with pytest.raises(UnusableFileError, match="at most 4,096 bytes, got more"):
            read_bounded(Path(f"/dev/fd/{reading}"), longest=4_096)
