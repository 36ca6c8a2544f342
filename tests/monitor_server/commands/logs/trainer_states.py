"""Logs of the Hugging Face trainer."""

import json
import math


def write(path, count=30, dies_at=None, **more):
    """Write a trainer_state.json of a run that wanders a little and may end in NaN."""
    rows = [
        {
            "step": step,
            "reward": 0.5 + 0.01 * math.sin(step),
            "grad_norm": math.nan if dies_at and step >= dies_at else 1.0,
            **more,
        }
        for step in range(1, count + 1)
    ]
    path.write_text(json.dumps({"global_step": count, "log_history": rows}))
    return path
