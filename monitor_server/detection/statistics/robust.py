"""Robust estimates over a short list of values: median, line, noise, long-run factor. Pure functions."""

import math
from collections.abc import Sequence
from operator import mul, sub

__all__ = ["MAD_TO_SIGMA", "line", "long_run_factor", "median", "median_distance", "noise_scale", "sorted_median"]

MAD_TO_SIGMA = 1.4826  # the factor of a normal distribution
ROOT_OF_TWO = math.sqrt(2.0)
PLACES = tuple(map(float, range(128)))  # multiplying by a float is cheaper than by an integer
LEAST_FOR_CORRELATION = 8  # fewer values carry no information about a correlation
LARGEST_CORRELATION = 0.75  # beyond it the factor grows without bound


def median(values: Sequence[float]) -> float:
    """Return the median of at least one value.

    >>> median([3.0, 1.0, 2.0, 10.0])
    2.5
    """
    return sorted_median(sorted(values))


def sorted_median(ordered: Sequence[float]) -> float:
    """Return the median of at least one value, given in ascending order."""
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def median_distance(ordered: Sequence[float], centre: float) -> float:
    """Return the median of |x - centre| over at least one value, given in ascending order.

    The half of the values nearest to the centre are neighbours, so a binary search finds them. This is several times
    faster than sorting the distances.

    >>> median_distance([1.0, 2.0, 4.0, 9.0], 3.0)
    1.5
    """
    near = len(ordered) // 2 + 1  # values; the median is the largest of their distances, or the mean of the two largest
    first, last = 0, len(ordered) - near
    while first < last:
        middle = (first + last) // 2
        if centre - ordered[middle] > ordered[middle + near] - centre:
            first = middle + 1
        else:
            last = middle
    below, above = centre - ordered[first], ordered[first + near - 1] - centre
    if len(ordered) % 2:
        return max(below, above)
    if below > above:
        return (max(above, centre - ordered[first + 1]) + below) / 2
    return (max(below, ordered[first + near - 2] - centre) + above) / 2


def line(values: Sequence[float]) -> tuple[float, float]:
    """Return the mean and the least-squares slope per row of at least two values.

    >>> line([1.0, 2.0, 3.0])
    (2.0, 1.0)
    """
    n = len(values)
    mean = sum(values) / n
    # Σ (i − ī) v = Σ i v − n ī v̄
    weighed = sum(map(mul, PLACES if n <= len(PLACES) else range(n), values))
    slope = (weighed - n * (n - 1) / 2 * mean) / (n * (n * n - 1) / 12)
    return mean, slope


def noise_scale(values: Sequence[float]) -> float:
    """Return a robust standard deviation of the noise around a slowly moving level.

    σ = 1.4826 · median |xₜ − xₜ₋₁| / √2. Successive differences cancel the level, and the median ignores spikes.
    """
    differences = sorted(map(abs, map(sub, values[1:], values)))
    return MAD_TO_SIGMA * sorted_median(differences) / ROOT_OF_TWO if differences else 0.0


def long_run_factor(values: Sequence[float]) -> float:
    """Return √(1 + ρ) / (1 − ρ) for the first autocorrelation ρ of the detrended values, ρ in [0, 0.75].

    An optimiser's momentum makes neighbouring steps similar. A sum of n of them varies √((1 + ρ) / (1 − ρ)) times more
    than a sum of white noise, and their successive differences are √(1 − ρ) times smaller than those of white noise.
    Both factors together turn `noise_scale` into the long-run deviation.
    """
    n = len(values)
    if n < LEAST_FOR_CORRELATION:
        return 1.0
    middle, (mean, slope) = (n - 1) / 2, line(values)
    start = mean - slope * middle
    rest = [v - start - slope * i for i, v in zip(PLACES if n <= len(PLACES) else range(n), values, strict=False)]
    power = sum(map(mul, rest, rest))
    if power <= 0.0:
        return 1.0
    rho = sum(map(mul, rest, rest[1:])) / power + 4.0 / n  # corrects the bias of a detrended estimate
    rho = max(0.0, min(LARGEST_CORRELATION, float(rho)))
    return math.sqrt(1.0 + rho) / (1.0 - rho)
