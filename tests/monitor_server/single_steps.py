"""Single steps, sent to a collector in one batch each."""


def step(live, number, run="r", **signals):
    """Send one step of a run with its signals, and return the receipt."""
    return live.send(run=run, records=[{"step": number, "scalars": signals}])
