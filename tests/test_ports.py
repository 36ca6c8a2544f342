import errno
import socket
import struct
from pathlib import Path

import pytest

from tests.ports import reserved_port
from tests.ranks import launch

IP_LOCAL_PORT_RANGE = 51  # Linux 6.3: the ports that the kernel may choose for this socket, the last in the upper half


def choosing(port):
    """Return a socket for which the kernel may choose this port alone."""
    chooser = socket.socket()
    chooser.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        chooser.setsockopt(socket.IPPROTO_IP, IP_LOCAL_PORT_RANGE, struct.pack("=I", port << 16 | port))
    except OSError:
        pytest.skip("Linux 6.3 or newer is needed to say what the kernel may choose")
    return chooser


@pytest.fixture
def listening():
    """The address of a server that listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()


def test_a_reserved_port_is_given_to_no_client_and_no_server_of_any_port(listening):
    """The port is not given away even if it is the only free one and nobody listens on it yet."""
    with reserved_port() as port:
        with choosing(port) as client:
            assert client.connect_ex(listening) == errno.EADDRNOTAVAIL
        with choosing(port) as server, pytest.raises(OSError, match="in use"):
            server.bind(("127.0.0.1", 0))
    with choosing(port) as client:  # a closed socket reserves nothing
        assert client.connect_ex(listening) == 0
        assert client.getsockname()[1] == port


def test_a_process_that_knows_a_reserved_port_listens_on_it_again_and_again():
    """No process answers before, and none between one life of a server and the next."""
    with reserved_port() as port:
        for _ in range(3):
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", port))
            with socket.create_server(("127.0.0.1", port)), socket.create_connection(("127.0.0.1", port)):
                pass


def test_the_port_at_which_ranks_meet_is_theirs_alone(tmp_path: Path):
    """It is reserved until they have ended: a rank binds it seconds after its launch, when its imports are done."""
    script = tmp_path / "rank.py"
    script.write_text("""
import os, socket
port = int(os.environ["MASTER_PORT"])
try:
    socket.socket().bind(("127.0.0.1", port))
except OSError:
    socket.create_server(("127.0.0.1", port)).close()
else:
    raise SystemExit("anybody might have had it")
""")
    launch(script, world_size=1)
