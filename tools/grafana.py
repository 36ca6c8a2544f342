"""``python -m tools.grafana``: write the dashboard of Grafana, deploy/grafana/dashboards/rlvitals.json.

It is made from three tables: the panels of tools/grafana_panels.py, the signals of docs/signals.md (one panel for each
family), and the alert rules of deploy/prometheus/rules (one line with its runbook for each). ``--check`` writes
nothing, and fails if the file is not current.
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

from tools.grafana_panels import COLLECTOR, FLEET, OF_A_RUN, RUN, Panel
from tools.signal_definitions import PAGE, definitions

__all__ = ["DASHBOARD", "dashboard", "main"]

ROOT: Final = Path(__file__).parents[1]
DASHBOARD: Final = ROOT / "deploy" / "grafana" / "dashboards" / "rlvitals.json"
RULES: Final = ROOT / "deploy" / "prometheus" / "rules" / "rlvitals.yml"
SOURCE: Final = {"type": "prometheus", "uid": "prometheus"}
COLUMNS: Final = 24  # of Grafana's grid
PANELS_A_ROW: Final = 3
HEIGHT: Final = 7


def dashboard() -> dict[str, Any]:
    """Return the dashboard in the form of Grafana's JSON."""
    layout = _Layout()
    rules = [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]
    panels = [
        *layout.row("Fleet", FLEET),
        *layout.row("Run $run of project $project", (*OF_A_RUN, *_signal_panels())),
        *layout.row("Collector", COLLECTOR),
        *layout.runbooks(rules),
    ]
    return {
        "uid": "rlvitals",
        "title": "rlvitals",
        "description": "Written by `python -m tools.grafana`: change the tables there, not this file.",
        "tags": ["rlvitals"],
        "schemaVersion": 39,
        "editable": False,
        "timezone": "browser",
        "refresh": "10s",
        "time": {"from": "now-3h", "to": "now"},
        "graphTooltip": 1,  # one cursor over all panels
        "templating": {"list": _variables()},
        "annotations": {"list": [_alert_marks()]},
        "panels": panels,
    }


class _Layout:
    """Places panels on the grid and numbers them."""

    def __init__(self) -> None:
        self._y = 0
        self._count = 0

    def row(self, title: str, panels: tuple[Panel, ...]) -> Iterator[dict[str, Any]]:
        """Yield a row and its panels, some side by side."""
        yield self._placed({"type": "row", "title": title, "collapsed": False, "panels": []}, x=0, w=COLUMNS, h=1)
        self._y += 1
        width = COLUMNS // PANELS_A_ROW
        for place, panel in enumerate(panels):
            yield self._placed(_panel(panel), x=place % PANELS_A_ROW * width, w=width, h=HEIGHT)
            if place % PANELS_A_ROW == PANELS_A_ROW - 1 or panel is panels[-1]:
                self._y += HEIGHT

    def runbooks(self, rules: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """Yield a row with a table of all alerts, each with a link to its runbook."""
        lines = ["| alert | severity | meaning |", "|---|---|---|"]
        for rule in rules:
            page = Path(rule["annotations"]["runbook_url"]).name
            name, severity = rule["alert"], rule["labels"]["severity"]
            lines.append(f"| [{name}](${{runbooks}}/{page}) | {severity} | {rule['annotations']['summary']} |")
        yield from self.row("Runbooks", ())
        options = {"mode": "markdown", "content": "\n".join(lines)}
        text = {"type": "text", "title": "What each alert means, and what to do", "options": options}
        yield self._placed(text, x=0, w=COLUMNS, h=3 + len(rules))

    def _placed(self, panel: dict[str, Any], *, x: int, w: int, h: int) -> dict[str, Any]:
        self._count += 1
        return panel | {"id": self._count, "gridPos": {"x": x, "y": self._y, "w": w, "h": h}}


def _signal_panels() -> Iterator[Panel]:
    """Yield one panel for each family of signals, in the order of docs/signals.md."""
    families: dict[str, list[str]] = {}
    for name in definitions(PAGE.read_text()):
        families.setdefault(name.partition("/")[0], []).append(name)
    for family, names in families.items():
        listed = ", ".join(name for name in names if "<" not in name)
        yield Panel(
            title=family,
            queries={f'max by (signal) (rlvitals_signal{{{RUN},signal=~"{family}(/.+)?"}})': "{{signal}}"},
            description=f"The signals {listed}, whose definitions are in docs/signals.md.",
        )


def _panel(panel: Panel) -> dict[str, Any]:
    defaults: dict[str, Any] = {"unit": panel.unit}
    if panel.decimals is not None:
        defaults["decimals"] = panel.decimals
    if panel.kind == "timeseries":
        defaults["custom"] = {"spanNulls": False, "showPoints": "auto"}
    found: dict[str, Any] = {
        "type": panel.kind,
        "title": panel.title,
        "description": panel.description,
        "datasource": SOURCE,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "targets": [
            {
                "refId": chr(ord("A") + place),
                "datasource": SOURCE,
                "expr": expression,
                "legendFormat": legend,
                "instant": panel.is_instant,
                "range": not panel.is_instant,
                "format": "table" if panel.kind == "table" else "time_series",
            }
            for place, (expression, legend) in enumerate(panel.queries.items())
        ],
    }
    if panel.kind == "table":
        hidden = {"Time": True, "Value": True, "__name__": True, "alertstate": True}
        found["transformations"] = [{"id": "organize", "options": {"excludeByName": hidden}}]
    return found


def _variables() -> list[dict[str, Any]]:
    def labels(name: str, query: str) -> dict[str, Any]:
        return {
            "type": "query",
            "name": name,
            "datasource": SOURCE,
            "query": {"query": query, "refId": name},
            "refresh": 2,  # reads the values again when the time range changes
            "sort": 1,
        }

    return [
        labels("project", "label_values(rlvitals_run_phase, project)"),
        labels("run", 'label_values(rlvitals_run_phase{project="$project"}, run)'),
        {
            "type": "textbox",
            "name": "runbooks",
            "label": "Address of docs/runbooks",
            "query": "/public/runbooks",  # where docker-compose.yml mounts them
        },
    ]


def _alert_marks() -> dict[str, Any]:
    """Return the marks on all panels: when an alert of the chosen run began to fire."""
    return {
        "name": "Alerts of the run",
        "datasource": SOURCE,
        "enable": True,
        "iconColor": "red",
        "expr": f'ALERTS{{alertstate="firing",{RUN}}}',
        "titleFormat": "{{alertname}}",
        "step": "10s",
    }


def main(arguments: list[str] | None = None) -> int:
    """Write the file, or check that it is current."""
    parser = argparse.ArgumentParser(prog="python -m tools.grafana", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the file is not current")
    given = parser.parse_args(arguments)
    text = json.dumps(dashboard(), indent=1, ensure_ascii=False) + "\n"
    if given.check:
        if DASHBOARD.read_text(encoding="utf-8") == text:
            return 0
        print(f"{DASHBOARD.relative_to(ROOT)} is not current: run `python -m tools.grafana`")
        return 1
    DASHBOARD.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
