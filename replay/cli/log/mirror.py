"""`refold log mirror` and `refold log fetch`."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from msgspec import structs

from controller.settings.errors import SettingsError
from eventstore.errors import from_os
from replay.cli.exit_status import DAMAGED, UNUSABLE
from replay.cli.log.conventions import log_errors
from replay.cli.options import JsonLines
from replay.cli.progress import progress
from replay.cli.redacted import Redact, redacted_logs
from replay.errors import ReplayError

if TYPE_CHECKING:
    from eventstore.mirror.publishing import OnEvent
    from eventstore.mirror.topic import MirrorTopic

_CONFIG = "--command-config"

Servers = Annotated[
    str,
    typer.Option(
        "--bootstrap-server", metavar="HOST:PORT,...", help="Brokers of the cluster with the topic."
    ),
]
TopicName = Annotated[
    str, typer.Option("--topic", metavar="NAME", help="The topic that contains the logs.")
]
Config = Annotated[
    Path | None, typer.Option(_CONFIG, metavar="FILE", help="Kafka client settings.")
]


def mirror(
    parent: Annotated[
        Path, typer.Argument(metavar="LOGS", help="The folder that contains the logs.")
    ],
    servers: Servers,
    topic: TopicName = "refold-log",
    config: Config = None,
    redact: Redact = False,
    as_json: JsonLines = False,
) -> None:
    """Publish the logs below LOGS to a topic, each record once.

    Each log is verified first, and a damaged log is not published. The command can be stopped at
    any time and continues at the next call. A daemon with `refold run --mirror` publishes its log
    while it runs, without verifying it.

    With --redact, each log is published under other names, once its daemon has ended. Use a topic
    that has no logs with the original names.

    Exit status: 0 done; 1 a log is damaged or cannot be redacted; 2 the logs or the topic cannot be
    used.
    """
    from anyio import run as run_async

    from eventstore.mirror.publishing import MirrorEvent, Publisher

    left: set[str] = set()

    def on_event(event: MirrorEvent) -> None:
        if event.kind in ("damaged", "withheld"):
            left.add(event.log)
        if as_json:
            typer.echo(msgspec.json.encode(event))
        elif event.kind == "whole":
            typer.echo(f"{event.log}: {event.records} records published, complete")
        elif event.kind in ("damaged", "withheld"):
            typer.echo(event.text, err=True)
        elif event.text:
            typer.echo(f"{event.log}: {event.text}")

    with _errors():
        target = mirrored_topic(servers, topic, config)
        if redact:
            count = _publish_redacted(parent, target, on_event)
        else:
            count = run_async(Publisher(parent, target, on_event).publish)
    if not as_json:
        typer.echo(f"{count} records published")
    if left:
        raise typer.Exit(DAMAGED)


def _publish_redacted(parent: Path, topic: "MirrorTopic", on_event: "OnEvent") -> int:
    """Publish the logs with other names; returns the number of records. Each log has its own, so
    that a published log does not change when others follow. Raises LogError."""
    from anyio import run as run_async

    from eventstore import folders
    from eventstore.mirror.publishing import MirrorEvent, Publisher, report_damages

    try:
        logs = folders.logs_in(parent)
    except OSError as error:
        raise from_os(error, parent) from error
    count = 0
    for log in logs:

        def of_original(event: MirrorEvent, log: Path = log) -> None:
            on_event(structs.replace(event, log=str(log)))

        if folders.is_being_written(log):
            text = f"{log} is being written: it can be redacted once its daemon has ended"
            on_event(MirrorEvent("withheld", str(log), text))
        elif report_damages(log, on_event):
            try:
                with redacted_logs([log], name=log.name) as other:
                    [copy] = other.logs
                    count += run_async(Publisher(copy.parent, topic, of_original).publish)
            except ReplayError as error:
                on_event(MirrorEvent("withheld", str(log), f"{log} is not published: {error}"))
    return count


def fetch(
    servers: Servers,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="The folder for the logs.")
    ] = None,
    run: Annotated[
        str | None,
        typer.Option("--run", metavar="NAME", help="Only this log: NAME or CLUSTER/NAME."),
    ] = None,
    is_list: Annotated[bool, typer.Option("--list", help="List the logs of the topic.")] = False,
    topic: TopicName = "refold-log",
    config: Config = None,
    as_json: JsonLines = False,
) -> None:
    """Copy mirrored logs from a topic into folders below DIR.

    A folder has the name of its log. A log that is incomplete on the topic is reported, and the
    others are copied.

    Exit status: 0 done, 1 a log is incomplete or damaged, 2 the topic or DIR cannot be used.
    """
    if is_list == (out is not None):
        raise typer.BadParameter("one of --out and --list is needed", param_hint="--out")
    with _errors(), progress() as report:
        source = mirrored_topic(servers, topic, config)
        reading = partial(report, "reading the topic")
        if out is None:
            _list(source, reading, as_json)
        elif not _fetch(source, out, run, reading, as_json):
            raise typer.Exit(DAMAGED)


def _list(source: Any, reading: Any, as_json: bool) -> None:
    from anyio import run as run_async

    from eventstore.mirror.fetching import list_logs

    for one in run_async(list_logs, source, reading, partial(_say_waiting, source)):
        if as_json:
            typer.echo(msgspec.json.encode(one))
        else:
            typer.echo(f"{one.cluster}/{one.name}: {one.records} records")


def _fetch(source: Any, out: Path, run: str | None, reading: Any, as_json: bool) -> bool:
    """Whether all logs were copied and are sound."""
    from anyio import run as run_async

    from eventstore.mirror.fetching import NotFetched
    from eventstore.mirror.fetching import fetch as fetch_logs

    is_all_sound = True
    waits = partial(_say_waiting, source)
    for one in run_async(fetch_logs, source, out, run, reading, waits):
        is_sound = not isinstance(one, NotFetched) and one.report.is_sound
        is_all_sound &= is_sound
        if as_json:
            content = {"sound": is_sound, **msgspec.to_builtins(one, enc_hook=str)}
            typer.echo(msgspec.json.encode(content))
        elif isinstance(one, NotFetched):
            typer.echo(f"{one.log} was not copied: {one.reason}", err=True)
        else:
            cut = ", without its beginning, which is no longer on the topic" if one.is_cut else ""
            typer.echo(f"{one.folder}: {one.records} records, cluster {one.cluster}{cut}")
            for damage in one.report.damages:
                typer.echo(f"{damage.file}, {damage.record}: {damage.text}", err=True)
    return is_all_sound


def _say_waiting(topic: Any) -> None:
    typer.echo(f"{topic.place}: waiting for a producer's transaction to end", err=True)


def mirrored_topic(servers: str, name: str, config: Path | None) -> Any:
    """The topic of logs. Raises SettingsError."""
    from controller.settings.client_options import client_options
    from eventstore.mirror.topic import MirrorTopic

    # aiokafka logs each attempt; the error reports the failure once.
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    return MirrorTopic(name, {**client_options(config, _CONFIG), "bootstrap_servers": servers})


@contextmanager
def _errors() -> Iterator[None]:
    """Print errors of the log in one line each, with the exit codes of `log_errors`, and each error
    in a file of settings."""
    try:
        with log_errors():
            yield
    except SettingsError as error:
        for problem in error.problems:
            typer.echo(f"refold log: {problem}", err=True)
        raise typer.Exit(UNUSABLE) from None
