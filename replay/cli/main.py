"""The `refold` command. A sub-command's module is imported only when that sub-command runs."""

import sys
from contextlib import suppress
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Any, Final, NamedTuple

import typer
from typer.core import TyperGroup

from controller.cli.output import OutputFault, standard_output
from controller.fingerprint import core_fingerprint
from replay.cli.exit_status import INTERNAL_ERROR, report_internal_error
from replay.cli.usage_errors import usage_errors_in_words
from replay.cli.value_names import name_values

_CANNOT_WRITE: Final = 2


class SubCommand(NamedTuple):
    """A sub-command: its typer app as "module:name", and its line in the help."""

    app: str
    help: str


SUB_COMMANDS: Final = {
    "run": SubCommand("replay.cli.run:app", "Run the controller of a Kafka cluster."),
    "status": SubCommand("controller.cli.status:app", "Show what a running daemon does."),
    "check": SubCommand(
        "replay.cli.check:app", "Check a take-over, or a migration to KRaft (--migration)."
    ),
    "reassign": SubCommand(
        "controller.cli.reassign:app", "Start, extend and cancel reassignments of replicas."
    ),
    "import": SubCommand(
        "replay.cli.import_source:app", "Make a log from the files of a stock cluster."
    ),
    "agree": SubCommand(
        "replay.cli.agree:app", "Compare a stock cluster's decisions with derived ones."
    ),
    "diff": SubCommand(
        "replay.cli.diff:app", "Compare the decisions of two versions of refold on logs."
    ),
    "explore": SubCommand(
        "replay.cli.explore:app", "Search a simulated cluster for orders that break invariants."
    ),
    "what-if": SubCommand(
        "replay.cli.what_if:app", "Change an incident, or find its point of no return."
    ),
    "new-incident": SubCommand(
        "replay.cli.new_incident:app", "Cut a log and keep it as a regression test."
    ),
    "health": SubCommand("replay.cli.health:app", "Show which partitions are not well."),
    "debug": SubCommand(
        "replay.cli.debug.command:app", "Step through a log in a terminal, in both directions."
    ),
    "report": SubCommand(
        "replay.cli.report:app", "Write a log as one page: findings, time line, decisions."
    ),
    "serve": SubCommand("replay.cli.serve:app", "Serve the reports of a folder on loopback."),
    "why": SubCommand("replay.cli.why:app", "Explain the state of a partition, broker or term."),
    "inspect": SubCommand(
        "replay.cli.inspect:app", "Show the cluster at a moment, or changes between two."
    ),
    "events": SubCommand("replay.cli.events:app", "List the events of a log, in words."),
    "decisions": SubCommand("replay.cli.decisions:app", "List decisions, each with its rule."),
    "log": SubCommand(
        "replay.cli.log.commands:app", "Verify, show, follow, copy, export, mirror event logs."
    ),
    "replay": SubCommand("replay.cli.replay:app", "Fold a log again and compare every command."),
    "fleet": SubCommand(
        "replay.cli.fleet.commands:app", "Analyse the logs of many clusters, on Spark."
    ),
}


class LazyGroup(TyperGroup):
    """Shows its sub-commands without importing them, and imports the one that is called."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Replace the placeholder of the help by the real command."""
        name, command, rest = super().resolve_command(ctx, args)
        if name in SUB_COMMANDS:
            command = _load(name)
        return name, command, rest

    def invoke(self, ctx: Any) -> Any:
        """Run a sub-command."""
        with usage_errors_in_words():
            return super().invoke(ctx)


app = typer.Typer(
    cls=LazyGroup,
    help="An event-sourced controller for Kafka clusters in ZooKeeper mode.\n\n"
    "Pages that help and messages name, such as docs/settings.md, are in the source tree.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """The entry point of the `refold` script.

    A closed output pipe does not change the exit code. If output cannot be written, one line says
    so, and the exit code is 2. After an unexpected exception, which is a bug, it is 70: other codes
    have meanings, such as "differs".
    """
    output = standard_output()
    status: Any = 0
    try:
        app(prog_name="refold")
    except SystemExit as ended:
        status = ended.code
    except OutputFault:
        pass
    except Exception as error:
        report_internal_error(error)
        status = INTERNAL_ERROR
    with suppress(OutputFault):
        sys.stdout.flush()
    if output.fault is not None and not output.is_unread:
        text = output.fault.strerror or output.fault
        typer.echo(f"refold: cannot write the output: {text}", err=True)
        status = _CANNOT_WRITE
    sys.exit(status)


def _load(name: str) -> Any:
    module_name, _, attribute = SUB_COMMANDS[name].app.partition(":")
    try:
        module = import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name != module_name:
            raise
        typer.echo(f"refold {name} is not part of this installation ({error})", err=True)
        raise typer.Exit(2) from None
    command = typer.main.get_command(getattr(module, attribute))
    name_values(command)
    return command


def _print_version(wanted: bool) -> None:
    if not wanted:
        return
    try:
        typer.echo(f"refold {version('refold')} (core {core_fingerprint()})")
    except PackageNotFoundError:
        typer.echo(f"refold, run from its source folder (core {core_fingerprint()})")
    raise typer.Exit()


@app.callback()
def _root(
    _version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_print_version,
            is_eager=True,
            help="Print the version and the core's fingerprint, and exit.",
        ),
    ] = False,
) -> None:
    pass


def _placeholder() -> None:
    """The placeholder of a sub-command in the help; `LazyGroup` replaces it."""


for _name, _sub_command in SUB_COMMANDS.items():
    app.command(_name, help=_sub_command.help)(_placeholder)


if __name__ == "__main__":
    main()
