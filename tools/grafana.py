"""``python -m tools.grafana``: write the dashboard of Grafana, deploy/grafana/dashboards/rlvitals.json.

It is made from three tables: the panels below, the signals of docs/signals.md (one panel for each family), and the
alert rules of deploy/prometheus/rules (one line with its runbook for each). ``--check`` writes nothing, and fails if
the file is not current.
"""

import argparse
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from tools.signal_definitions import PAGE, definitions

__all__ = ["DASHBOARD", "dashboard", "main"]

ROOT: Final = Path(__file__).parents[1]
DASHBOARD: Final = ROOT / "deploy" / "grafana" / "dashboards" / "rlvitals.json"
RULES: Final = ROOT / "deploy" / "prometheus" / "rules" / "rlvitals.yml"
SOURCE: Final = {"type": "prometheus", "uid": "prometheus"}
COLUMNS: Final = 24  # of Grafana's grid
PANELS_A_ROW: Final = 3
HEIGHT: Final = 7
RUN: Final = 'project="$project",run="$run"'
RATE: Final = "[$__rate_interval]"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Panel:
    """A panel; ``queries`` are expressions of PromQL with the names of their series."""

    title: str
    queries: Mapping[str, str]
    description: str
    kind: str = "timeseries"
    unit: str = "short"
    decimals: int | None = None
    is_instant: bool = False


FLEET: Final = (
    _Panel(
        title="Firing alerts",
        kind="table",
        is_instant=True,
        queries={'ALERTS{alertstate="firing",severity!="none"}': ""},
        description="All alerts of Prometheus that fire now. The last row of this dashboard links to their runbooks.",
    ),
    _Panel(
        title="Phase of every run",
        kind="state-timeline",
        queries={"max by (project, run, phase) (rlvitals_run_phase) == 1": "{{project}} / {{run}}: {{phase}}"},
        description="The phase that detection gives each live run.",
    ),
    _Panel(
        title="Open alerts by kind",
        queries={
            "sum by (kind, severity) (max by (project, run, kind, severity) (rlvitals_alert_firing))": (
                "{{kind}} ({{severity}})"
            )
        },
        description="How many runs have an alert that fires and that no silence covers.",
    ),
)

OF_A_RUN: Final = (
    _Panel(
        title="Alerts of the run",
        kind="state-timeline",
        queries={f"max by (kind, stage) (rlvitals_alert_stage{{{RUN}}}) == 1": "{{kind}}: {{stage}}"},
        description="The stage of each open alert of the chosen run.",
    ),
    _Panel(
        title="Silence",
        unit="s",
        queries={
            f"time() - max(rlvitals_run_last_step_timestamp_seconds{{{RUN}}})": "since the newest step",
            f"max(rlvitals_run_step_seconds{{{RUN}}})": "median time of a step",
        },
        description="How long ago the newest step of the chosen run was complete, beside what a step usually takes.",
    ),
)

