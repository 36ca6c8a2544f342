"""The forecast: how probable a collapse is within 10, 25 and 50 rows, and what raises the probability.

``evidence`` reads numbers from the detectors, ``hazard`` turns them into probabilities, and ``coefficients.json`` holds
the weights, which ``python -m benchmarks.detection.forecast`` fits and writes.
"""
