"""A recorded collapse reaches a webhook through real Prometheus and Alertmanager before its collapse step.

The rules, the routes and the inhibition are the shipped ones; only addresses, receivers and intervals are replaced. The
replayed trainer waits for each evaluation of Prometheus, and never for a time.
"""

import datetime as dt
from importlib import resources

import msgspec
import pytest
import urllib3
import yaml
from prometheus_client.parser import text_string_to_metric_families

from monitor_server.access.callers import Caller, Scope
from monitor_server.access.keys.administration import create_key
from monitor_server.importers.mapping import NameMapping
from monitor_server.importers.protocol import ReadReport
from monitor_server.importers.search.logs import find_logs
from monitor_server.importers.steps import observe
from monitor_server.ingest.recorded_batches import batches
from monitor_server.log_check.examination import examine
from tests.deploy.ready_servers import running
from tests.live import eventually
from tests.monitor_server.notifications.receivers import receiving
from tests.ports import reserved_port
from trainer_hooks import wire

pytestmark = [pytest.mark.prometheus, pytest.mark.alertmanager]

PROJECT, RUN = "recorded", "search-agent"
STEPS_PER_BLOCK = 10


@pytest.fixture
def alertmanager(deploy, tmp_path):
    """A real Alertmanager with the shipped routes; yield its address and the receivers of pages and tickets."""
    configuration = yaml.safe_load((deploy / "alertmanager/alertmanager.yml").read_text())
    configuration["route"] |= {"group_wait": "100ms", "group_interval": "1s"}
    with receiving() as pages, receiving() as tickets, receiving() as nobody, reserved_port() as port:
        # `nobody` has an address here too, which shows that the shipped routes notify nobody of such an alert.
        hooks = {"page": pages, "ticket": tickets, "nobody": nobody}
        for receiver in configuration["receivers"]:
            hook = {"url": f"{hooks[receiver['name']].url}/in", "send_resolved": True}
            receiver["webhook_configs"] = [hook]
        path = tmp_path / "alertmanager.yml"
        path.write_text(yaml.safe_dump(configuration))
        address = f"127.0.0.1:{port}"
        command = [
            "prometheus-alertmanager",
            f"--config.file={path}",
            f"--storage.path={tmp_path / 'alertmanager'}",
            "--cluster.listen-address=",
            f"--web.listen-address={address}",
        ]
        with running(command, f"http://{address}", tmp_path / "alertmanager.log"):
            yield address, pages, tickets


@pytest.fixture
def watched(start_collector, alertmanager, deploy, tmp_path):
    """A collector that needs keys, scraped by a real Prometheus with the shipped rules; yield it with the addresses."""
    live = start_collector()
    keys = {scope: _key(live, scope) for scope in (Scope.INGEST, Scope.READ)}
    (tmp_path / "prometheus.key").write_text(keys[Scope.READ])

    configuration = yaml.safe_load((deploy / "prometheus/prometheus.yml").read_text())
    configuration["global"] = {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "500ms"}
    configuration["rule_files"] = [str(deploy / "prometheus" / pattern) for pattern in configuration["rule_files"]]
    configuration["alerting"]["alertmanagers"][0]["static_configs"][0]["targets"] = [alertmanager[0]]
    job = next(job for job in configuration["scrape_configs"] if job["job_name"] == "rlvitals")
    job["static_configs"][0]["targets"] = [live.url.removeprefix("http://")]
    job["authorization"]["credentials_file"] = str(tmp_path / "prometheus.key")
    configuration["scrape_configs"] = [job]
    path = tmp_path / "prometheus.yml"
    path.write_text(yaml.safe_dump(configuration))
    with reserved_port() as port:
        url = f"http://127.0.0.1:{port}"
        command = [
            "prometheus",
            f"--config.file={path}",
            f"--storage.tsdb.path={tmp_path / 'prometheus'}",
            f"--web.listen-address=127.0.0.1:{port}",
        ]
        with running(command, url, tmp_path / "prometheus.log"):
            yield live, keys, url


def _key(live, scope):
    collector = live.app.state.collector
    with collector.store.write() as repositories:
        secret, _ = create_key(
            repositories,
            name=str(scope),
            scope=scope,
            project=None,
            expires_at=None,
            author=Caller(name="the test", scope=Scope.ADMIN),
            now=collector.clock(),
        )
    collector.keys.read()
    return secret


