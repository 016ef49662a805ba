from collections.abc import Mapping
from pathlib import Path

import pytest

from controller.settings.config_providers import ConfigProviders
from controller.settings.errors import SettingsError
from controller.settings.sources import from_file

CLASS = "org.apache.kafka.common.config.provider"
PROVIDERS = {
    "config.providers": "file,env,dir",
    "config.providers.file.class": f"{CLASS}.FileConfigProvider",
    "config.providers.env.class": f"{CLASS}.EnvVarConfigProvider",
    "config.providers.dir.class": f"{CLASS}.DirectoryConfigProvider",
}


def resolved(text: str, environment: Mapping[str, str] | None = None, **more: str) -> str:
    """A text with `more` parameters of providers, with _ for dots."""
    parameters = {"config.providers." + key.replace("_", "."): value for key, value in more.items()}
    return ConfigProviders(PROVIDERS | parameters, environment or {}).resolved(text)


def test_references_are_replaced_by_the_values_of_files_and_variables(tmp_path: Path) -> None:
    secrets = tmp_path / "secrets.properties"
    secrets.write_text("password=a b\\u0063=$\n")
    (tmp_path / "user").write_text("alice")
    text = f'"${{file:{secrets}:password}}" ${{env:PART}}/${{dir:{tmp_path}:user}} $x ${{other:y}}'
    assert resolved(text, {"PART": "p"}) == '"a bc=$" p/alice $x ${other:y}'


def test_spaces_and_line_breaks_at_the_ends_of_a_value_do_not_count(tmp_path: Path) -> None:
    (tmp_path / "store").write_text(" store password \n")
    assert resolved(f"${{dir:{tmp_path}:store}}") == "store password"


def test_without_providers_a_reference_is_a_text() -> None:
    assert ConfigProviders({}).resolved("${file:/a:b}") == "${file:/a:b}"


@pytest.mark.parametrize(
    ("reference", "reported"),
    [
        ("${file:/absent:key}", "cannot be resolved: No such file"),
        ("${file:FOLDER/secrets:other}", "the file has no such key"),
        ("${file:FOLDER/../outside:key}", "allowed.paths does not allow the file"),
        ("${file:FOLDER/link:key}", "allowed.paths does not allow the file"),
        ("${dir:FOLDER:../outside}", "must be the name of a file"),
        ("${env:ABSENT}", "no such environment variable"),
        ("${env:HOME}", "allowlist.pattern does not allow it"),
        ("${env:path:USER}", "has no path"),
    ],
)
def test_reference_that_leads_nowhere_is_an_error(
    tmp_path: Path, reference: str, reported: str
) -> None:
    folder = tmp_path / "allowed"
    folder.mkdir()
    (folder / "secrets").write_text("key=secret")
    (tmp_path / "outside").write_text("key=secret")
    (folder / "link").symlink_to(tmp_path / "outside")
    with pytest.raises(ValueError, match=reported) as raised:
        resolved(
            reference.replace("FOLDER", str(folder)),
            {"HOME": "/root"},
            file_param_allowed_paths=f"{folder},/absent",
            env_param_allowlist_pattern="ABSENT|USER",
        )
    assert str(raised.value).startswith("${")


@pytest.mark.parametrize("kind", ["com.example.VaultConfigProvider", ""])
def test_provider_of_another_class_is_refused_by_name(kind: str) -> None:
    given = {"config.providers": "vault", "config.providers.vault.class": kind}
    with pytest.raises(ValueError, match=f"config.providers.vault.class={kind}: refold has"):
        ConfigProviders(given)


def test_invalid_pattern_is_refused() -> None:
    with pytest.raises(ValueError, match=r"allowlist\.pattern=\(: "):
        resolved("${env:A}", {}, env_param_allowlist_pattern="(")


def test_file_of_settings_is_resolved_and_errors_name_the_key(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    lines = [f"{key}={value}" for key, value in PROVIDERS.items()]
    file.write_text("\n".join([*lines, "broker.rack=${env:PATH}", "num.partitions=${env:NO_SUCH}"]))
    with pytest.raises(SettingsError, match=r"num\.partitions .*:6\): \$\{env:NO_SUCH\} cannot"):
        from_file(file)
    file.write_text("\n".join([*lines, "broker.rack=${env:PATH}"]))
    (*_, rack) = from_file(file)
    assert rack.text != rack.given == "${env:PATH}"
