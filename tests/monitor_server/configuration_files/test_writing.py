"""A file is replaced by a whole one, or not at all."""

import pytest

from monitor_server.configuration_files.writing import open_for_writing


def test_a_file_that_cannot_be_written_to_its_end_stays_as_it_was(tmp_path):
    """A full disk does not destroy the calibration that a collector uses, and leaves no half of the new one."""
    file = tmp_path / "own.json"
    file.write_text("old")
    file.chmod(0o600)
    with pytest.raises(TypeError), open_for_writing(file) as written:
        written.writelines([b"ne", None])
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("own.json", "old")]
    with open_for_writing(file) as written:
        written.write(b"new")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("own.json", "new")]
    assert file.stat().st_mode & 0o777 == 0o600
