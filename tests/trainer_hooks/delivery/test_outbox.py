from hypothesis import given
from hypothesis import strategies as st

from trainer_hooks.delivery import MemoryOutbox, Packed, Tally


def test_a_full_outbox_loses_the_oldest_and_counts_it():
    """Three records of 4 bytes in 10: the first gives way."""
    tally = Tally()
    outbox = MemoryOutbox(tally, capacity_bytes=10)
    for name in (b"aaaa", b"bbbb", b"cccc"):
        outbox.append(Packed(1, name))
    assert [record.body for record in outbox.head(9, 99)] == [b"bbbb", b"cccc"]
    assert tally["outbox_full"] == tally.lost_records == 1


@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(1, 9)), max_size=30),
    st.integers(1, 5),
    st.integers(1, 20),
)
def test_heads_are_of_one_attempt_and_bounded_and_lose_nothing(records, max_records, max_bytes):
    """Taking heads until it is empty gives every record once, in order, in batches that keep the limits."""
    outbox = MemoryOutbox(Tally())
    given_records = [Packed(attempt, bytes(size)) for attempt, size in records]
    for record in given_records:
        outbox.append(record)
    taken = []
    while outbox:
        head = outbox.head(max_records, max_bytes)
        assert 1 <= len(head) <= max_records
        assert len({record.attempt for record in head}) == 1
        assert len(head) == 1 or sum(len(record.body) for record in head) <= max_bytes
        outbox.discard(len(head))
        taken += head
    assert taken == given_records
