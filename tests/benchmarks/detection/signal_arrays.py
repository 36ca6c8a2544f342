"""The signals of authored runs as arrays."""

import numpy as np


def series(run, signal):
    """Return a signal as an array over rows, NaN where absent."""
    return np.array([observation.signals.get(signal, np.nan) for observation in run.observations])
