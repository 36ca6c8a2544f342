"""A server that others can reach starts only with keys, unless an option allows it. It can write keys to files."""

import stat

import pytest

from monitor_server.access.callers import Caller, Scope
from monitor_server.access.keys.administration import hash_key, revoke_key
from monitor_server.access.keys.required_keys import prepare_keys
from monitor_server.errors import KeysMissing, StartupError
from monitor_server.settings import Settings


@pytest.mark.parametrize("host", ["192.168.0.1", "::", "10.0.0.1", "collector.example.org"])
def test_a_server_beyond_loopback_needs_keys(store, host):
    """The message names every way out; `--insecure` and a trusted proxy are two of them."""
    with pytest.raises(KeysMissing) as refused:
        prepare_keys(store, Settings(host=host), now=0.0)
    for way in ("rlvitals keys create admin --scope admin", "RLVITALS_KEY_FILES", "--host 127.0.0.1", "--insecure"):
        assert way in str(refused.value)
    prepare_keys(store, Settings(host=host, insecure=True), now=0.0)
    prepare_keys(store, Settings(host=host, trusted_header="X-User"), now=0.0)


@pytest.mark.parametrize(
    "named",
    [
        {"public_url": "https://vitals.example.org"},
        {"public_url": "http://10.0.0.1:8600/"},
        {"allowed_hosts": "localhost, vitals.example.org"},
        {"allowed_hosts": "*"},
    ],
)
def test_a_server_behind_a_proxy_needs_keys(store, named):
    """Another machine's name is the sign: requests of a proxy on this machine come from the loopback."""
    with pytest.raises(KeysMissing, match=r"would reach the server at (vitals\.example\.org|10\.0\.0\.1|\*) \("):
        prepare_keys(store, Settings(**named), now=0.0)
    prepare_keys(store, Settings(**named, insecure=True), now=0.0)
    prepare_keys(store, Settings(public_url="http://localhost:80/", allowed_hosts="localhost,"), now=0.0)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", "127.8.8.8"])
def test_on_the_loopback_nothing_is_asked(store, host):
    """A collector on the loopback needs no key, and none is made."""
    prepare_keys(store, Settings(host=host), now=0.0)
    with store.read() as reading:
        assert reading.api_keys.all() == []


def test_a_start_writes_keys_to_files_once(store, tmp_path):
    """An administrator's is readable by its owner alone; the next start leaves both; a new database gets new ones."""
    admin, metrics = tmp_path / "admin.key", tmp_path / "metrics.key"
    admin.touch(0o644)  # a container engine needs such a file to mount it
    settings = Settings(host="::", key_files=f"admin:{admin}, read:{metrics}")
    prepare_keys(store, settings, now=0.0)
    assert stat.S_IMODE(admin.stat().st_mode) == 0o600
    assert stat.S_IMODE(metrics.stat().st_mode) == 0o644
    secrets = [path.read_text() for path in (admin, metrics)]
    with store.read() as reading:
        keys = reading.api_keys.all()
    assert [(key.name, key.scope, key.hash) for key in keys] == [
        ("admin", "admin", hash_key(secrets[0].strip())),
        ("metrics", "read", hash_key(secrets[1].strip())),
    ]
    prepare_keys(store, settings, now=1.0)
    assert [path.read_text() for path in (admin, metrics)] == secrets
    metrics.write_text("rlv_of_another_database\n")
    prepare_keys(store, settings, now=2.0)
    with store.read() as reading:
        assert [key.name for key in reading.api_keys.all()] == ["admin", "metrics", "metrics-2"]
    assert metrics.read_text() != secrets[1]


def test_a_revoked_key_in_a_file_is_named_and_replaced_once_the_file_is_empty(store, tmp_path, caplog):
    """Its users are refused, and the file alone does not show why."""
    path = tmp_path / "metrics.key"
    settings = Settings(host="::", key_files=f"read:{path}")
    prepare_keys(store, settings, now=0.0)
    revoked = path.read_text()
    prepare_keys(store, settings, now=1.0)
    assert not caplog.records
    with store.write() as repositories:
        revoke_key(repositories, "metrics", author=Caller(name="a", scope=Scope.ADMIN), now=2.0)
    prepare_keys(store, settings, now=3.0)
    assert (path.read_text(), f"the key 'metrics' in {path} was revoked" in caplog.text) == (revoked, True)
    path.write_text("")
    prepare_keys(store, settings, now=4.0)
    with store.read() as reading:
        assert [key.hash for key in reading.api_keys.all() if key.is_valid(5.0)] == [hash_key(path.read_text().strip())]


@pytest.mark.parametrize("setting", ["admin", "owner:/x", "admin:", "admin:/no/such/folder/key", f"admin:/{'x' * 300}"])
def test_a_wrong_setting_ends_the_start(store, setting):
    """No key is made, because nobody would have it."""
    with pytest.raises(StartupError, match="RLVITALS_KEY_FILES"):
        prepare_keys(store, Settings(key_files=setting), now=0.0)
    with store.read() as reading:
        assert reading.api_keys.all() == []


@pytest.mark.parametrize("held", [b"a line of somebody\n", b"\xff\xfe\x00", b"rlv_key and more", b"x" * 10_000])
def test_a_file_that_holds_something_else_is_kept(store, held, tmp_path):
    """A path that was mistaken costs no file; an empty one is filled."""
    path = tmp_path / "admin.key"
    path.write_bytes(held)
    with pytest.raises(StartupError, match="must hold only a key"):
        prepare_keys(store, Settings(key_files=f"admin:{path}"), now=0.0)
    assert path.read_bytes() == held
    path.write_bytes(b"")
    prepare_keys(store, Settings(key_files=f"admin:{path}"), now=0.0)
    assert path.read_text().startswith("rlv_")


def test_a_device_is_no_file_of_a_key(store):
    """It would be read without an end, and would swallow the key."""
    for device in ("/dev/zero", "/dev/null"):
        with pytest.raises(StartupError, match=f"{device} must hold only a key"):
            prepare_keys(store, Settings(key_files=f"admin:{device}"), now=0.0)
