"""Rewards that are sent, and the line of them that a page has drawn."""

DRAWN = "document.querySelector('#run-figure .js-plotly-plot')"
LINE = DRAWN + ".data.find((trace) => trace.meta.role === 'line' && trace.meta.signal === '{}')?.x.join()"
REWARDS = LINE.format("reward/mean")


def steps(first, end):
    return [{"step": step, "scalars": {"reward/mean": step / 10}} for step in range(first, end)]
