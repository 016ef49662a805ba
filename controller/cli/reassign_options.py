"""The options of `refold reassign`: the flags of kafka-reassign-partitions and KIP-236, and
which of them can be combined."""

from collections.abc import Callable, Iterator
from functools import wraps
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple, TypedDict, get_type_hints

import typer

from controller.operator.reassignment.errors import BadInput

TIMEOUT_MS: Final = 10_000
"""The default of Kafka's tool."""

FILE: Final = "reassignment-json-file"
TOPICS: Final = "topics-to-move-json-file"
BROKERS: Final = "broker-list"


class Action(NamedTuple):
    """An action, named as its flag: the options that it requires, and those that it accepts."""

    needs: tuple[str, ...] = ()
    may: tuple[str, ...] = ()
    needs_zookeeper: bool = False
    needs_brokers: bool = False


_GENERATE: Final = ("disable-rack-aware",)
_THEN_WAIT: Final = ("wait", "preserve-throttles", "timeout", "dry-run")
"""For actions that start a reassignment; with --wait they continue as --verify --wait."""

ACTIONS: Final = {
    "generate": Action((TOPICS, BROKERS), _GENERATE),
    "execute": Action((FILE,), ("throttle", "additional", *_THEN_WAIT)),
    "verify": Action((), (FILE, "id", "wait", "preserve-throttles", "dry-run")),
    "cancel": Action((), (FILE, "force", *_THEN_WAIT)),
    "remove-cancel": Action((), ("dry-run",), needs_zookeeper=True),
    "generate-extra": Action((TOPICS, BROKERS), _GENERATE, needs_zookeeper=True),
    "execute-extra": Action((FILE,), ("throttle", *_THEN_WAIT), needs_zookeeper=True),
    "verify-extra": Action(
        (FILE,), ("wait", "preserve-throttles", "dry-run"), needs_zookeeper=True
    ),
    "request": Action((FILE,), ("throttle", *_THEN_WAIT), needs_zookeeper=True),
    "list": Action(),
    "list-strays": Action(needs_brokers=True),
    "delete-strays": Action((), ("timeout", "dry-run"), needs_zookeeper=True, needs_brokers=True),
}

_EVERYWHERE: Final = (
    "zookeeper",
    "zk-tls-config-file",
    "bootstrap-server",
    "command-config",
    "json",
)


def _flag(name: str, text: str) -> Any:
    return typer.Option(f"--{name}", help=text)


def _value(name: str, metavar: str, text: str) -> Any:
    return typer.Option(f"--{name}", metavar=metavar, help=text)


class _Options(TypedDict):
    """Named as their flags: `dry_run` for --dry-run. Names that are Python keywords or builtins
    end in _."""

    generate: Annotated[bool, _flag("generate", "Propose an assignment for topics.")]
    execute: Annotated[bool, _flag("execute", "Start the reassignments in the file.")]
    verify: Annotated[bool, _flag("verify", "Report the progress; clear the throttles at the end.")]
    cancel: Annotated[
        bool,
        _flag(
            "cancel",
            "Roll back all reassignments of /admin/reassign_partitions. With a file: cancel those "
            "of the partitions in the file, through Kafka's API.",
        ),
    ]
    remove_cancel: Annotated[
        bool, _flag("remove-cancel", "Allow reassignments again after --cancel.")
    ]
    generate_extra: Annotated[bool, _flag("generate-extra", "The same as --generate.")]
    execute_extra: Annotated[
        bool, _flag("execute-extra", "Start more reassignments while others are in progress.")
    ]
    verify_extra: Annotated[bool, _flag("verify-extra", "The same as --verify.")]
    request: Annotated[bool, _flag("request", "Request reassignments and print an id for each.")]
    list_: Annotated[bool, _flag("list", "List all reassignments in progress.")]
    list_strays: Annotated[
        bool, _flag("list-strays", "List replicas on disk that no assignment contains.")
    ]
    delete_strays: Annotated[
        bool,
        _flag(
            "delete-strays", "Ask the controller to delete the replicas that --list-strays lists."
        ),
    ]
    zookeeper: Annotated[
        str | None, _value("zookeeper", "HOST:PORT,.../CHROOT", "ZooKeeper; supports all actions.")
    ]
    zk_tls_config_file: Annotated[
        Path | None,
        _value("zk-tls-config-file", "FILE", "TLS and login for --zookeeper (docs/security.md)."),
    ]
    bootstrap_server: Annotated[
        str | None,
        _value(
            "bootstrap-server", "HOST:PORT,...", "Brokers; supports the actions of Kafka's APIs."
        ),
    ]
    command_config: Annotated[
        Path | None, _value("command-config", "FILE", "Client properties for --bootstrap-server.")
    ]
    reassignment_json_file: Annotated[
        Path | None, _value(FILE, "FILE", "The partitions and their replicas.")
    ]
    topics_to_move_json_file: Annotated[
        Path | None, _value(TOPICS, "FILE", "The topics, for --generate.")
    ]
    broker_list: Annotated[str | None, _value(BROKERS, "ID,ID,...", "The brokers, for --generate.")]
    disable_rack_aware: Annotated[bool, _flag("disable-rack-aware", "Ignore racks in --generate.")]
    throttle: Annotated[
        int | None,
        typer.Option("--throttle", metavar="BYTES", min=-1, help="Limit in bytes/s. -1: no limit."),
    ]
    force: Annotated[
        bool,
        _flag(
            "force",
            "For --cancel: roll back even if fewer than min(min.insync.replicas, number "
            "of originals) originals are in sync. Producers with acks=all may be "
            "rejected. If the originals in sync fail, the partition goes offline or "
            "loses records.",
        ),
    ]
    additional: Annotated[
        bool,
        _flag(
            "additional",
            "With --bootstrap-server: start although other reassignments are in progress.",
        ),
    ]
    preserve_throttles: Annotated[bool, _flag("preserve-throttles", "Do not clear throttles.")]
    timeout: Annotated[
        int | None,
        typer.Option(
            "--timeout",
            metavar="MS",
            min=0,
            show_default=str(TIMEOUT_MS),
            help=(
                "How long --request waits until the controller has accepted the request, and "
                "--delete-strays until the replicas are deleted."
            ),
        ),
    ]
    id_: Annotated[
        list[str] | None,
        _value("id", "CZXID", "For --verify: an id that --request printed; repeatable."),
    ]
    wait: Annotated[
        bool, _flag("wait", "Show the progress until the end, then continue as --verify.")
    ]
    dry_run: Annotated[bool, _flag("dry-run", "Print the steps without changing anything.")]
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def with_options(command: Callable[[dict[str, Any]], None]) -> Callable[..., None]:
    """Add all options to a command. It receives them by the names of their flags; options that
    are not given are False, None or []."""
    hints = get_type_hints(_Options, include_extras=True)
    defaults = {name: False if hint.__origin__ is bool else None for name, hint in hints.items()}
    parameters = [
        Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, default=defaults[name], annotation=hint)
        for name, hint in hints.items()
    ]

    @wraps(command)
    def with_given(**values: Any) -> None:
        command({name.rstrip("_").replace("_", "-"): one for name, one in values.items()})

    # typer derives the options from these.
    with_given.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    with_given.__annotations__ = hints
    return with_given


