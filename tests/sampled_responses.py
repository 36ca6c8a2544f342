"""Sampled responses as a trainer sends them, in JSON."""

import base64

import numpy as np


def array(values, dtype):
    """Return an array as JSON."""
    held = np.array(values, dtype=dtype)
    return {"dtype": held.dtype.name, "shape": list(held.shape), "data": base64.b64encode(held.tobytes()).decode()}


def response(**given_):
    """Return a response of two actions, with the given fields."""
    return {
        "kinds": ["displaced"],
        "reward": 1.0,
        "correct": True,
        "length": 3,
        "logprob": -1.5,
        "actions": array([[0, 2], [3, 4]], "int32"),
        "logprobs": array([-0.5, -0.5, -0.5], "float16"),
        "token_ids": array([7, 8, 9, 7], "int32"),
    } | given_


FELL = {"group": 1, "displacement": -0.6, "displacements": array([-0.5, -0.1, 0.2], "float16")}
