"""The dashboard of Grafana is current, Prometheus can parse it, and it shows the metrics that the collector exposes.

Grafana itself is in no package of Debian, so that the dashboard is not loaded here.
"""

import json
import re
import subprocess

import pytest
import yaml

from tests.deploy.conftest import ROOT
from tools.grafana import DASHBOARD, dashboard, main

COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICE = COMPOSE["services"]["grafana"]
SHOWN = json.loads(DASHBOARD.read_text(encoding="utf-8"))
EXPRESSIONS = [target["expr"] for panel in SHOWN["panels"] for target in panel.get("targets", ())]
EXPRESSIONS += [each["expr"] for each in SHOWN["annotations"]["list"]]
# The values that Grafana writes in place of its variables before it asks Prometheus.
VALUES = {"$project": "p", "$run": "r", "$__rate_interval": "1m"}
METRIC = re.compile(r"\brlvitals_\w+")
SUFFIXES = re.compile(r"_(bucket|total)$")


def test_the_dashboard_is_current():
    """The file equals the output of the tables of panels, signals and rules."""
    assert main(["--check"]) == 0


def test_a_dashboard_that_is_not_current_is_reported(tmp_path, monkeypatch, capsys):
    """The check names the command that writes the file."""
    monkeypatch.setattr("tools.grafana.ROOT", tmp_path)
    monkeypatch.setattr("tools.grafana.DASHBOARD", tmp_path / "rlvitals.json")
    (tmp_path / "rlvitals.json").write_text("{}")
    assert main(["--check"]) == 1
    assert "run `python -m tools.grafana`" in capsys.readouterr().out


@pytest.mark.prometheus
def test_every_expression_parses(tmp_path):
    """With values in place of Grafana's variables each is a rule that promtool accepts; no other variable is left."""
    written = [re.sub("|".join(map(re.escape, VALUES)), lambda found: VALUES[found[0]], each) for each in EXPRESSIONS]
    assert "$" not in "".join(written)
    rules = [{"record": f"panel:{place}", "expr": expression} for place, expression in enumerate(written)]
    path = tmp_path / "rules.yml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    done = subprocess.run(["promtool", "check", "rules", path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_dashboard_shows_every_metric_of_the_collector_and_no_other(collector, run_name):
    """A metric that is added or renamed has to be added or renamed in the table of panels."""
    collector.run(project="grafana", run=run_name, records=[{"step": 1, "scalars": {"grad/norm": 1.0}}])
    text = collector.pool.request("GET", f"{collector.url}/metrics").data.decode()
    exposed = {SUFFIXES.sub("", name) for name in re.findall(r"^# TYPE (rlvitals_\w+) ", text, re.MULTILINE)}
    exposed = {name for name in exposed if not name.endswith("_created")}
    queries = " ".join([*EXPRESSIONS, *(each["query"]["query"] for each in SHOWN["templating"]["list"][:2])])
    assert {SUFFIXES.sub("", name) for name in METRIC.findall(queries)} == exposed, "change tools/grafana_panels.py"


def test_every_family_of_signals_has_one_panel():
    """Each signal is found by the expression of one panel: the names match whole, as in Prometheus."""
    names = ["reward/mean", "grad/norm", "entropy/paired_delta", "lr", "mismatch/kl"]
    patterns = re.findall(r'signal=~"([^"]+)"', " ".join(EXPRESSIONS))
    for name in names:
        assert len([pattern for pattern in patterns if re.fullmatch(pattern, name)]) == 1, name


def test_a_second_collector_draws_nothing_twice():
    """Several collectors expose the same runs, and a restarted one may have another address: no panel tells them apart.

    Only whether each collector can be scraped is shown for each.
    """
    plain = [each for each in EXPRESSIONS if not re.search(r"\b(max|min|sum)\b", each)]
    (up,) = [each for each in plain if "ALERTS{" not in each]
    assert up.startswith('up{job="rlvitals"} or up and on (job, instance) ')


def test_every_alert_links_to_its_runbook():
    """The page is in docs/runbooks, which is mounted below the address to which the links point."""
    text = next(panel for panel in SHOWN["panels"] if panel["type"] == "text")["options"]["content"]
    pages = re.findall(r"\(\$\{runbooks\}/(\w+\.md)\)", text)
    assert sorted(pages) == sorted(path.name for path in (ROOT / "docs/runbooks").glob("*.md"))
    address = next(each for each in SHOWN["templating"]["list"] if each["name"] == "runbooks")["query"]
    assert f"./docs/runbooks:/usr/share/grafana{address}:ro" in SERVICE["volumes"]


def test_grafana_is_provisioned_with_the_prometheus_of_compose(deploy):
    """The datasource that the dashboard names, and the folder of dashboards that Compose mounts."""
    (source,) = yaml.safe_load((deploy / "grafana/datasources/prometheus.yml").read_text())["datasources"]
    named = {each["datasource"]["uid"] for each in SHOWN["panels"] if "datasource" in each}
    assert named == {source["uid"]}
    host, port = re.fullmatch(r"http://(\w+):(\d+)", source["url"]).groups()
    assert host in COMPOSE["services"]
    assert COMPOSE["services"][host]["ports"][0].endswith(f":{port}")
    (provider,) = yaml.safe_load((deploy / "grafana/providers/rlvitals.yml").read_text())["providers"]
    mounts = dict(volume.removesuffix(":ro").split(":") for volume in SERVICE["volumes"])
    folders = {"dashboards": provider["options"]["path"]}
    folders |= {
        "datasources": "/etc/grafana/provisioning/datasources",
        "providers": "/etc/grafana/provisioning/dashboards",
    }
    assert {f"./deploy/grafana/{name}": folder for name, folder in folders.items()}.items() <= mounts.items()


def test_grafana_starts_only_when_it_is_asked_for():
    """The profile `grafana` starts it, and nobody can change the dashboards that it serves."""
    assert SERVICE["profiles"] == ["grafana"]
    assert SERVICE["environment"]["GF_AUTH_ANONYMOUS_ORG_ROLE"] == "Viewer"
    assert SERVICE["environment"]["GF_SECURITY_DISABLE_INITIAL_ADMIN_CREATION"] == "true"
    assert dashboard()["editable"] is False
