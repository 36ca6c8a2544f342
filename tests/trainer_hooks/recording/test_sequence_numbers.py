import itertools
import os
import subprocess
import sys

import pytest

from trainer_hooks.recording.sequence_numbers import NUMBERS_APART, take_first_number


class Reporter:
    """What has numbers of its own."""


def test_the_numbers_of_a_monitor_that_is_gone_are_not_given_again():
    """The collector has its records, and would take those of the next one for repetitions."""
    first, second = Reporter(), Reporter()
    begins = [take_first_number(each, "rank", 1.5e9) for each in (first, second)]
    del second
    third = Reporter()
    begins.append(take_first_number(third, "rank", 1.5e9 + 1))
    assert all(later - earlier >= NUMBERS_APART for earlier, later in itertools.pairwise(begins))


def test_the_first_monitor_of_a_rank_begins_with_its_time():
    """So the numbers of a later process, and of a later monitor, are higher."""
    for now in (1.6e9, 1.6e9 + 1):
        assert take_first_number(Reporter(), "another rank", now) == int(now * 1e6)


FORKING = """
import os, signal, sys, threading
from trainer_hooks.recording.sequence_numbers import take_first_number
from trainer_hooks.settings import ConnectionSettings

class Reporter:
    pass

def connect():
    ConnectionSettings.resolve(url="http://127.0.0.1:8600", environ={})
    take_first_number(Reporter(), "rank", 1.0)

def connect_for_ever():
    while True:
        connect()

connect()
sys.setswitchinterval(1e-6)
for _ in range(3):
    threading.Thread(target=connect_for_ever, daemon=True).start()
for _ in range(40):
    child = os.fork()
    if not child:
        signal.alarm(10)
        connect()
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        os._exit(1)
os._exit(0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform has no fork")
def test_a_child_that_is_forked_while_other_threads_connect_can_connect():
    """The child has none of the threads, so it would wait for ever for what one of them holds."""
    assert subprocess.run([sys.executable, "-W", "ignore", "-c", FORKING], check=False).returncode == 0


def number_of_child(now):
    """Return the first number of a reporter of a forked process."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.write(writer, str(take_first_number(Reporter(), "forked rank", now)).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        number = int(pipe.read())
    os.waitpid(child, 0)
    return number


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform has no fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded, use of fork:DeprecationWarning")
@pytest.mark.parametrize("jump", [0.0, -3600.0])
def test_processes_that_are_forked_from_one_have_numbers_of_their_own(jump):
    """The collector would take the records of one for repetitions of the other's, even if the clock has gone back."""
    reporters = [Reporter(), Reporter()]
    own = [take_first_number(each, "forked rank", 1.7e9) for each in reporters]
    first, second = (number_of_child(1.7e9 + jump) for _ in range(2))
    assert max(own) + NUMBERS_APART <= first < second < max(own) + 2 * NUMBERS_APART
