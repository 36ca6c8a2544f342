"""Exact 95 % intervals for shares and rates: few runs mean wide intervals, and they are printed."""

from scipy.special import betaincinv, gammaincinv  # scipy.stats takes a second to import

__all__ = ["clopper_pearson", "garwood"]

TAIL = 0.025


def clopper_pearson(count: int, total: int) -> tuple[float, float]:
    """Return the exact 95 % interval of a share: quantiles of Beta(k, n−k+1) and Beta(k+1, n−k).

    Raises:
        ValueError: If not 0 ≤ count ≤ total.
    """
    if not 0 <= count <= total:
        raise ValueError(f"count must lie in 0 to total, got {count} of {total}")
    if total == 0:
        return 0.0, 1.0
    low = 0.0 if count == 0 else float(betaincinv(count, total - count + 1, TAIL))
    high = 1.0 if count == total else float(betaincinv(count + 1, total - count, 1.0 - TAIL))
    return low, high


def garwood(count: int, exposure: float) -> tuple[float, float]:
    """Return the exact 95 % interval of a Poisson rate: quantiles of Gamma(k) and Gamma(k+1) over the exposure.

    Zero events in N steps have the upper limit 3.69/N (two-sided, 95 %).

    Raises:
        ValueError: If count is negative or exposure not positive.
    """
    if count < 0 or not exposure > 0:
        raise ValueError(f"count must be >= 0 and exposure > 0, got {count} and {exposure}")
    low = 0.0 if count == 0 else float(gammaincinv(count, TAIL))
    return low / exposure, float(gammaincinv(count + 1, 1.0 - TAIL)) / exposure
