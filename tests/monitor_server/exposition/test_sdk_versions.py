"""Counting batches by the SDK's version, whose text any client may choose."""

from monitor_server.exposition.sdk_versions import MOST_VERSIONS, SdkVersions


def test_batches_are_counted_by_version():
    """Other clients, and texts that are no version, are counted together."""
    versions = SdkVersions()
    for agent in ("rlvitals-sdk/0.1.0", "rlvitals-sdk/0.1.0", "rlvitals-sdk/0.2.0rc1", "rlvitals-sdk", "curl/8", "",
                  "rlvitals-sdk/0.1\n", "rlvitals-sdk/" + "9" * 1_000, "rlvitals-sdk/é"):  # fmt: skip
        versions.count(agent)
    assert versions.counts() == {"0.1.0": 2, "0.2.0rc1": 1, "": 6}


def test_the_number_of_versions_is_bounded():
    """A client that invents one for each batch costs no memory."""
    versions = SdkVersions()
    for number in range(1_000):
        versions.count(f"rlvitals-sdk/{number}")
    counts = versions.counts()
    assert len(counts) == MOST_VERSIONS + 1
    assert counts["others"] == 1_000 - MOST_VERSIONS


def test_the_counts_are_scraped(collector):
    """Prometheus has the versions of the senders."""
    collector.post(b'{"schema_version": 1, "run": "r", "records": []}')
    assert (
        'rlvitals_ingest_batches_total{sdk=""}'
        in collector.pool.request("GET", f"{collector.url}/metrics").data.decode()
    )
