"""Three collectors on one PostgreSQL database, killed in turn, give the results of one that is left alone."""

from tests.faults.many_collectors import compare

RANKS, STEPS, KILLS = 4, 48, 3


def test_collectors_that_are_killed_in_turn_lose_and_double_nothing(migrated_postgres):
    """Every acknowledged record is there once; steps, phases and alerts equal those of one undisturbed collector."""
    options = {"ranks": RANKS, "steps": STEPS, "seconds": 0.5, "kills": KILLS}
    assert compare(migrated_postgres(), migrated_postgres(), **options) >= KILLS
