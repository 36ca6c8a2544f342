"""A file is replaced by a whole one, or not at all."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

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


WRITE = """
import os, sys
from pathlib import Path
from monitor_server.configuration_files.writing import open_for_writing
if os.getuid() == 0:
    os.setuid(65534)
for name in sys.argv[1:]:
    try:
        with open_for_writing(Path(name)) as written:
            written.write(b"new")
    except OSError as error:
        print(error)
"""


def test_a_file_in_a_folder_of_another_user_can_be_written():
    """Whoever may write the file alone has no other choice; the message for a new file names that file."""
    with tempfile.TemporaryDirectory() as folder:
        shared, new = Path(folder, "shared.json"), Path(folder, "new.json")
        shared.touch()
        shared.chmod(0o666)
        Path(folder).chmod(0o555)
        command = [sys.executable, "-c", WRITE, str(shared), str(new)]
        ended = subprocess.run(command, capture_output=True, text=True, check=True)
        Path(folder).chmod(0o755)
        assert ended.stdout == f"[Errno 13] Permission denied: '{new}'\n"
        assert shared.read_text() == "new"
        assert list(Path(folder).iterdir()) == [shared]


@pytest.mark.skipif(os.getuid() != 0, reason="only root may give a file to another user")
def test_a_file_keeps_its_owner(tmp_path):
    """The collector can still read its calibration after root has written it."""
    file = tmp_path / "own.json"
    file.touch()
    os.chown(file, 1234, 1235)
    with open_for_writing(file) as written:
        written.write(b"new")
    assert (file.read_text(), file.stat().st_uid, file.stat().st_gid) == ("new", 1234, 1235)


def test_a_name_may_be_as_long_as_the_file_system_accepts(tmp_path):
    """The file that is written meanwhile has a short name."""
    file = tmp_path / ("a" * 255)
    with open_for_writing(file) as written:
        written.write(b"new")
    assert file.read_text() == "new"
