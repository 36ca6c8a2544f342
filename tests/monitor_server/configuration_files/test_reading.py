"""A file that a setting names is read within a bound, and what is wrong with it is named."""

import pytest

from monitor_server.configuration_files.reading import LONGEST_FILE, UnusableFileError, read_toml


def test_a_file_is_read_as_toml(tmp_path):
    """Up to the largest size."""
    path = tmp_path / "a.toml"
    path.write_bytes(b"a = 1\n" + b"#" * (LONGEST_FILE - 6))
    assert read_toml(path) == {"a": 1}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(b"#" * (LONGEST_FILE + 1), "at most 1 MiB", id="longer"),
        pytest.param(b"a = ", "must be TOML", id="no TOML"),
        pytest.param(b"\xff", "must be TOML", id="no UTF-8"),
        pytest.param(b"a = " + b"9" * 5_000, "must be TOML", id="a number that is too long"),
        pytest.param(b"a = " + b"[" * 5_000, "must be TOML", id="nested too deeply"),
    ],
)
def test_an_unusable_file_is_named_with_the_reason(content, message, tmp_path):
    """One line, which a start or a log shows."""
    path = tmp_path / "a.toml"
    path.write_bytes(content)
    with pytest.raises(UnusableFileError, match=message) as raised:
        read_toml(path)
    assert str(path) in str(raised.value)


def test_a_missing_file_is_named(tmp_path):
    """A folder likewise."""
    for path in (tmp_path / "missing.toml", tmp_path):
        with pytest.raises(UnusableFileError, match="cannot be read"):
            read_toml(path)
