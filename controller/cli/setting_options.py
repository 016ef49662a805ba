"""The command line options for settings, shared by `run` and `check`."""

import os
from collections.abc import Callable, Sequence
from functools import partial, wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypedDict, TypeVar, get_type_hints

import typer

from controller.settings.errors import SettingsError
from controller.settings.settings import (
    ClusterAccess,
    LoadedSettings,
    SettingSources,
    access_of,
    load,
)
from controller.settings.sources import RawSetting
from controller.settings.table import SETTINGS

Read = TypeVar("Read")


def _option(flag: str, metavar: str, help: str) -> Any:
    """An option with a value; its help shows the default of the setting."""
    shown = next(one.default or False for one in SETTINGS if one.flag == flag)
    return typer.Option(flag, metavar=metavar, help=help, show_default=shown)


class _Options(TypedDict):
    """Named as their flags: `log_dir` for --log-dir."""

    zookeeper: Annotated[
        str | None,
        _option(
            "--zookeeper", "HOST:PORT,.../CHROOT", "ZooKeeper's servers, and the cluster's chroot."
        ),
    ]
    broker_id: Annotated[
        str | None, _option("--broker-id", "ID", "The daemon's broker id; no broker may have it.")
    ]
    listeners: Annotated[
        str | None,
        _option(
            "--listeners", "NAME://HOST:PORT,...", "Where brokers and clients reach the daemon."
        ),
    ]
    inter_broker_protocol_version: Annotated[
        str | None,
        _option(
            "--inter-broker-protocol-version",
            "VERSION",
            "The inter.broker.protocol.version of the brokers.",
        ),
    ]
    log_dir: Annotated[str | None, _option("--log-dir", "DIR", "Directory for event logs.")]
    status_socket: Annotated[
        str | None,
        _option("--status-socket", "PATH", "The Unix socket for `refold status`."),
    ]
    metrics_address: Annotated[
        str | None,
        _option("--metrics-address", "HOST:PORT|off", "Where Prometheus reads the metrics."),
    ]
    mirror: Annotated[
        str | None,
        _option(
            "--mirror",
            "HOST:PORT,...",
            "Copy the event log to a topic on these brokers.",
        ),
    ]
    take_over: Annotated[
        bool | None,
        typer.Option(
            "--take-over/--no-take-over",
            help="Take the role even if another process has it.",
            show_default="no-take-over",
        ),
    ]
    standby: Annotated[
        bool | None,
        typer.Option(
            "--standby/--no-standby",
            help="Follow the cluster while another process is controller, and take over fast.",
            show_default="no-standby",
        ),
    ]
    wait_for_zookeeper: Annotated[
        bool | None,
        typer.Option(
            "--wait-for-zookeeper/--no-wait-for-zookeeper",
            help="At the start, wait until ZooKeeper answers.",
            show_default="under systemd and Kubernetes",
        ),
    ]
    log_format: Annotated[
        str | None, _option("--log-format", "auto|json|text", "Format of log messages.")
    ]
    config: Annotated[
        Path | None, typer.Option("--config", help="A .toml file or a broker's server.properties.")
    ]


class GivenSettings(NamedTuple):
    """The settings of a command line, before they are checked. If they are invalid, the problems
    are printed and the exit status is 2."""

    command: str
    flags: Sequence[RawSetting]
    config: Path | None

    def load(self, fallbacks: Sequence[RawSetting] = ()) -> LoadedSettings:
        """All settings, from options, environment and file. `fallbacks` are used where these
        have none."""
        return self._read_or_exit(partial(load, fallbacks=fallbacks))

    def sources(self) -> SettingSources:
        """The places from which the settings can be read again."""
        return SettingSources(self.flags, os.environ, self.config)

    def access(self) -> ClusterAccess:
        """Read only the access to ZooKeeper and the brokers; no other setting needs to be given."""
        return self._read_or_exit(access_of)

    def _read_or_exit(self, read: Callable[..., Read]) -> Read:
        try:
            return read(self.flags, os.environ, self.config)
        except SettingsError as error:
            for problem in error.problems:
                typer.echo(f"refold {self.command}: {problem}", err=True)
            raise typer.Exit(2) from None


def with_setting_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add these options before those of the command. Its first parameter receives the settings as
    they are given, so that the command decides which of them it needs."""
    _, *own = signature(command).parameters.values()
    shared = [
        Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation=kind)
        for name, kind in get_type_hints(_Options, include_extras=True).items()
    ]

    @wraps(command)
    def with_given(**values: Any) -> None:
        options = {one.name: values.pop(one.name) for one in shared}
        config = options.pop("config")
        command(GivenSettings(command.__name__, _raw_settings(options), config), **values)

    # typer derives the options from these.
    parameters = [*shared, *own]
    with_given.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    with_given.__annotations__ = {one.name: one.annotation for one in parameters}
    return with_given


def _raw_settings(options: dict[str, str | bool | None]) -> list[RawSetting]:
    keys = {setting.flag: setting.key for setting in SETTINGS if setting.flag}
    flags = {f"--{name.replace('_', '-')}": value for name, value in options.items()}
    return [
        RawSetting(keys[flag], str(value).lower() if isinstance(value, bool) else value, flag)
        for flag, value in flags.items()
        if value is not None
    ]
