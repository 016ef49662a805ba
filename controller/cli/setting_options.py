"""The command line options that are settings; `run` and `check` share them."""

import os
from pathlib import Path
from typing import Annotated

import typer

from controller.settings.errors import SettingsError
from controller.settings.settings import Loaded, load
from controller.settings.sources import Given
from controller.settings.table import SETTINGS


def _default(flag: str) -> str:
    return next(one.default or "" for one in SETTINGS if one.flag == flag)


ZooKeeper = Annotated[
    str | None, typer.Option("--zookeeper", metavar="HOST:PORT,.../CHROOT", help="ZooKeeper.")
]
BrokerId = Annotated[
    str | None, typer.Option("--broker-id", metavar="ID", help="The daemon's own, no broker's.")
]
Listeners = Annotated[
    str | None,
    typer.Option(
        "--listeners",
        metavar="NAME://HOST:PORT,...",
        help="Its addresses.",
        show_default=_default("--listeners"),
    ),
]
LogDir = Annotated[
    str | None, typer.Option("--log-dir", metavar="DIR", help="Where event logs go.")
]
TakeOver = Annotated[
    bool | None,
    typer.Option(
        "--take-over/--no-take-over",
        help="Take the role from a living controller.",
        show_default="no-take-over",
    ),
]
LogFormat = Annotated[
    str | None,
    typer.Option(
        "--log-format",
        metavar="auto|json|text",
        help="Form of the messages.",
        show_default=_default("--log-format"),
    ),
]
Config = Annotated[
    Path | None, typer.Option("--config", help="A .toml file, or a broker's server.properties.")
]


def load_or_exit(command: str, config: Path | None, **options: str | bool | None) -> Loaded:
    """The settings; where they cannot be used, says why and exits with status 2. `options` are
    named as their flags, `log_dir` for --log-dir."""
    try:
        return load(_given(options), os.environ, config)
    except SettingsError as error:
        for problem in error.problems:
            typer.echo(f"{command}: {problem}", err=True)
        raise typer.Exit(2) from None


def _given(options: dict[str, str | bool | None]) -> list[Given]:
    keys = {setting.flag: setting.key for setting in SETTINGS if setting.flag}
    flags = {f"--{name.replace('_', '-')}": value for name, value in options.items()}
    return [
        Given(keys[flag], str(value).lower() if isinstance(value, bool) else value, flag)
        for flag, value in flags.items()
        if value is not None
    ]