def _send(live, keys, steps):
    """Send steps of the run as its trainer would, which does not end."""
    headers = {"Content-Type": wire.MSGPACK, "Authorization": f"Bearer {keys[Scope.INGEST]}"}
    for batch in batches(steps, name=RUN, project=PROJECT, size=len(steps)):
        body = wire.encode(msgspec.structs.replace(batch, end=None))
        answer = live.pool.request("POST", f"{live.url}/api/v1/ingest", body=body, headers=headers)
        assert answer.status == 200, answer.data


def _newest_step_time(live, keys):
    """Return the time at which the newest step was complete, as the collector exposes it."""
    headers = {"Authorization": f"Bearer {keys[Scope.READ]}"}
    text = live.pool.request("GET", f"{live.url}/metrics", headers=headers).data.decode()
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    return next(sample.value for sample in samples if sample.name == "rlvitals_run_last_step_timestamp_seconds")


def _query(url, expression):
    answer = urllib3.request("GET", f"{url}/api/v1/query", fields={"query": expression}, timeout=30, retries=False)
    return answer.json()["data"]["result"]


def _wait_until_evaluated(url, newest):
    """Wait until Prometheus has scraped a step and evaluated the rules; return the names of the firing alerts."""
    metric = f'rlvitals_run_last_step_timestamp_seconds{{run="{RUN}"}}'
    eventually(lambda: any(float(each["value"][1]) >= newest for each in _query(url, metric)))
    (sample,) = _query(url, f"timestamp({metric})")
    scraped = float(sample["value"][1])
    eventually(lambda: _last_evaluation(url) > scraped)
    return {each["metric"]["alertname"] for each in _query(url, 'ALERTS{alertstate="firing", severity="critical"}')}


def _last_evaluation(url):
    """Return the start, in seconds since the epoch, of the evaluation of the group that was evaluated longest ago."""
    groups = urllib3.request("GET", f"{url}/api/v1/rules", timeout=30, retries=False).json()["data"]["groups"]
    return min(dt.datetime.fromisoformat(group["lastEvaluation"]).timestamp() for group in groups)


def _alerts(receiver):
    return [alert for body in receiver.bodies for alert in body["alerts"]]


@pytest.mark.timeout(900)
def test_a_recorded_collapse_pages_before_its_collapse_step(watched, alertmanager, capsys):
    """The page is at the webhook while the run stands many steps before the step at which its reward is lost."""
    live, keys, prometheus = watched
    _, pages, tickets = alertmanager
    with resources.as_file(resources.files("monitor_server.log_check") / "sample") as folder:
        (recorded,) = find_logs([folder], [])
        collapse_step = examine(recorded).collapse_step
        mapping = NameMapping({}, recorded.aliases, keep_unknown=True)
        steps = list(observe(recorded.read(ReadReport()), mapping.signals))

    sent = 0
    firing = set()
    while not firing:
        assert sent < len(steps), "no rule fired on the whole recording"
        block = steps[sent : sent + STEPS_PER_BLOCK]
        _send(live, keys, block)
        sent += len(block)
        firing = _wait_until_evaluated(prometheus, _newest_step_time(live, keys))
    assert firing == {"GRPODeathSpiral"}
    eventually(lambda: pages.bodies)
    paged_at = steps[sent - 1].step
    assert paged_at < collapse_step
    (alert,) = _alerts(pages)
    labels = {"alertname": "GRPODeathSpiral", "severity": "critical", "phase": "acceleration"}
    assert (alert["status"], alert["labels"]) == (
        "firing",
        labels | {"job": "rlvitals", "project": PROJECT, "run": RUN},
    )
    assert alert["annotations"]["runbook_url"] == "docs/runbooks/grpodeathspiral.md"
    with capsys.disabled():
        print(f"\nthe page arrived at step {paged_at}, and the run collapsed at step {collapse_step}")  # noqa: T201

    # The rest of the run: the collapse is a page too, and the lesser alerts of the run are inhibited meanwhile.
    _send(live, keys, steps[sent:])
    eventually(lambda: "GRPORunCollapsed" in {each["labels"]["alertname"] for each in _alerts(pages)})
    assert {each["labels"]["alertname"] for each in _alerts(tickets)} <= {"GRPOLikelihoodDrift", "GRPOAnomaly"}
