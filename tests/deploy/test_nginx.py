"""The block of nginx in docs/deployment.md lets large batches, sign-ins and live events through, over TLS."""

import getpass
import json
import re
import shutil
import subprocess

import pytest
import urllib3

from monitor_server.access.callers import Caller, Scope
from monitor_server.access.keys.administration import create_key
from tests.databases import sqlite_only
from tests.deploy.conftest import ROOT
from tests.live import eventually
from tests.ports import reserved_port

NAME = "rlvitals.example.org"
FOLDERS = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")


@pytest.fixture
def certificate(tmp_path):
    """A certificate of the name, and its key."""
    paths = tmp_path / "rlvitals.crt", tmp_path / "rlvitals.key"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={NAME}"]
    command += ["-addext", f"subjectAltName=DNS:{NAME}", "-out", paths[0], "-keyout", paths[1]]
    subprocess.run(command, check=True, capture_output=True)
    return paths


@pytest.fixture
def proxied(start_collector, certificate, tmp_path):
    """A collector behind nginx; yield it, a key of it, the public address, and a pool of connections there."""
    with reserved_port() as port:
        public = f"https://{NAME}:{port}"
        live = start_collector(allowed_hosts=NAME, public_url=public)
        block = re.search(r"```nginx\n(.*?)```", (ROOT / "docs/deployment.md").read_text(), re.DOTALL).group(1)
        block = block.replace("listen 443", f"listen 127.0.0.1:{port}").replace("/etc/ssl/", f"{tmp_path}/")
        block = block.replace("http://127.0.0.1:8600", live.url)
        folders = "".join(f"{name}_temp_path {tmp_path}/{name};\n" for name in FOLDERS)
        (tmp_path / "nginx.conf").write_text(
            f"daemon off; user {getpass.getuser()}; pid {tmp_path}/pid; error_log {tmp_path}/error.log;\n"
            f"events {{}}\nhttp {{ access_log {tmp_path}/access.log;\n{folders}{block}}}\n"
        )
        key = _key(live)
        pool = urllib3.HTTPSConnectionPool(
            "127.0.0.1", port, ca_certs=str(certificate[0]), server_hostname=NAME, assert_hostname=NAME,
            headers={"Host": f"{NAME}:{port}"}, retries=False, timeout=30,
        )  # fmt: skip
        command = [
            shutil.which("nginx") or "/usr/sbin/nginx",
            "-e",
            tmp_path / "error.log",
            "-c",
            tmp_path / "nginx.conf",
        ]
        with subprocess.Popen(command) as process, pool:
            try:
                eventually(lambda: process.poll() is not None or (tmp_path / "pid").exists())
                assert process.poll() is None, (tmp_path / "error.log").read_text()
                yield live, key, public, pool
            finally:
                process.terminate()


def _key(live):
    collector = live.app.state.collector
    with collector.store.write() as repositories:
        author = Caller(name="the test", scope=Scope.ADMIN)
        secret, _ = create_key(
            repositories, name="admin", scope=Scope.ADMIN, project=None, expires_at=None, author=author,
            now=collector.clock(),
        )  # fmt: skip
    collector.keys.read()
    return secret


@sqlite_only
@pytest.mark.nginx
def test_batches_sign_ins_and_live_events_pass_through_nginx(proxied, tmp_path):
    """A batch of megabytes is stored, a browser gets a cookie for HTTPS alone, and an event arrives at once."""
    live, key, public, pool = proxied
    headers = pool.headers | {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    scalars = {f"own/{number}": number / 3 for number in range(300)}
    batch = {"schema_version": 1, "run": "r", "records": [{"step": step, "scalars": scalars} for step in range(300)]}
    body = json.dumps(batch)
    assert len(body) > 2_000_000
    assert pool.request("POST", "/api/v1/ingest", body=body, headers=headers).json()["accepted"] == 300

    page = pool.headers | {"Origin": public, "Content-Type": "application/json"}
    answer = pool.request("POST", "/api/v1/session", body=json.dumps({"key": key}), headers=page)
    assert answer.status == 200, answer.data
    assert answer.headers["Set-Cookie"].startswith("__Host-")

    events = pool.request("GET", "/api/v1/stream", headers=headers, preload_content=False)
    arrived = _arrived(events)
    assert b"listening" in next(arrived)
    batch["records"] = [{"step": 300, "scalars": {"a": 1.0}}]
    pool.request("POST", "/api/v1/ingest", body=json.dumps(batch), headers=headers)
    assert any(b'"step":300' in held for held in arrived)
    events.close()

    pool.request("GET", "/act/some-secret-link", headers=pool.headers)
    live.stop()
    assert pool.request("GET", "/", headers=pool.headers).status == 502
    assert pool.request("GET", "/act/some-secret-link", headers=pool.headers).status == 502
    access, errors = (tmp_path / "access.log").read_text(), (tmp_path / "error.log").read_text()
    assert "GET /" in access
    assert "GET /" in errors
    assert "some-secret-link" not in access + errors


def _arrived(events):
    """Yield all that has arrived so far, whenever more has; an event may come in two parts."""
    held = b""
    for part in events.stream(4096):
        held += part
        yield held
