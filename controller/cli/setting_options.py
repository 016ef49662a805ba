"""The command line options that are settings; `run` and `check` share them."""

import os
from pathlib import Path
from typing import Annotated

import typer

from controller.settings.errors import SettingsError
from controller.settings.settings import Loaded, load
from controller.settings.sources import Given
from controller.settings.table import SETTINGS

ZooKeeper = Annotated[
    str | None, typer.Option("--zookeeper", metavar="HOST:PORT,.../CHROOT", help="ZooKeeper.")
]
BrokerId = Annotated[
    str | None, typer.Option("--broker-id", metavar="ID", help="The daemon's own, no broker's.")
]
Listeners = Annotated[
    str | None, typer.Option("--listeners", metavar="NAME://HOST:PORT,...", help="Its addresses.")
]
LogDir = Annotated[
    str | None, typer.Option("--log-dir", metavar="DIR", help="Where event logs go.")
]
TakeOver = Annotated[
    bool | None,
    typer.Option("--take-over/--no-take-over", help="Take the role from a living controller."),
]
LogFormat = Annotated[
    str | None, typer.Option("--log-format", metavar="json|text", help="Form of the messages.")
]
Config = Annotated[
    Path | None, typer.Option("--config", help="A .toml file, or a broker's server.properties.")
]


def given_flags(values: dict[str, str | bool | None]) -> list[Given]:
    """The options that were given, by their flags."""
    keys = {setting.flag: setting.key for setting in SETTINGS if setting.flag}
    return [
        Given(keys[flag], str(value).lower() if isinstance(value, bool) else value, flag)
        for flag, value in values.items()
        if value is not None
    ]


def load_or_exit(command: str, values: dict[str, str | bool | None], config: Path | None) -> Loaded:
    """The settings; where they cannot be used, says why and exits with status 2."""
    try:
        return load(given_flags(values), os.environ, config)
    except SettingsError as error:
        for problem in error.problems:
            typer.echo(f"{command}: {problem}", err=True)
        raise typer.Exit(2) from None
