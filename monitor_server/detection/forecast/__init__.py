"""The forecast: the probability of a collapse within 10, 25 and 50 rows, and the evidence that raises it.

``evidence`` reads numbers from the detectors, ``hazard`` turns them into probabilities, and ``coefficients.json`` holds
the weights, which ``python -m benchmarks.detection.forecast`` fits and writes.
"""
