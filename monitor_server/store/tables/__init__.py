"""The tables. Their history is in ``migrations``; a test compares the two."""

from monitor_server.store.tables.access import api_keys, audit_entries, recorded_settings
from monitor_server.store.tables.action_links import action_links, link_secrets
from monitor_server.store.tables.action_requests import action_requests
from monitor_server.store.tables.alerts import actions, alert_history, alerts, detector_states, silences
from monitor_server.store.tables.columns import metadata
from monitor_server.store.tables.log import acknowledgements, records, waiting
from monitor_server.store.tables.notifications import channel_results, notification_events, notification_messages
from monitor_server.store.tables.rules import rule_revisions, rule_states, rules
from monitor_server.store.tables.runs import attempts, phases, runs, signals
from monitor_server.store.tables.saved_settings import notification_documents, retention_limits
from monitor_server.store.tables.saved_views import saved_views
from monitor_server.store.tables.steps import chunk_values, chunks, responses, steps

__all__ = [
    "acknowledgements",
    "action_links",
    "action_requests",
    "actions",
    "alert_history",
    "alerts",
    "api_keys",
    "attempts",
    "audit_entries",
    "channel_results",
    "chunk_values",
    "chunks",
    "detector_states",
    "link_secrets",
    "metadata",
    "notification_documents",
    "notification_events",
    "notification_messages",
    "phases",
    "recorded_settings",
    "records",
    "responses",
    "retention_limits",
    "rule_revisions",
    "rule_states",
    "rules",
    "runs",
    "saved_views",
    "signals",
    "silences",
    "steps",
    "waiting",
]
