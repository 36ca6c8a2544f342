"""Suite D's runs: TRL trains a tiny model, and a failure is induced at a step that is set.

``python -m benchmarks.detection.induced`` records pairs of a failing run and its healthy twin.
"""
