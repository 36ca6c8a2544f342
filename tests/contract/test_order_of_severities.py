"""The dashboard imports nothing of the collector, so it states the order of severities again, twice."""

import json
import re
from pathlib import Path

import dashboard
from dashboard.collector_client.urgency import SEVERITY_ORDER
from monitor_server.detection.protocol import Severity

CELLS = Path(dashboard.__file__).parent / "assets" / "fleet_cells.js"


def test_the_dashboard_sorts_severities_as_detection_does():
    """The most severe is first: in lists, in charts, and in the cells that the browser draws."""
    stated = re.search(r"const SEVERITIES = (\[.*\]);", CELLS.read_text("utf-8"))
    in_cells = json.loads(stated[1])
    most_severe_first = [str(severity) for severity in reversed(Severity)]
    assert sorted(SEVERITY_ORDER, key=SEVERITY_ORDER.get) == in_cells == most_severe_first
