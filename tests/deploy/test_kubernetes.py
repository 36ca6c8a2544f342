"""The Kubernetes manifests are valid, confined, and name only what the collector and its image have."""

import re

import kubernetes_validate
import pytest
import yaml

from monitor_server.access.route_scopes import ROUTES
from monitor_server.settings import Settings
from tests.deploy.conftest import ROOT

MANIFESTS = list(yaml.safe_load_all((ROOT / "deploy" / "kubernetes" / "rlvitals.yaml").read_text()))
DOCKERFILE = (ROOT / "deploy" / "Dockerfile").read_text()
POD = next(each for each in MANIFESTS if each["kind"] == "Deployment")["spec"]["template"]["spec"]
CONTAINER = POD["containers"][0]


@pytest.mark.parametrize("version", ["1.29.0", kubernetes_validate.latest_version()])
@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda each: each["kind"])
def test_every_manifest_fits_its_schema(manifest, version):
    """The schemas are those of an older and of the newest Kubernetes, and refuse a field that they do not have."""
    kubernetes_validate.validate(manifest, version, strict=True)


def test_a_misspelt_field_would_be_refused():
    """The check above would see it."""
    wrong = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}, "spec": {"portz": []}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, kubernetes_validate.latest_version(), strict=True)


def test_the_pod_is_confined():
    """No root, no capabilities, no token of the cluster, nothing to write but the volume and a bounded /tmp."""
    user = int(re.search(r"useradd --uid (\d+)", DOCKERFILE).group(1))
    assert POD["automountServiceAccountToken"] is False
    assert (POD["securityContext"]["runAsNonRoot"], POD["securityContext"]["runAsUser"]) == (True, user)
    assert POD["securityContext"]["fsGroup"] == user
    own = CONTAINER["securityContext"]
    assert (own["allowPrivilegeEscalation"], own["readOnlyRootFilesystem"]) == (False, True)
    assert own["capabilities"] == {"drop": ["ALL"]}
    assert CONTAINER["resources"]["limits"]["memory"]
    assert {mount["mountPath"] for mount in CONTAINER["volumeMounts"]} == {"/data", "/tmp"}  # noqa: S108 - its own


def test_a_migration_of_an_hour_is_not_cut_off():
    """Nothing listens during a migration, and a pod that is killed undoes it and begins anew, without an end."""
    probe = CONTAINER["startupProbe"]
    assert probe["periodSeconds"] * probe["failureThreshold"] >= 3600


def test_a_fault_of_the_database_does_not_take_the_only_pod_from_its_service():
    """Readers and /metrics go on in it, and Kubernetes leads nobody to a pod that is not ready."""
    replicas = next(each for each in MANIFESTS if each["kind"] == "Deployment")["spec"]["replicas"]
    assert (replicas, CONTAINER["readinessProbe"]["httpGet"]["path"]) == (1, "/healthz")


def test_what_the_manifest_names_exists():
    """Settings, routes of the probes, the port, the labels by which service and policy find the pod."""
    settings = {f"RLVITALS_{name.upper()}" for name in Settings.model_fields}
    assert {each["name"] for each in CONTAINER["env"]} - {"NAMESPACE"} <= settings
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert ("GET", CONTAINER[probe]["httpGet"]["path"]) in ROUTES
    assert f"RLVITALS_PORT={CONTAINER['ports'][0]['containerPort']}" in DOCKERFILE
    labels = {"app.kubernetes.io/name": "rlvitals"}
    by_kind = {each["kind"]: each for each in MANIFESTS}
    assert by_kind["Deployment"]["spec"]["template"]["metadata"]["labels"] == labels
    assert by_kind["Service"]["spec"]["selector"] == labels
    assert by_kind["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"] == labels
    claim = POD["volumes"][0]["persistentVolumeClaim"]["claimName"]
    assert claim == by_kind["PersistentVolumeClaim"]["metadata"]["name"]


def test_no_variable_of_a_service_is_taken_for_a_setting():
    """Kubernetes gives pods RLVITALS_PORT=tcp://10.0.0.1:8600 for a service of that name, above the image's own."""
    service = next(each for each in MANIFESTS if each["kind"] == "Service")["metadata"]["name"]
    assert {f"{service.upper()}_{name}" for name in ("PORT", "SERVICE_HOST", "SERVICE_PORT")} & {
        f"RLVITALS_{name.upper()}" for name in Settings.model_fields
    } == {"RLVITALS_PORT"}
    assert POD["enableServiceLinks"] is False


def test_key_files_lie_on_the_volume():
    """They outlive the pod; elsewhere each start would make new keys, or fail on a read-only file system."""
    files = next(each["value"] for each in CONTAINER["env"] if each["name"] == "RLVITALS_KEY_FILES")
    assert all(entry.partition(":")[2].startswith("/data/") for entry in files.split(","))
