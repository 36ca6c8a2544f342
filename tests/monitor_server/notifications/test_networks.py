"""Channels that were saved over HTTP reach public addresses and the networks of the settings, and nothing else."""

import socket
import subprocess
import sys

import pytest

from monitor_server.errors import StartupError
from monitor_server.notifications.configuration.networks import Networks
from monitor_server.notifications.configuration.tables import AppriseChannel, WebhookChannel
from monitor_server.notifications.delivery.channels import deliver
from monitor_server.notifications.delivery.usability import channel_networks
from monitor_server.notifications.delivery.webhook import Cancellation, DeliveryFailed
from monitor_server.notifications.messages.body import build_body
from monitor_server.settings import Settings
from monitor_server.store.encoding.stored_json import showable
from tests.monitor_server.notifications.receivers import SECRET

PUBLIC = ["93.184.216.34", "2606:2800:220:1::1", "::ffff:93.184.216.34"]
INSIDE = [
    "127.0.0.1", "10.1.2.3", "192.168.0.1", "172.16.0.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1",  # noqa: S104 - bound to nothing
    "255.255.255.255", "::1", "::", "fe80::1", "fe80::1%eth0", "fd00::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1",
    "2002:7f00:1::", "2001:0:7f00:1::1", "ff02::1", "64:ff9b:1::7f00:1", "::127.0.0.1", "::ffff:0:127.0.0.1", "fec0::1",
    "168.63.129.16", "192.0.0.192", "192.0.0.8", "192.88.99.1", "3fff::1", "5f00::1",
]  # fmt: skip
NO_NUMBERS = ["localhost", "example.org", "2130706433", "0x7f.1", "/run/service", b"127.0.0.1", None, ("::1", 1)]
CONFINED = """
import os, socket, subprocess, sys, syslog
from monitor_server.notifications.delivery.apprise_process import confine
confine(["127.0.0.2/32"])
def outcome(act):
    try:
        act()
    except PermissionError as error:
        return str(error)
    except OSError as error:
        return type(error).__name__
    return "done"
tcp, udp = socket.socket(), socket.socket(type=socket.SOCK_DGRAM)
acts = [
    lambda: tcp.connect(("127.0.0.1", 9)), lambda: tcp.connect(("localhost", 9)),
    lambda: udp.sendto(b"", ("10.0.0.1", 9)), lambda: udp.sendto(b"", ("127.0.0.1", 9)),
    lambda: tcp.connect(("127.0.0.2", 1)),
    lambda: socket.socket(socket.AF_UNIX).connect("/run/dbus/system_bus_socket"),
    lambda: open("/etc/passwd"), lambda: open("/proc/self/environ", "rb"), lambda: open(sys.argv[1] + "/new", "w"),
    lambda: open(os.__file__), lambda: open(os.path.dirname(os.__file__) + "/../../../etc/passwd"),
    lambda: os.open(os.__file__, os.O_RDWR), lambda: subprocess.run(["true"]), lambda: os.system("true"),
    lambda: os.remove(sys.argv[1]), lambda: syslog.syslog("x"),
]
for act in acts:
    print(outcome(act))
import xml.dom.minidom  # its own libraries it still reads
"""
ADDRESS, FILE, NOTHING = "this address may not be reached", "this file may not be opened", "a service may not do this"


@pytest.mark.parametrize("host", PUBLIC)
def test_a_public_address_may_be_reached(host):
    """This includes IPv6, and IPv4 within IPv6."""
    assert Networks().allow(host)
    assert not Networks().refuse(host)


@pytest.mark.parametrize("host", INSIDE)
def test_an_address_of_the_own_network_may_not_unless_the_settings_add_it(host):
    """It is refused in every spelling: private, loopback, link-local, translated, tunnelled and multicast."""
    assert not Networks().allow(host)
    assert Networks().refuse(host)
    assert Networks(["0.0.0.0/0", "::/0"]).allow(host)


@pytest.mark.parametrize("host", NO_NUMBERS, ids=str)
def test_what_is_no_number_is_not_allowed_before_it_is_looked_up(host):
    """A name could be looked up once more, and lead elsewhere then."""
    assert not Networks(["0.0.0.0/0"]).allow(host)
    assert not Networks().refuse(host)


def test_a_setting_that_is_no_network_ends_the_start():
    """The variable is named."""
    assert channel_networks(Settings(channel_networks=" 10.0.0.0/8, ::1 ")).added == ("10.0.0.0/8", "::1")
    with pytest.raises(StartupError, match="RLVITALS_CHANNEL_NETWORKS must be networks"):
        channel_networks(Settings(channel_networks="intranet"))


def test_an_ipv6_address_without_a_port_has_the_port_of_its_scheme():
    """Its last group is not taken for a port."""
    channel = WebhookChannel(type="webhook", url="https://[2001:db8::8]/", secret=SECRET)
    with pytest.raises(DeliveryFailed, match="it is not public"):
        deliver(channel, message(), cancellation=Cancellation(), networks=Networks())


def test_the_addresses_of_a_name_share_the_time_to_connect(monkeypatch):
    """The owner of a name can serve hundreds of addresses that do not answer."""
    addresses = [(0, 0, 0, "", (f"93.184.216.{number}", 80)) for number in range(200)]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: addresses)
    reached, waited = [], []

    def connect(address, timeout):
        reached.append(address)
        waited.append(timeout)
        raise TimeoutError

    monkeypatch.setattr(socket, "create_connection", connect)
    with pytest.raises(TimeoutError):
        Networks().connect(("many.example", 80), 5.0)
    assert sum(waited) == pytest.approx(5.0)
    assert reached == [
        (f"93.184.216.{number}", 80) for number in range(len(waited))
    ]  # the name could lead elsewhere now


def message():
    counts = {"alerts": 0, "runs": 0, "changes": {}, "kinds": {}, "projects": {}}
    body = build_body(
        message_id="m", channel="c", created_at=0.0, severity="info", alerts=[], counts=counts, public_url="http://x",
        is_test=True,
    )  # fmt: skip
    return str(showable(body)).replace("'", '"').replace("True", "true").encode()


@pytest.mark.parametrize("kind", ["webhook", "apprise"])
def test_a_delivery_reaches_no_address_of_the_own_network(kind, receiver):
    """A name for such an address is refused like the number, before a connection; added networks are reached."""
    url = receiver.url.replace("127.0.0.1", "localhost")
    channel = (
        WebhookChannel(type="webhook", url=url, secret=SECRET)
        if kind == "webhook"
        else AppriseChannel(url=url.replace("http", "json"))
    )
    with pytest.raises(DeliveryFailed) as caught:
        deliver(channel, message(), cancellation=Cancellation(), networks=Networks())
    assert receiver.received == []
    assert "RLVITALS_CHANNEL_NETWORKS" in str(caught.value)
    deliver(channel, message(), cancellation=Cancellation(), networks=Networks(["127.0.0.0/8", "::1"]))
    assert len(receiver.received) == 1


def test_the_process_of_apprise_reads_no_file_and_starts_no_program(tmp_path):
    """Addresses of Apprise can name files and hosts, so the rights of its process are bounded, for good."""
    command = [sys.executable, "-c", CONFINED, str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines() == [
        ADDRESS, ADDRESS, ADDRESS, ADDRESS, "ConnectionRefusedError", ADDRESS,
        FILE, FILE, FILE, "done", FILE, FILE, NOTHING, NOTHING, NOTHING, NOTHING,
    ]  # fmt: skip
    assert list(tmp_path.iterdir()) == []
