"""One thread at a time asks a database that does not answer."""

import threading

import pytest

from monitor_server.errors import Unavailable
from monitor_server.store.postgresql.unresponsive_server import PAUSE_SECONDS, UnresponsiveServer
from tests.live import PATIENCE_SECONDS


class Server:
    """Answers when a test lets it."""

    def __init__(self):
        self.now = 0.0
        self.asked = 0
        self.answers = False
        self.is_asked = threading.Event()
        self.may_end = threading.Event()
        self.may_end.set()
        self.silence = UnresponsiveServer(self._ask, monotonic=lambda: self.now)

    def _ask(self):
        self.asked += 1
        self.is_asked.set()
        assert self.may_end.wait(PATIENCE_SECONDS)
        if self.answers:
            self.silence.end()
        else:
            self.silence.begin()


def test_a_server_that_answers_is_not_asked():
    """Nothing is added to a read or a write."""
    server = Server()
    server.silence.check()
    assert server.asked == 0


def test_a_silent_server_is_asked_after_a_pause_until_it_answers():
    """Work that is tried again at once is refused at once."""
    server = Server()
    server.silence.begin()
    for seconds, asked in ((0.0, 0), (PAUSE_SECONDS, 1), (0.0, 1), (PAUSE_SECONDS, 2)):
        server.now += seconds
        with pytest.raises(Unavailable, match="does not answer"):
            server.silence.check()
        assert server.asked == asked
    server.answers = True
    server.now += PAUSE_SECONDS
    for _ in range(2):
        server.silence.check()
    assert server.asked == 3


def test_while_one_thread_asks_the_others_are_refused_at_once():
    """They would fill the pool of connections, and each would leave a connection to the server."""
    server = Server()
    server.may_end.clear()
    server.answers = True
    server.silence.begin()
    server.now += PAUSE_SECONDS
    asking = threading.Thread(target=server.silence.check)
    asking.start()
    assert server.is_asked.wait(PATIENCE_SECONDS)
    with pytest.raises(Unavailable, match="does not answer"):
        server.silence.check()
    server.may_end.set()
    asking.join()
    server.silence.check()
    assert server.asked == 1
