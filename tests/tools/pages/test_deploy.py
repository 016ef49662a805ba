"""The files in docs/deploy: systemd, Kubernetes and the daemon accept them."""

import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller.settings.settings import Settings, load
from tools.pages import ROOT

FOLDER = ROOT / "docs" / "deploy"
UNIT = FOLDER / "refold.service"
ANALYZE = shutil.which("systemd-analyze")
KINDS = ["ConfigMap", "Service", "PodDisruptionBudget", "StatefulSet"]


def manifests() -> dict[str, Any]:
    documents = yaml.safe_load_all((FOLDER / "kubernetes.yaml").read_text())
    return {one["kind"]: one for one in documents}


def container() -> Any:
    [found] = manifests()["StatefulSet"]["spec"]["template"]["spec"]["containers"]
    return found


def settings_of_pod(tmp_path: Path) -> Settings:
    """The settings that a daemon reads in the pod refold-1."""
    file = tmp_path / "refold.toml"
    file.write_text(manifests()["ConfigMap"]["data"]["refold.toml"])
    variables = {one["name"]: one["value"] for one in container()["env"] if "value" in one}
    environment = {
        name: text.replace("$(POD_NAME)", "refold-1").replace("$(POD_NAMESPACE)", "kafka")
        for name, text in variables.items()
    }
    loaded = load([], environment, file)
    assert loaded.warnings == ()
    return loaded.settings


def unit_value(key: str) -> str:
    [found] = re.findall(rf"^{key}=(.*)$", UNIT.read_text(), re.MULTILINE)
    return str(found)


@pytest.mark.skipif(ANALYZE is None, reason="systemd is not installed")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / "refold.service"
    # The command has to exist, and the manual page to be installed.
    text = UNIT.read_text().replace("/opt/refold/bin/refold", "/bin/true")
    unit.write_text(text.replace("Documentation=man:refold(1)\n", ""))
    done = subprocess.run(
        [str(ANALYZE), "verify", str(unit)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_unit_restarts_a_daemon_that_gave_up_and_not_one_that_refused() -> None:
    assert unit_value("Restart") == "on-failure"
    assert unit_value("RestartPreventExitStatus") == "2"
    assert (unit_value("Type"), unit_value("WatchdogSec")) == ("notify", "30")


@pytest.mark.parametrize("version", ["1.29", "1.34"])
def test_manifests_have_the_schema_of_kubernetes(version: str) -> None:
    validator = pytest.importorskip("kubernetes_validate")
    assert list(manifests()) == KINDS
    for one in manifests().values():
        validator.validate(one, version, strict=True)


def test_manifests_make_a_pair_that_brokers_and_prometheus_reach(tmp_path: Path) -> None:
    settings = settings_of_pod(tmp_path)
    assert settings.standby
    assert not settings.take_over
    [advertised] = settings.advertised_listeners
    assert (advertised.host, advertised.port) == ("refold-1.refold.kafka.svc", 9092)
    service, workload = manifests()["Service"], manifests()["StatefulSet"]
    assert workload["spec"]["serviceName"] == service["metadata"]["name"] == "refold"
    ports = {one["name"]: one["containerPort"] for one in container()["ports"]}
    assert settings.metrics_address is not None
    assert settings.metrics_address.host == "0.0.0.0"
    assert ports == {"kafka": advertised.port, "metrics": settings.metrics_address.port}
    mounts = {one["mountPath"] for one in container()["volumeMounts"]}
    assert str(settings.log_dir) in mounts


def test_volume_has_the_size_of_the_formula(tmp_path: Path) -> None:
    settings = settings_of_pod(tmp_path)
    [claim] = manifests()["StatefulSet"]["spec"]["volumeClaimTemplates"]
    size = claim["spec"]["resources"]["requests"]["storage"]
    assert settings.retention_bytes is not None
    # docs/logs.md#disk-space
    needed = settings.retention_bytes + 2 * settings.segment_bytes
    assert needed < int(size.removesuffix("Gi")) * 2**30


def test_image_runs_the_file_and_the_version_of_the_manifests() -> None:
    image = (FOLDER / "Containerfile").read_text()
    mounts = {one["mountPath"] for one in container()["volumeMounts"]}
    assert 'CMD ["run", "--config", "/etc/refold/refold.toml"]' in image
    assert {"/etc/refold", "/var/lib/refold"} <= mounts
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert container()["image"] == f"refold:{version}"
    assert f"refold:{version}" in image
