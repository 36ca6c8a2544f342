"""The changes of a rollback, and their sum."""

from trainer_hooks.reference.updates.adjustment import UNADJUSTED


def test_llds_is_turned_on_at_a_tenth_and_doubled_where_it_was_on():
    """0 and 0.01 become 0.1, 0.1 becomes 0.2; a rollback without LLDS leaves its weight to the settings."""
    weights = [UNADJUSTED.after_rollback(lr=1.0, llds=True, weight=weight).lambda_ for weight in (0.0, 0.01, 0.1)]
    assert weights == [0.1, 0.1, 0.2]
    assert UNADJUSTED.after_rollback(lr=1.0, llds=False, weight=0.1).lambda_ is None


def test_rollbacks_are_counted_and_their_factors_multiply():
    """Two at a half: a quarter; LLDS once on stays on."""
    once = UNADJUSTED.after_rollback(lr=0.5, llds=True, weight=0.0)
    twice = once.after_rollback(lr=0.5, llds=False, weight=0.1)
    assert (twice.rollbacks, twice.lr_factor, twice.lambda_) == (2, 0.25, 0.1)


def test_a_fork_with_another_method_drops_the_llds_of_rollbacks():
    """NTHR is tested without a penalty, as its settings say; a fork that changes the rate alone keeps it."""
    once = UNADJUSTED.after_rollback(lr=0.5, llds=True, weight=0.0)
    assert once.after_fork(lr=1.0, settings={"method": "nthr"}).lambda_ is None
    assert once.after_fork(lr=0.5, settings={}).lambda_ == 0.1