def action_of(given: dict[str, Any]) -> str:
    """The first action that is given, or an empty string."""
    return next((name for name in ACTIONS if given[name]), "")


def checked_action(given: dict[str, Any]) -> str:
    """The one action, if all options fit it. Raises BadInput."""
    actions = [name for name in ACTIONS if given[name]]
    if len(actions) != 1:
        names = ", ".join(f"--{name}" for name in ACTIONS)
        raise BadInput(f"Command must include exactly one action: {names}")
    (action,) = actions
    problems = list(_problems(action, ACTIONS[action], given))
    if problems:
        raise BadInput("\n".join(problems))
    return action


def _problems(name: str, action: Action, given: dict[str, Any]) -> Iterator[str]:
    for one in action.needs:
        if given[one] is None:
            yield f"--{name} requires --{one}"
    allowed = {name, *action.needs, *action.may, *_EVERYWHERE}
    for one, value in given.items():
        is_given = value is not None and value is not False and value != []
        if is_given and one not in allowed:
            yield f'Option "--{one}" can\'t be used with action "--{name}"'
    if given["zookeeper"] is None and given["bootstrap-server"] is None:
        yield "Please specify --zookeeper or --bootstrap-server"
    elif given["zookeeper"] is None:
        yield from _problems_without_zookeeper(name, action, given)
    if given["additional"] and given["zookeeper"] is not None:
        yield "--additional applies to --bootstrap-server; with --zookeeper use --execute-extra"
    if given["zk-tls-config-file"] is not None and given["zookeeper"] is None:
        yield "--zk-tls-config-file applies to --zookeeper"
    if given["command-config"] is not None and given["bootstrap-server"] is None:
        yield "--command-config applies to --bootstrap-server"
    if action.needs_brokers and given["bootstrap-server"] is None:
        yield f"--{name} asks brokers for their log directories and requires --bootstrap-server"
    if given["force"] and name == "cancel" and given[FILE] is not None:
        yield "--force applies to --cancel without a file, which rolls back everything"
    if name == "verify" and (given[FILE] is None) is (not given["id"]):
        yield f"--verify requires either --{FILE} or --id"
    if name == "cancel" and given[FILE] is not None and given["bootstrap-server"] is None:
        yield (
            "--cancel with a file uses Kafka's API and requires --bootstrap-server; "
            "without a file it rolls back everything in /admin/reassign_partitions"
        )


def _problems_without_zookeeper(name: str, action: Action, given: dict[str, Any]) -> Iterator[str]:
    if action.needs_zookeeper:
        yield f"--{name} works through znodes and requires --zookeeper: Kafka has no API for it"
    if name == "cancel" and given[FILE] is None:
        yield (
            "--cancel without a file rolls back everything in "
            f"/admin/reassign_partitions and requires --zookeeper; with --{FILE} Kafka's "
            "API cancels the partitions in the file"
        )
    if given["id"]:
        yield "--id names a znode and requires --zookeeper"
