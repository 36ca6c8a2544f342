"""The chart in a message: the vital signs of the run with the most urgent alert, around that alert."""

import logging
from collections.abc import Mapping
from typing import Any, Final

from monitor_server.attribution.vitals import VITALS
from monitor_server.notifications.messages.png_drawing import PictureCurve, can_draw, draw
from monitor_server.store.database import Store
from monitor_server.store.encoding.stored_json import read_object
from monitor_server.store.repositories.series.downsampling import downsample

__all__ = ["draw_picture"]

log = logging.getLogger(__name__)

STEPS_BEFORE: Final = 300
MAX_CURVES: Final = 4
MAX_POINTS: Final = 400
# The signals that most runs send and that people read first. The alert's own signal comes before them.
FIRST: Final = ("reward/mean", "entropy/mean", "likelihood/correct", "grad/norm", "ratio/max", "length/mean")


def draw_picture(store: Store, message: Mapping[str, Any]) -> bytes | None:
    """Return a PNG of the run of a message's most urgent alert, or None if there is nothing to draw.

    A failure is logged; the message is then sent without a picture.

    Args:
        store: The database.
        message: From `messages.body.build_body`.
    """
    alerts = message["alerts"]
    if not alerts or not can_draw():
        return None
    alert = alerts[0]
    try:
        curves = _read_curves(store, alert)
        title = f"{alert['kind']} at step {alert['opened_step']}"
        return draw(title, curves, at=alert["opened_step"]) if curves else None
    except Exception:
        log.exception("the picture of alert %s could not be drawn; the message is sent without it", alert["id"])
        return None


def _read_curves(store: Store, alert: Mapping[str, Any]) -> list[PictureCurve]:
    """Read up to 4 signals, from 300 steps before the alert to its newest step."""
    first, last = max(0, alert["opened_step"] - STEPS_BEFORE), max(alert["opened_step"], alert["last_step"])
    with store.read() as repositories:
        known = set(repositories.steps.signals(alert["run_id"]))
        row = repositories.alerts.view(alert["id"])
        own = None if row is None else read_object(row["evidence"]).get("signal")
        wanted = [*([own] if isinstance(own, str) else []), *FIRST, *VITALS]
        names = [name for name in dict.fromkeys(wanted) if name in known][:MAX_CURVES]
        columns = repositories.series.read(alert["run_id"], names, from_step=first, to_step=last, max_points=MAX_POINTS)
        thin = [downsample(column, max_points=MAX_POINTS) for column in columns]
    return [PictureCurve(name=each.signal, steps=each.steps, values=each.values) for each in thin if len(each.steps)]