COLLECTOR: Final = (
    _Panel(
        title="Up",
        queries={'up{job="rlvitals"}': "{{instance}}"},
        description="1 for each collector that Prometheus can scrape, else 0.",
    ),
    _Panel(
        title="Records",
        unit="ops",
        queries={
            f"sum(rate(rlvitals_ingest_records_total{RATE}))": "stored",
            f"sum(rate(rlvitals_ingest_rejected_total{RATE}))": "refused",
            f"sum(rate(rlvitals_ingest_duplicates_total{RATE}))": "seen before",
            f"sum(rate(rlvitals_projector_left_out_records_total{RATE}))": "not merged",
        },
        description="Records a second. A refused record is lost, and the trainer's log names the reason.",
    ),
    _Panel(
        title="Signals left out",
        queries={f"sum(rate(rlvitals_ingest_left_out_signals_total{RATE}))": "beyond the limit of a run"},
        description="Scalars and summaries a second that stored records have lost; the trainer's log names one.",
    ),
    _Panel(
        title="Bytes of ingest",
        unit="Bps",
        queries={f"sum(rate(rlvitals_ingest_bytes_total{RATE}))": "as sent"},
        description="Bytes of the bodies that trainers send.",
    ),
    _Panel(
        title="Time from body to commit",
        unit="s",
        queries={
            f"histogram_quantile({q}, sum by (le) (rate(rlvitals_ingest_seconds_bucket{RATE})))": f"quantile {q}"
            for q in (0.5, 0.99)
        },
        description="How long a trainer waits until its batch is on disk.",
    ),
    _Panel(
        title="Time of detection",
        unit="s",
        queries={
            f"histogram_quantile({q}, sum by (le) (rate(rlvitals_detection_seconds_bucket{RATE})))": f"quantile {q}"
            for q in (0.5, 0.99)
        },
        description="How long all detectors together take for one step.",
    ),
    _Panel(
        title="Waiting",
        queries={
            "max(rlvitals_unprojected_records)": "records that no detector has seen",
            "sum(rlvitals_waiting_batches)": "batches before the writer",
            "sum(rlvitals_projector_queued_runs)": "runs before the projector",
            "sum(rlvitals_projector_waiters)": "receipts before their verdict",
            "max(rlvitals_quarantined_runs)": "runs that cannot be processed",
        },
        description="What has come and is not done yet.",
    ),
    _Panel(
        title="Memory of what waits",
        unit="bytes",
        queries={
            "sum(rlvitals_waiting_batch_bytes)": "batches before the writer",
            "sum(rlvitals_projector_record_bytes)": "records of steps that are not complete",
        },
        description="Bytes in the memory of all collectors. Both have bounds.",
    ),
    _Panel(
        title="Entries of caches",
        queries={"max by (cache) (rlvitals_cached_entries)": "{{cache}}"},
        description="Of the collector that holds most. Each cache has a bound.",
    ),
    _Panel(
        title="Notifications that wait",
        queries={
            "max by (channel) (rlvitals_notifications_waiting)": "{{channel}}",
            "max by (channel) (rlvitals_notification_channel_failing) == 1": "{{channel}} fails",
        },
        description="Changes of alerts that a channel has not received, and the channels that accept nothing.",
    ),
    _Panel(
        title="Oldest notification that waits",
        unit="s",
        queries={"max by (channel) (rlvitals_notifications_oldest_waiting_seconds)": "{{channel}}"},
        description="How long the oldest change of an alert waits for its channel.",
    ),
    _Panel(
        title="Attempts to notify",
        unit="ops",
        queries={
            f"sum by (channel, result) (rate(rlvitals_notification_attempts_total{RATE}))": "{{channel}}: {{result}}"
        },
        description="Messages a second that were sent, failed and are tried again, or were given up.",
    ),
    _Panel(
        title="Free disk space",
        unit="bytes",
        queries={"min(rlvitals_database_free_bytes)": "where the SQLite database is"},
        description="Not observed on PostgreSQL, whose disk the collector does not see.",
    ),
    _Panel(
        title="Days until a key expires",
        decimals=0,
        queries={"(min by (key) (rlvitals_key_expiry_timestamp_seconds) - time()) / 86400": "{{key}}"},
        description="Of each valid key that has an end.",
    ),
    _Panel(
        title="Batches by version of the SDK",
        unit="ops",
        queries={f"sum by (sdk) (rate(rlvitals_ingest_batches_total{RATE}))": "{{sdk}}"},
        description="Batches a second. The name is empty for clients that are not our SDK.",
    ),
    _Panel(
        title="Rows removed",
        unit="ops",
        queries={f"sum by (table) (rate(rlvitals_removed_rows_total{RATE}))": "{{table}}"},
        description="Rows a second that retention and deletion removed.",
    ),
    _Panel(
        title="Live events between collectors",
        unit="ops",
        queries={f"sum by (direction) (rate(rlvitals_relayed_events_total{RATE}))": "{{direction}}"},
        description="Events a second that went to, or came from, other collectors on the database.",
    ),
)


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

    def row(self, title: str, panels: tuple[_Panel, ...]) -> Iterator[dict[str, Any]]:
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


def _signal_panels() -> Iterator[_Panel]:
    """Yield one panel for each family of signals, in the order of docs/signals.md."""
    families: dict[str, list[str]] = {}
    for name in definitions(PAGE.read_text()):
        families.setdefault(name.partition("/")[0], []).append(name)
    for family, names in families.items():
        listed = ", ".join(name for name in names if "<" not in name)
        yield _Panel(
            title=family,
            queries={f'rlvitals_signal{{{RUN},signal=~"{family}(/.+)?"}}': "{{signal}}"},
            description=f"The signals {listed}, whose definitions are in docs/signals.md.",
        )


def _panel(panel: _Panel) -> dict[str, Any]:
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
            "refresh": 2,  # when the time range changes
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
