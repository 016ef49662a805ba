"""`refold reassign`: starts, monitors and cancels partition reassignments."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec
import typer

from controller.cli.output import OutputFault
from controller.cli.reassign_options import (
    ACTIONS,
    BROKERS,
    FILE,
    TIMEOUT_MS,
    TOPICS,
    action_of,
    checked_action,
    with_options,
)
from controller.operator.errors import OperatorError
from controller.operator.reassignment import (
    cancelling,
    executing,
    requesting,
    stray_deleting,
    stray_listing,
    verifying,
)
from controller.operator.reassignment.cluster import ClusterConnection, connected
from controller.operator.reassignment.documents import read_brokers, read_targets, read_topics
from controller.operator.reassignment.errors import BadInput, ReassignmentRefused
from controller.operator.reassignment.generating import generate
from controller.operator.reassignment.listing import list_reassignments
from controller.operator.reassignment.report import DONE, REFUSED, UNUSABLE, ProgressReport
from controller.operator.reassignment.throttling import clear_throttles_after_rollback

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command("reassign")
@with_options
def reassign(given: dict[str, Any]) -> None:
    """Reassign partitions, with the flags and files of kafka-reassign-partitions. While refold is
    controller, you can also cancel and extend reassignments in progress (KIP-236).

    Exit status: 0 success (--verify: complete); 1 rejected; 2 invalid options or files, or the
    cluster is not reachable; 3 in progress or not started yet; 4 a different outcome (other
    replicas, changed, not started), or stray replicas exist.
    """
    as_json = given["json"]
    report = ProgressReport(
        action_of(given), _silent if as_json else typer.echo, _silent if as_json else _to_stderr
    )
    try:
        asyncio.run(_run_action(checked_action(given), given, report))
    except OperatorError as error:
        report.status = REFUSED if isinstance(error, ReassignmentRefused) else UNUSABLE
        report.data["error"] = str(error)
        for line in str(error).splitlines() if not as_json else ():
            _to_stderr(f"refold reassign: {line}")
    except OutputFault:
        # The assignment to go back to was not printed, so the command stops and must not succeed.
        if "dry-run" in ACTIONS[report.data["action"]].may:
            raise typer.Exit(UNUSABLE) from None
        raise
    if as_json:
        with suppress(OutputFault):
            typer.echo(msgspec.json.encode(report.data).decode())
    raise typer.Exit(report.status)


def _silent(line: str) -> None:
    pass


def _to_stderr(line: str) -> None:
    typer.echo(line, err=True)


async def _run_action(action: str, given: dict[str, Any], report: ProgressReport) -> None:
    """Read the files, then connect and run the action. Raises OperatorError."""
    report.data["dry_run"] = given["dry-run"]
    do = _prepare_action(action, given, report)
    addresses = given["zookeeper"], given["bootstrap-server"], given["command-config"]
    async with connected(*addresses, given["zk-tls-config-file"]) as cluster:
        await do(cluster)
        if given["wait"] and report.awaited and report.status == DONE:
            keep = given["preserve-throttles"]
            await verifying.verify(
                cluster,
                report,
                report.awaited,
                wait=True,
                preserve_throttles=keep,
                dry_run=False,
                # Kafka's API does not say in which order a cancellation restores the originals.
                in_any_order=given["cancel"] and given[FILE] is not None,
            )
        if _may_clear_throttles(given) and "throttles_cleared" not in report.data:
            await clear_throttles_after_rollback(cluster, report, report.awaited)


def _may_clear_throttles(given: dict[str, Any]) -> bool:
    """Whether this --cancel rolls back everything and may change configurations."""
    keeps = given["preserve-throttles"] or given["dry-run"]
    return given["cancel"] and given[FILE] is None and not keeps


def _prepare_action(
    action: str, given: dict[str, Any], report: ProgressReport
) -> Callable[[ClusterConnection], Any]:
    """Read the files that the action needs, and return it as a function of the cluster. Raises
    BadInput."""
    dry_run = given["dry-run"]
    throttle = given["throttle"] if given["throttle"] != -1 else None
    keep = given["preserve-throttles"]
    limit_ms = TIMEOUT_MS if given["timeout"] is None else given["timeout"]
    targets = read_targets(given[FILE]) if given[FILE] is not None else {}
    match action:
        case "generate" | "generate-extra":
            topics, brokers = read_topics(given[TOPICS]), read_brokers(given[BROKERS])
            aware = not given["disable-rack-aware"]
            return lambda cluster: generate(cluster, report, topics, brokers, rack_aware=aware)
        case "execute":
            more = given["additional"]
            return lambda cluster: executing.execute(
                cluster, report, targets, throttle, additional=more, dry_run=dry_run
            )
        case "execute-extra":
            return lambda cluster: executing.execute_extra(
                cluster, report, targets, throttle, dry_run=dry_run
            )
        case "verify" if given["id"]:
            czxids = [_czxid(one) for one in given["id"]]
            return lambda cluster: verifying.verify_ids(cluster, report, czxids)
        case "verify" | "verify-extra":
            wait = given["wait"]
            return lambda cluster: verifying.verify(
                cluster, report, targets, wait=wait, preserve_throttles=keep, dry_run=dry_run
            )
        case "cancel" if targets:
            return lambda cluster: cancelling.cancel_listed(
                cluster, report, targets, preserve_throttles=keep, dry_run=dry_run
            )
        case "cancel":
            force = given["force"]
            return lambda cluster: cancelling.cancel_all(
                cluster, report, force=force, dry_run=dry_run
            )
        case "remove-cancel":
            return lambda cluster: cancelling.remove_cancel(cluster, report, dry_run=dry_run)
        case "request":
            return lambda cluster: requesting.request(
                cluster, report, targets, throttle, timeout_ms=limit_ms, dry_run=dry_run
            )
        case "list-strays":
            return lambda cluster: stray_listing.list_strays(cluster, report)
        case "delete-strays":
            return lambda cluster: stray_deleting.delete_strays(
                cluster, report, timeout_ms=limit_ms, dry_run=dry_run
            )
        case _:
            return lambda cluster: list_reassignments(cluster, report)


def _czxid(text: str) -> int:
    """A czxid, decimal or as ZooKeeper's tools print it (0x1a). Raises BadInput."""
    try:
        return int(text, 0)
    except ValueError:
        raise BadInput(f"--id {text!r} is not a czxid such as 0x1a2b") from None
