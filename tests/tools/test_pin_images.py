"""The digests of the base images are written where Compose reads them; an engine is played by a script."""

import pytest

from tools.pin_images import PinError, pinned, write_pins

DIGEST = "sha256:" + "a1" * 32


@pytest.fixture
def engine(tmp_path, monkeypatch):
    """Return a function that puts a `docker` on the path which prints the digests that it is given."""

    def put(digests, status=0):
        script = tmp_path / "docker"
        script.write_text(f"#!/bin/sh\n[ \"$1\" = pull ] && exit {status}\necho '{digests}'\n")
        script.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=":")

    return put


def test_an_image_gets_the_digest_of_its_own_repository(engine):
    """The digest is not that of another name under which the same image is known."""
    engine(f'["mirror.example/other@sha256:00","prom/prometheus@{DIGEST}"]')
    assert pinned("prom/prometheus:v2.53.3") == f"prom/prometheus:v2.53.3@{DIGEST}"


@pytest.mark.parametrize(("digests", "status", "says"), [("[]", 0, "has no digest"), ("[]", 1, "pull .* failed")])
def test_an_image_without_a_digest_is_named(engine, digests, status, says):
    """An imported image cannot be pinned, and a local copy of one that cannot be pulled is not used."""
    engine(digests, status)
    with pytest.raises(PinError, match=says):
        pinned("python:3.11-slim")


def test_other_variables_stay(tmp_path):
    """A pin is replaced; other variables of the user are kept."""
    path = tmp_path / ".env"
    path.write_text("RLVITALS_PORT=1\nPYTHON_IMAGE=old\n")
    write_pins({"PYTHON_IMAGE": "new"}, path)
    assert path.read_text() == "RLVITALS_PORT=1\nPYTHON_IMAGE=new\n"
