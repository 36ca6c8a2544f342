"""The SDK and the dashboard import nothing of the collector, so they state the order of severities again."""

import json
import re
from pathlib import Path
from typing import get_args

import dashboard
from dashboard.collector_client.urgency import SEVERITY_ORDER
from monitor_server.detection.protocol import Severity
from trainer_hooks import wire

CELLS = Path(dashboard.__file__).parent / "assets" / "fleet_cells.js"


def test_the_dashboard_sorts_severities_as_detection_does():
    """The most severe is first: in lists, in charts, and in the cells that the browser draws."""
    stated = re.search(r"const SEVERITIES = (\[.*\]);", CELLS.read_text("utf-8"))
    in_cells = json.loads(stated[1])
    most_severe_first = [str(severity) for severity in reversed(Severity)]
    assert sorted(SEVERITY_ORDER, key=SEVERITY_ORDER.get) == in_cells == most_severe_first


def test_the_wire_states_severities_in_the_order_of_their_ranks():
    """The reference trainer reports forks about the most severe alert, which is the last of the wire's severities."""
    assert get_args(wire.Severity) == tuple(sorted(Severity, key=lambda severity: severity.rank))
