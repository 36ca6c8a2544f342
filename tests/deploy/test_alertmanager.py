import re
import subprocess

import pytest
import urllib3
import yaml

from tests.deploy.ready_servers import running
from tests.live import eventually
from tests.monitor_server.notifications.receivers import receiving
from tests.ports import reserved_port

OPERATORS = {
    "=": str.__eq__,
    "!=": str.__ne__,
    "=~": lambda value, pattern: re.fullmatch(pattern, value) is not None,
}


@pytest.fixture(scope="module")
def configuration(deploy):
    return yaml.safe_load((deploy / "alertmanager/alertmanager.yml").read_text())


@pytest.fixture(scope="module")
def labels(deploy):
    """The labels of one alert of each rule, all of the same run."""
    groups = yaml.safe_load((deploy / "prometheus/rules/rlvitals.yml").read_text())["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    return [{"alertname": rule["alert"], **rule["labels"]} for rule in rules]


def matches(matchers, alert):
    for matcher in matchers:
        name, operator, value = re.fullmatch(r'(\w+)\s*(!=|=~|=)\s*"?([^"]*)"?', matcher).groups()
        if not OPERATORS[operator](alert.get(name, ""), value):
            return False
    return True


@pytest.fixture(scope="module")
def silenced_by(configuration, labels):
    """Map each alert to the alerts that inhibit it within a run, as Alertmanager does it."""
    silenced = {alert["alertname"]: set() for alert in labels}
    for rule in configuration["inhibit_rules"]:
        source, target = rule["source_matchers"], rule["target_matchers"]
        for loud in labels:
            for quiet in labels:
                both_sides = all(matches(source, alert) and matches(target, alert) for alert in (loud, quiet))
                if matches(source, loud) and matches(target, quiet) and not both_sides:
                    silenced[quiet["alertname"]].add(loud["alertname"])
    return silenced


@pytest.mark.alertmanager
def test_alertmanager_accepts_its_configuration(deploy):
    """Receivers, routes and inhibition parse in amtool."""
    command = ["amtool", "check-config", deploy / "alertmanager/alertmanager.yml"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_within_a_run_the_graver_alert_silences_the_lesser(silenced_by):
    """Collapse silences all, critical the rest, a warning information; silence of the run only predictions."""
    silent = {"GRPOTelemetryStale", "GRPOTrainerLost"}
    critical = {"GRPODeathSpiral", "GRPORunCollapsed", "GRPONonFinite", "GRPOCriticalAnomaly", "GRPOTrainerLost"}
    assert silenced_by == {
        "GRPOLikelihoodStagnation": silent
        | {"GRPOLikelihoodDrift", "GRPOAnomaly", "GRPOMonitorDegraded"}
        | {"GRPODeathSpiral", "GRPORunCollapsed", "GRPONonFinite", "GRPOCriticalAnomaly"},
        "GRPOLikelihoodDrift": silent | {"GRPODeathSpiral", "GRPORunCollapsed", "GRPONonFinite", "GRPOCriticalAnomaly"},
        "GRPODeathSpiral": silent | {"GRPORunCollapsed"},
        "GRPORunCollapsed": set(),
        "GRPONonFinite": {"GRPORunCollapsed"},
        "GRPOCriticalAnomaly": {"GRPORunCollapsed"},
        "GRPOAnomaly": critical,
        "GRPOMonitorDegraded": critical,
        "GRPOTelemetryStale": {"GRPORunCollapsed", "GRPOTrainerLost"},
        "GRPOTrainerLost": {"GRPORunCollapsed"},
        "RlvitalsRuleFiring": set(),
        "RlvitalsCollectorDown": set(),
        "RlvitalsDatabaseFailing": set(),
        "RlvitalsRecordsRefused": set(),
        "RlvitalsBatchesRefused": set(),
        "RlvitalsSignalsLeftOut": set(),
        "RlvitalsRunsLeftOut": set(),
        "RlvitalsRunQuarantined": set(),
        "RlvitalsDetectionBehind": set(),
        "RlvitalsNotificationsFailing": set(),
        "RlvitalsChannelFailing": set(),
        "RlvitalsDiskFilling": set(),
        "RlvitalsKeyExpiring": set(),
        "Watchdog": set(),
    }


def test_alerts_that_fire_together_never_silence_each_other_all(silenced_by):
    """Inhibition holds no cycle: of any set of firing alerts at least one is heard."""
    heard = set()
    while rest := silenced_by.keys() - heard:
        loud = {alert for alert in rest if silenced_by[alert] <= heard}
        assert loud, f"these silence each other: {sorted(rest)}"
        heard |= loud


def test_one_run_never_silences_another(configuration):
    """Every inhibition asks for the same run of the same project, of the database that the job names."""
    for rule in configuration["inhibit_rules"]:
        assert rule["equal"] == ["job", "run", "project"]


@pytest.fixture
def uncommented(deploy, tmp_path):
    """A real Alertmanager whose example receivers are uncommented; yield its address, Slack and the webhook."""
    text = (deploy / "alertmanager/alertmanager.yml").read_text()
    text = re.sub(r"^    # (?=slack_configs:|webhook_configs:|  )", "    ", text, flags=re.MULTILINE)
    with receiving() as slack, receiving() as ticket, reserved_port() as port:
        (tmp_path / "slack_url").write_text(f"{slack.url}/hook")
        text = text.replace("/etc/alertmanager/secrets/slack_url", str(tmp_path / "slack_url"))
        text = text.replace("http://your-service:8080", ticket.url).replace("group_wait: 5s", "group_wait: 500ms")
        (tmp_path / "alertmanager.yml").write_text(text)
        command = [
            "prometheus-alertmanager",
            f"--config.file={tmp_path / 'alertmanager.yml'}",
            f"--storage.path={tmp_path / 'alertmanager'}",
            "--cluster.listen-address=",
            f"--web.listen-address=127.0.0.1:{port}",
        ]
        url = f"http://127.0.0.1:{port}"
        with running(command, url, tmp_path / "alertmanager.log"):
            yield url, slack, ticket


def raise_alerts(url, *labels):
    """Send alerts as Prometheus does."""
    alerts = [
        {
            "labels": own,
            "annotations": {
                "description": f"Run {own.get('run')} fails.",
                "dashboard_url": "http://127.0.0.1:8600/?run=x",
            },
        }
        for own in labels
    ]
    assert urllib3.request("POST", f"{url}/api/v2/alerts", json=alerts, retries=False).status == 200


@pytest.mark.alertmanager
def test_the_receivers_work_when_they_are_uncommented(uncommented):
    """Slack and the webhook: a title that names each alert of the run, and no name of a run that notifies everybody."""
    url, slack, ticket = uncommented
    run = {"project": "search", "run": "<!channel> at night", "severity": "critical"}
    key = {"alertname": "RlvitalsKeyExpiring", "severity": "warning"}
    raise_alerts(url, run | {"alertname": "GRPONonFinite"}, run | {"alertname": "GRPOCriticalAnomaly"}, key)
    (message,) = eventually(lambda: slack.bodies)[0]["attachments"]
    assert message["title"] == "GRPOCriticalAnomaly, GRPONonFinite on '!channel' at night in search"
    assert message["fallback"] == message["title"]
    assert message["text"].split("\n")[:4] == ["Run '!channel' at night fails.", "http://127.0.0.1:8600/?run=x"] * 2
    (alert,) = eventually(lambda: ticket.bodies)[0]["alerts"]
    assert alert["labels"] == key


@pytest.mark.alertmanager
def test_a_network_that_fails_is_one_message_for_each_project(uncommented):
    """All runs of a project become silent at once, and the channel is not flooded."""
    url, slack, ticket = uncommented
    lost = {"project": "search", "alertname": "GRPOTrainerLost", "severity": "critical"}
    stale = {"project": "search", "alertname": "GRPOTelemetryStale", "severity": "warning"}
    raise_alerts(url, *(lost | {"run": f"r{number}"} for number in range(200)))
    raise_alerts(url, *(stale | {"run": f"s{number}"} for number in range(200)))
    (message,) = eventually(lambda: slack.bodies)[0]["attachments"]
    assert len(eventually(lambda: ticket.bodies)[0]["alerts"]) == 200
    assert message["title"] == "200 alerts in search"
    assert message["text"].count("fails.") == 20
    assert (len(slack.bodies), len(ticket.bodies)) == (1, 1)
