import re
import subprocess

import pytest
import yaml

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
    """Who inhibits whom within a run, as Alertmanager does it: {alert: alerts that silence it}."""
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
    """Every inhibition asks for the same run of the same project."""
    for rule in configuration["inhibit_rules"]:
        assert rule["equal"] == ["run", "project"]
