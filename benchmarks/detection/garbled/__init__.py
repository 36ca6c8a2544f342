"""Garbled responses: loops, another language and gibberish, authored and made of responses of the reference trainer.

`python -m benchmarks.detection.garbled` prints how soon the detectors find them, and how often they warn without
garbled responses. `python -m benchmarks.detection.garbled.record` records the reference trainer again.
"""
