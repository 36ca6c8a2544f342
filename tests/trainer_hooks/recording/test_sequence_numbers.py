import itertools

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
