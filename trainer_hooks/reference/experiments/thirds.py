"""Pools values of recorded runs by thirds of each run, because a regime changes on its way to a collapse."""

from collections.abc import Iterator, Mapping, Sequence

from trainer_hooks.reference.experiments.measures import collapse_step, series
from trainer_hooks.reference.experiments.run_recording import Row

__all__ = ["THIRDS", "pool_by_third", "rows_by_third"]

THIRDS = ("early", "middle", "late")


def rows_by_third(seeds: Mapping[int, Sequence[Row]]) -> Iterator[tuple[str, Row]]:
    """Yield each row of each run with its third of the way to the run's collapse, or to its end where it has none."""
    for rows in seeds.values():
        end = collapse_step(series(rows, "reward/mean")) or len(rows) + 1
        for at, row in enumerate(rows[: end - 1]):
            yield THIRDS[len(THIRDS) * at // (end - 1)], row


def pool_by_third(seeds: Mapping[int, Sequence[Row]], name: str) -> dict[str, list[float]]:
    """Pool the values of a signal over all seeds, by thirds.

    Args:
        seeds: The rows of each seed's run.
        name: The signal: a number of a step, or a list over its questions. Rows without it are left out.
    """
    pooled: dict[str, list[float]] = {third: [] for third in THIRDS}
    for third, row in rows_by_third(seeds):
        found = row.get(name, [])
        pooled[third] += found if isinstance(found, list) else [found]
    return pooled
