"""The panels of Grafana's dashboard that are not made from the table of signals: the fleet, a run, the collector."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

__all__ = ["COLLECTOR", "FLEET", "OF_A_RUN", "RUN", "Panel"]

RUN: Final = 'project="$project",run="$run"'
RATE: Final = "[$__rate_interval]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """A panel; ``queries`` are expressions of PromQL with the names of their series."""

    title: str
    queries: Mapping[str, str]
    description: str
    kind: str = "timeseries"
    unit: str = "short"
    decimals: int | None = None
    is_instant: bool = False


def _quantiles(histogram: str) -> dict[str, str]:
    """Return the queries of the median and the 99th percentile of a histogram."""
    return {
        f"histogram_quantile({q}, sum by (le) (rate({histogram}_bucket{RATE})))": f"quantile {q}" for q in (0.5, 0.99)
    }


FLEET: Final = (
    Panel(
        title="Firing alerts",
        kind="table",
        is_instant=True,
        queries={'ALERTS{alertstate="firing",severity!="none"}': ""},
        description="All alerts of Prometheus that fire now. The last row of this dashboard links to their runbooks.",
    ),
    Panel(
        title="Phase of every run",
        kind="state-timeline",
        queries={"max by (project, run, phase) (rlvitals_run_phase) == 1": "{{project}} / {{run}}: {{phase}}"},
        description="The phase that detection gives each live run.",
    ),
    Panel(
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
    Panel(
        title="Alerts of the run",
        kind="state-timeline",
        queries={f"max by (kind, stage) (rlvitals_alert_stage{{{RUN}}}) == 1": "{{kind}}: {{stage}}"},
        description="The stage of each open alert of the chosen run.",
    ),
    Panel(
        title="Silence",
        unit="s",
        queries={
            (
                "min(rlvitals_clock_timestamp_seconds"
                f" - on (job, instance) group_right rlvitals_run_last_step_timestamp_seconds{{{RUN}}})"
            ): "since the newest step",
            f"max(rlvitals_run_step_seconds{{{RUN}}})": "median time of a step",
            f"max(rlvitals_run_stall_seconds{{{RUN}}})": "stalled from here on",
        },
        description="Time since the newest step of the chosen run was complete, and the usual time of a step.",
    ),
)

COLLECTOR: Final = (
    Panel(
        title="Up",
        queries={
            'up{job="rlvitals"} or up and on (job, instance) present_over_time(rlvitals_open_connections[1d])': (
                "{{instance}}"
            )
        },
        description="1 for each collector that Prometheus can scrape, else 0.",
    ),
    Panel(
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
    Panel(
        title="Batches refused",
        unit="ops",
        queries={f"sum by (reason) (rate(rlvitals_ingest_refused_batches_total{RATE}))": "{{reason}}"},
        description="Batches a second that were refused as a whole; those with the reason later are sent again.",
    ),
    Panel(
        title="Signals left out",
        queries={f"sum(rate(rlvitals_ingest_left_out_signals_total{RATE}))": "beyond the limit of a run"},
        description="Scalars and summaries per second that were left out of records; the trainer's log names one.",
    ),
    Panel(
        title="Bytes of ingest",
        unit="Bps",
        queries={f"sum(rate(rlvitals_ingest_bytes_total{RATE}))": "as sent"},
        description="Bytes of the bodies that trainers send.",
    ),
    Panel(
        title="Time from body to commit",
        unit="s",
        queries=_quantiles("rlvitals_ingest_seconds"),
        description="How long a trainer waits until its batch is on disk.",
    ),
    Panel(
        title="Time of detection",
        unit="s",
        queries=_quantiles("rlvitals_detection_seconds"),
        description="How long all detectors together take for one step.",
    ),
    Panel(
        title="Waiting",
        queries={
            "max(rlvitals_unprojected_records)": "records that no detector has seen",
            "sum(rlvitals_waiting_batches)": "batches before the writer",
            "sum(rlvitals_projector_queued_runs)": "runs before the projector",
            "sum(rlvitals_projector_waiters)": "receipts before their verdict",
            "max(rlvitals_waiting_steps)": "steps that wait for ranks",
            "max(rlvitals_quarantined_runs)": "runs that cannot be processed",
            "max(rlvitals_left_out_runs)": "live runs that are not exposed",
        },
        description="Data that waits to be processed, and runs that are not among the metrics.",
    ),
    Panel(
        title="Memory of what waits",
        unit="bytes",
        queries={
            "sum(rlvitals_waiting_batch_bytes)": "batches before the writer",
            "sum(rlvitals_projector_record_bytes)": "records of steps that are not complete",
            "sum by (of) (rlvitals_held_bytes)": "{{of}} on their way",
        },
        description="Bytes in the memory of all collectors. Each of these has a limit.",
    ),
    Panel(
        title="Entries of caches",
        queries={"max by (cache) (rlvitals_cached_entries)": "{{cache}}"},
        description="Entries of each cache, of the collector that holds most. Each cache has a limit.",
    ),
    Panel(
        title="Requests and connections",
        queries={
            "sum by (kind) (rlvitals_requests_under_way)": "{{kind}}",
            "sum(rlvitals_open_connections)": "connections",
        },
        description="Requests that are answered or wait for their turn, and open connections. Each has a limit.",
    ),
    Panel(
        title="Notifications that wait",
        queries={
            "max by (channel) (rlvitals_notifications_waiting)": "{{channel}}",
            "max by (channel) (rlvitals_notification_channel_failing) == 1": "{{channel}} fails",
        },
        description="Changes of alerts that a channel has not received, and channels that do not accept messages.",
    ),
    Panel(
        title="Oldest notification that waits",
        unit="s",
        queries={"max by (channel) (rlvitals_notifications_oldest_waiting_seconds)": "{{channel}}"},
        description="Time for which the oldest change of an alert has waited, without the window of grouping.",
    ),
    Panel(
        title="Attempts to notify",
        unit="ops",
        queries={
            f"sum by (channel, result) (rate(rlvitals_notification_attempts_total{RATE}))": "{{channel}}: {{result}}"
        },
        description="Messages a second that were sent, failed and are tried again, or were given up.",
    ),
    Panel(
        title="Free disk space",
        unit="bytes",
        queries={"min(rlvitals_database_free_bytes)": "where the SQLite database is"},
        description="Not observed on PostgreSQL, because the collector cannot see its disk.",
    ),
    Panel(
        title="Faults of the database",
        unit="ops",
        queries={f"sum by (fault) (rate(rlvitals_database_faults_total{RATE}))": "{{fault}}"},
        description="Reads and writes per second that failed in the database; the log and /readyz have its message.",
    ),
    Panel(
        title="Days until a key expires",
        decimals=0,
        queries={
            (
                "min by (key) (rlvitals_key_expiry_timestamp_seconds"
                " - on (job, instance) group_left rlvitals_clock_timestamp_seconds) / 86400"
            ): "{{key}}"
        },
        description="Days until each valid key expires; keys that never expire are left out.",
    ),
    Panel(
        title="Batches by version of the SDK",
        unit="ops",
        queries={f"sum by (sdk) (rate(rlvitals_ingest_batches_total{RATE}))": "{{sdk}}"},
        description="Batches a second. The name is empty for clients that are not our SDK.",
    ),
    Panel(
        title="Rows removed",
        unit="ops",
        queries={f"sum by (table) (rate(rlvitals_removed_rows_total{RATE}))": "{{table}}"},
        description="Rows a second that retention and deletion removed.",
    ),
    Panel(
        title="Live events between collectors",
        unit="ops",
        queries={f"sum by (direction) (rate(rlvitals_relayed_events_total{RATE}))": "{{direction}}"},
        description="Events per second that were sent to other collectors, received from them, or dropped.",
    ),
)
