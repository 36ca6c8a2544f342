import inspect
import pkgutil
import re
import shutil
import subprocess
from importlib import import_module

import pytest
import yaml

from monitor_server import detection
from monitor_server.alerts.changes.lifecycle import RULE_PREFIX
from monitor_server.alerts.kinds import MONITOR_DEGRADED
from monitor_server.alerts.liveness import TimeUnheard, silent_run_findings

LEVELS = {"info", "warning", "critical", "none"}


def alerts(deploy):
    groups = yaml.safe_load((deploy / "prometheus/rules/rlvitals.yml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def promtool(*arguments):
    done = subprocess.run(["promtool", *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.prometheus
def test_prometheus_accepts_its_configuration_and_the_rules_it_names(deploy, tmp_path):
    """The configuration parses, and so do the rule files found from it; the key is where Compose puts it."""
    folder = shutil.copytree(deploy / "prometheus", tmp_path / "prometheus")
    configuration = folder / "prometheus.yml"
    text = configuration.read_text()
    assert "credentials_file: /metrics-keys/prometheus.key" in text
    (tmp_path / "prometheus.key").write_text("rlv_key")
    configuration.write_text(text.replace("/metrics-keys", str(tmp_path)))
    promtool("check", "config", configuration)


@pytest.mark.prometheus
def test_the_rules_are_free_of_lint(deploy):
    """No duplicate rules, no syntax errors."""
    promtool("check", "rules", "--lint-fatal", *sorted((deploy / "prometheus/rules").glob("*.yml")))


@pytest.mark.prometheus
@pytest.mark.parametrize("name", ["detectors", "silence", "monitoring"])
def test_the_rules_fire_and_rest_as_their_unit_tests_say(deploy, name):
    """Gap, resume, restart, NaN and the end of a run give the alerts written down in the rule tests."""
    promtool("test", "rules", deploy / f"prometheus/tests/{name}.yml")


def test_every_rule_has_a_unit_test(deploy):
    """Each alert's name is expected to fire somewhere in the rule tests."""
    tested = "".join(path.read_text() for path in (deploy / "prometheus/tests").glob("*.yml"))
    for rule in alerts(deploy):
        assert f'ALERTS{{alertname="{rule["alert"]}", alertstate="firing"' in tested


def test_every_rule_says_how_grave_it_is_what_it_means_and_what_to_do(deploy):
    """Labels hold no templates, for a label that changes makes a new alert; annotations are complete."""
    for rule in alerts(deploy):
        assert rule["labels"]["severity"] in LEVELS, rule["alert"]
        assert "{{" not in "".join(rule["labels"].values()), rule["alert"]
        assert set(rule["annotations"]) == {"summary", "description", "runbook_url", "dashboard_url"}, rule["alert"]
        assert "{{" not in rule["annotations"]["summary"], rule["alert"]


def test_every_rule_has_its_page_in_the_runbooks_and_every_page_its_rule(deploy):
    """docs/runbooks holds one page an alert, found by the alert's runbook_url; docs/alerts.md lists them in order."""
    docs = deploy.parent / "docs"
    names = [rule["alert"] for rule in alerts(deploy)]
    titles = {path.name: path.read_text().partition("\n")[0] for path in (docs / "runbooks").glob("*.md")}
    assert titles == {f"{name.lower()}.md": f"# {name}" for name in names}
    listed = re.findall(r"^\| \[(\w+)\]\(runbooks/(\w+)\.md\) \|", (docs / "alerts.md").read_text(), flags=re.MULTILINE)
    assert listed == [(name, name.lower()) for name in names]
    for rule in alerts(deploy):
        assert rule["annotations"]["runbook_url"] == f"docs/runbooks/{rule['alert'].lower()}.md"


def kinds_of_detection():
    """Return {kind: severity} of every detector class, found by walking the package, and of the clock's findings."""
    modules = [
        import_module(f"{detection.__name__}.{found.name}") for found in pkgutil.iter_modules(detection.__path__)
    ]
    classes = {cls for module in modules for _, cls in inspect.getmembers(module, inspect.isclass)}
    kinds = {vars(cls)["kind"]: str(cls.severity) for cls in classes if isinstance(vars(cls).get("kind"), str)}
    clock = silent_run_findings("lost", step=0, silence=TimeUnheard(1.0, 1.0), stall_seconds=1.0, lost_factor=1.0)
    return kinds | {finding.kind: str(finding.severity) for finding in clock}


def test_every_kind_that_can_be_found_has_a_rule_as_grave(deploy):
    """A kind has its own rule of the same severity; GRPOCriticalAnomaly and GRPOAnomaly cover every other kind.

    A critical failure of the collector, which quarantines the run, has RlvitalsRunQuarantined besides.
    """
    found = kinds_of_detection() | {MONITOR_DEGRADED: "warning"}
    ruled = {
        kind: rule["labels"]["severity"]
        for rule in alerts(deploy)
        for kind in re.findall(r'kind="(\w+)"', rule["expr"])
    }
    assert ruled == {kind: found[kind] for kind in ruled}
    exprs = {rule["alert"]: rule["expr"] for rule in alerts(deploy)}
    assert 'severity="critical"' in exprs["GRPOCriticalAnomaly"]
    assert 'severity="warning"' in exprs["GRPOAnomaly"]


def test_a_critical_finding_is_sent_once(deploy):
    """GRPOCriticalAnomaly leaves out the kinds of the other critical rules, which take no finding below critical.

    RlvitalsRunQuarantined is the critical rule of a failure of the collector, and reads the number of such runs.
    """
    rules = {rule["alert"]: rule for rule in alerts(deploy)}
    (left_out,) = re.findall(r'kind!~"([^"]+)"', rules["GRPOCriticalAnomaly"]["expr"])
    own = {
        kind
        for other in rules.values()
        if other["labels"]["severity"] == "critical"
        for kind in re.findall(r'kind=~?"([^"]+)"', other["expr"])
    }
    assert set(left_out.split("|")) == own | {MONITOR_DEGRADED}
    for name in ("GRPODeathSpiral", "GRPORunCollapsed", "GRPONonFinite"):
        assert 'severity="critical"' in rules[name]["expr"], name


def test_a_warning_is_sent_once(deploy):
    """GRPOAnomaly leaves out the warnings that have rules of their own."""
    (rule,) = [rule for rule in alerts(deploy) if rule["alert"] == "GRPOAnomaly"]
    (left_out,) = re.findall(r'kind!~"([\w|]+)"', rule["expr"])
    own = {
        kind
        for other in alerts(deploy)
        if other["labels"]["severity"] == "warning"
        for kind in re.findall(r'kind="(\w+)"', other["expr"])
    }
    assert set(left_out.split("|")) == own


def test_a_rule_of_the_users_own_is_covered_whatever_its_severity(deploy):
    """Its kind begins with the prefix of the collector; a warning is a GRPOAnomaly."""
    asked = {rule["alert"]: rule["expr"] for rule in alerts(deploy)}
    assert f'kind=~"{RULE_PREFIX}.+", severity="critical"' in asked["RlvitalsRuleFiring"]
    assert 'severity="warning"' in asked["GRPOAnomaly"]
    assert RULE_PREFIX not in asked["GRPOAnomaly"]


def test_the_collector_exposes_what_the_rules_ask_for(deploy, collector, run_name):
    """Every metric in a rule is on /metrics, and a NaN gradient is there under the labels that the rules use."""
    records = [{"step": step, "scalars": {"grad/norm": 1.0 if step < 3 else "NaN"}} for step in range(4)]
    collector.run(project="rules", run=run_name, records=records)
    exposed = collector.pool.request("GET", f"{collector.url}/metrics").data.decode()
    asked = {name for rule in alerts(deploy) for name in re.findall(r"\brlvitals_\w+", rule["expr"])}
    families = {name: name.removesuffix("_count") for name in asked}  # of a histogram
    assert {name for name, family in families.items() if f"# TYPE {family} " not in exposed} == set()
    labels = f'kind="non_finite",project="rules",run="{run_name}",severity="critical"'
    assert f"rlvitals_alert_firing{{{labels}}} 1.0" in exposed
