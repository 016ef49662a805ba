"""docs/log-codes.md: the codes of the daemon's log messages, their levels, and what to do.

The codes and levels are read from the calls in controller/core; the texts are below.
"""

import ast
import logging
import textwrap
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

from controller.brokers.errors import ChannelError
from controller.core.procedures.reassignment.rollback import WAITS
from controller.structured_log import JsonLines

ROOT: Final = Path(__file__).parents[2]
LEVELS: Final = ("error", "warning", "info")
_COLUMNS: Final = 110
_CHANNEL: Final = "channel_"
_RECOVERED: Final = "recovered"
_NOTHING: Final = "nothing"
_FAILURES_LEVEL: Final = "warning"
_LEVEL_BY_CODE: Final = {
    "broker_started": "info",
    "broker_bounced": "warning",
    "broker_failed": "warning",
    "channel_recovered": "info",
    "channel_unreachable": "warning",
    "channel_closed": "error",
    "channel_version": "error",
}
"""Where one call reports several codes."""


class Text(NamedTuple):
    """The meaning of a code, and the action for the operator."""

    meaning: str
    action: str = _NOTHING


TEXTS: Final = {
    # The controller role
    "elected": Text("the daemon has the controller role; the failover begins"),
    "failover_done": Text("the failover is completed; the message counts brokers and partitions"),
    "failover_failed": Text(
        "the failover failed; the daemon gives the role up",
        "repair what the message names, usually a znode",
    ),
    "resigned": Text("the daemon is no longer controller; the message says why"),
    "standing_by": Text("another broker is controller; the daemon waits until the role is free"),
    "own_znode_left": Text(
        "/controller still belongs to the daemon's previous session; the daemon waits, as "
        "`refold.own.controller.znode=wait` says"
    ),
    "standby_ready": Text("the standby has read the cluster, and follows its changes"),
    "standby_used": Text(
        "a take-over used what the standby knows; the message counts the topics that were known "
        "and the states that had to be read"
    ),
    "standby_reads_all": Text(
        "the standby cannot follow the cluster: ZooKeeper is older than 3.6, or refused the watch; "
        "a take-over reads everything",
        "use ZooKeeper 3.6 or later; if it refused the watch, look up the ZooKeeper code",
    ),
    "lost_election": Text(
        "another broker became controller at the same time; the message says whether the daemon "
        "waits",
        "nothing; `refold health --zookeeper` names the controller",
    ),
    "role_not_taken": Text(
        "ZooKeeper refused the write that takes the role", "look up the ZooKeeper code"
    ),
    "epoch_changed": Text(
        "another client changed /controller_epoch; the daemon takes the role again",
        "find the client that wrote the znode",
    ),
    "foreign_controller": Text(
        "/controller is persistent or belongs to KRaft; the daemon stops",
        "do not run refold in a cluster that migrates to KRaft",
    ),
    "procedure_failed": Text(
        "a controller event failed and ended; the next events are processed",
        "run `refold why` for the event in the message",
    ),
    "batch_not_empty": Text(
        "requests of an earlier change were never sent, so states no longer change, as in Kafka; "
        "only with `refold.rules=kafka`",
        "restart the daemon",
    ),
    "unreadable_znode": Text(
        "the content of a znode cannot be used; the message says whether it was skipped or removed",
        "repair the znode if it was skipped",
    ),
    # Brokers
    "broker_started": Text("a broker registered"),
    "broker_bounced": Text(
        "a broker registered again before the controller noticed its end",
        "look for a restart of the broker",
    ),
    "broker_failed": Text(
        "the registration of a broker was deleted: it stopped, or its session expired",
        "look for a crash, a long garbage collection or network errors, unless it was stopped",
    ),
    "broker_error": Text(
        "a broker answered a control request with an error code; expected codes have level info",
        "look up the code in Kafka's protocol guide, and the time in the log of the broker",
    ),
    "broker_not_registered": Text(
        "a broker has lost its registration, answers, and does not register again (ZOOKEEPER-1740)",
        "restart the broker",
    ),
    "registration_left_over": Text(
        "the registration of a broker exists, and no process listens at its address "
        "(ZOOKEEPER-1740)",
        "start the broker; if it does not start because of the znode, delete the znode",
    ),
    "channel_unreachable": Text(
        "a registered broker does not accept or answer requests; the daemon retries",
        "check the broker and the network",
    ),
    "channel_closed": Text(
        "a broker closed the connection when a request was sent; the daemon retries",
        "look in the log of the broker",
    ),
    "channel_version": Text(
        "a broker does not support the version of a request, or its response cannot be read",
        "set `inter.broker.protocol.version` to the version of the brokers",
    ),
    "channel_recovered": Text("a broker answers again"),
    "no_listener": Text(
        "a broker has no listener with the configured name and gets no requests",
        "set `inter.broker.listener.name` or `control.plane.listener.name` as the brokers do",
    ),
    "protocol_mismatch": Text(
        "a broker runs with another `inter.broker.protocol.version` than the daemon",
        "set the version that the brokers have, and restart the daemon",
    ),
    "replicas_in_failed_log_dir": Text(
        "a log directory of a broker failed; its replicas are offline",
        "replace the disk, and restart the broker",
    ),
    # Elections and states
    "leaders_elected": Text("partitions have new leaders; the message names the kind of election"),
    "no_leader_elected": Text(
        "no replica can lead these partitions, which stay offline; the message says why",
        "start the brokers in the ISR; `refold why LOG --partition T-0` names them",
    ),
    "no_leader_created": Text(
        "new partitions get no leader: no replica is online, or the state znode was not written",
        "start a broker that has a replica",
    ),
    "unclean_leader": Text(
        "a replica outside of the ISR leads: records may be lost",
        "check `unclean.leader.election.enable`, and the consumers of the topic",
    ),
    "election_refused": Text(
        "a requested preferred leader election is not possible", "correct the request"
    ),
    "request_stays": Text(
        "/admin/preferred_replica_election cannot be deleted",
        "delete the znode, then request the election again",
    ),
    "isr_not_shrunk": Text(
        "a replica could not be removed from an ISR", "look up the ZooKeeper code"
    ),
    "isr_change_not_read": Text(
        "the state of a partition whose ISR changed cannot be read", "look up the ZooKeeper code"
    ),
    "leader_epoch_not_raised": Text(
        "the leader epoch of a reassigned partition was not raised", "look up the ZooKeeper code"
    ),
    "partition_state_refused": Text(
        "a partition cannot change into the requested state", "run `refold why` for the partition"
    ),
    "replica_state_refused": Text(
        "a replica cannot change into the requested state", "run `refold why` for the partition"
    ),
    # Topics
    "topic_found": Text("the controller found a new topic"),
    "topic_not_created": Text("a topic was not created", "look up the ZooKeeper code, then retry"),
    "topic_not_written": Text(
        "a topic's id or repaired assignment was not written: the topic stays as it was read",
        "look up the ZooKeeper code",
    ),
    "partitions_not_added": Text("partitions were not added to a topic", "repeat the request"),
    "partitions_refused": Text(
        "a topic that is being deleted gains no partitions", "create the topic again later"
    ),
    "no_partitions": Text(
        "the znode of a topic has no partitions", "delete the topic, or write its assignment"
    ),
    "no_replicas": Text(
        "partitions have no replicas and get no leader", "write their replicas into the znode"
    ),
    "partitions_missing": Text(
        "partitions are missing in the znode of a topic and keep their state",
        "write them into the znode again",
    ),
    "own_id_repaired": Text(
        "an assignment or ISR named the daemon's id, and was repaired",
        "exclude the daemon's id from reassignment plans",
    ),
    "assignment_mended": Text(
        "another client changed an assignment during a reassignment; it is written again",
        "use `refold reassign`",
    ),
    "topic_id_restored": Text(
        "another client wrote a topic's znode without the topic's id; the id is written again",
        "use tools of Kafka 2.8 or later",
    ),
    "topic_not_marked": Text("a request to delete a topic was not written", "repeat the request"),
    "topic_deletion_started": Text("the deletion of a topic begins"),
    "topic_deletion_waits": Text(
        "the deletion of a topic waits; the message says what for",
        "start the brokers that have replicas, or wait for the reassignment",
    ),
    "topic_deleted": Text("a topic is deleted"),
    "topic_not_deleted": Text(
        "the znodes of a deleted topic remain; the next deletion tries again",
        "look up the ZooKeeper code",
    ),
    "deletion_refused": Text(
        "the request to delete a topic was removed: there is no such topic, or "
        "`delete.topic.enable` is false",
        "correct the name or the setting",
    ),
    # Requests of clients
    "request_failed": Text(
        "a request failed with an unexpected error; the client gets an error",
        "run `refold why` for the event in the message",
    ),
    "not_authorized": Text(
        "a client may not do what it asked for; the message names the principal, the host, the "
        "operation and the resource (of many topics, the first five)",
        "if the client should have this right: `kafka-acls --add`",
    ),
    "quota_exceeded": Text(
        "a client creates or deletes more partitions than its `controller_mutation_rate` allows; "
        "the message names the user or the client id",
        "if the client should be allowed more: `kafka-configs --alter --add-config`",
    ),
    "credentials_not_altered": Text(
        "SCRAM credentials of a user were not written", "repeat the request"
    ),
    "features_not_written": Text("/feature was not written", "look up the ZooKeeper code"),
    "no_producer_ids": Text(
        "no block of producer ids can be allocated", "repair /latest_producer_id_block"
    ),
    # Reassignments
    "reassignment_begun": Text("a reassignment begins; the message has the old and new replicas"),
    "reassignment_replaced": Text("the target of a reassignment in progress changes"),
    "reassignment_completed": Text("a reassignment is completed"),
    "reassignment_failed": Text("a reassignment failed", "run `refold why LOG --reassignment T-0`"),
    "reassignment_refused": Text(
        "a request for a reassignment was rejected", "correct the request as the message says"
    ),
    "reassignment_waits": Text(
        "a reassignment or request waits; the message says what for",
        "start the brokers that it names, or remove /admin/reassign_cancel",
    ),
    "reassignment_ended": Text(
        "another client or controller ended a reassignment",
        "`refold why LOG --reassignment T-0` shows the end; `refold reassign --list-strays` finds "
        "files that dead brokers kept",
    ),
    "reassignment_cancelled": Text(
        "a reassignment that had not begun, or that names no replica, is cancelled"
    ),
    "reassignments_cancelled": Text("/admin/reassign_cancel exists: reassignments are rolled back"),
    "reassignments_go_on": Text("/admin/reassign_cancel was deleted: reassignments continue"),
    "reassignment_not_cancelled": Text(
        "a reassignment was completed before its cancellation", "reassign the partition back"
    ),
    "below_min_insync_replicas": Text(
        "an entry of /admin/reassign_partitions begins for a partition whose replicas before the "
        "move are fewer than `min.insync.replicas` of the topic: producers with acks=all fail",
        "wait until the reassignment has added replicas, or lower the setting",
    ),
    "replicas_dropped": Text("replicas of an earlier target are no longer needed"),
    "rollback": Text("a step of a rollback is done ([kip-236.md](kip-236.md))"),
    "rollback_waits": Text(
        "a partition cannot be rolled back yet: too few original replicas are in sync",
        "start their brokers, or force the rollback ([reassign.md](reassign.md))",
    ),
    "rollback_forced": Text("a rollback waits for one original replica in sync only"),
    "rollback_given_up": Text("a rollback was given up; the partition continues to its target"),
    "reassignment_rolled_back": Text("a rollback is completed"),
    "repeated_entry": Text(
        "/admin/reassign_partitions has several entries for a partition; the last one counts",
        "correct the plan",
    ),
    "entries_mended": Text(
        "another client removed entries of reassignments in progress; they are written again",
        "use `refold reassign --cancel`",
    ),
    "entries_not_written": Text(
        "/admin/reassign_partitions cannot be written", "look up the ZooKeeper code"
    ),
    "wrong_originals": Text("an entry names wrong original replicas; the known ones count"),
    "record_mended": Text(
        "another client changed the record of a reassignment; it is written again",
        "leave /admin/reassignments to refold",
    ),
    "record_not_mended": Text(
        "the record of a reassignment cannot be written", "look up the ZooKeeper code"
    ),
    "record_removed": Text("the record of a partition that does not exist is removed"),
    "record_not_removed": Text(
        "the record of a finished reassignment remains", "delete the znode in the message"
    ),
    "request_not_deleted": Text(
        "a finished KIP-236 request cannot be deleted", "delete the znode and its children"
    ),
    # Stray replicas
    "replicas_deleted": Text("a broker deleted the replicas that it still had"),
    "replicas_not_deleted": Text(
        "a broker may still have deleted replicas; the deletion is requested when it registers",
        "start the broker ([stray-replicas.md](stray-replicas.md))",
    ),
    "deletion_dropped": Text("replicas are not deleted, because the broker is assigned to them"),
    "earlier_log_deleted": Text(
        "a broker deletes the log of an earlier topic of the same name, whose deletion it had not "
        "confirmed"
    ),
    "deletion_not_removed": Text(
        "the record of a confirmed deletion remains", "delete the znode in the message"
    ),
}
"""By code, in the order of the page."""


def codes(root: Path = ROOT) -> dict[str, list[str]]:
    """The levels of each code that the core reports."""
    found: dict[str, set[str]] = {}
    for module in sorted((root / "controller/core").rglob("*.py")):
        tree = ast.parse(module.read_text(encoding="utf-8"))
        for function in ast.walk(tree):
            if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
                for code, levels in _codes_reported_by(function):
                    known = _LEVEL_BY_CODE.get(code)
                    found.setdefault(code, set()).update({known} if known else levels)
        for code in _codes_of_calls(tree, "Failures", "RollbackCause"):
            found.setdefault(code, set()).add(_FAILURES_LEVEL)
        for code in _codes_of_calls(tree, "report_error"):
            found.setdefault(code, set()).add("error")
    return {code: [one for one in LEVELS if one in found[code]] for code in sorted(found)}


def _codes_reported_by(
    function: ast.FunctionDef | ast.AsyncFunctionDef,
) -> Iterator[tuple[str, set[str]]]:
    texts = set(_texts(function))
    for call in ast.walk(function):
        if not isinstance(call, ast.Call) or not _is_named(call.func, "notice"):
            continue
        level, code, *_ = call.args
        levels = {*_texts(level)} if isinstance(level, ast.Constant) else texts & {*LEVELS}
        match code:
            case ast.Constant(value=str(name)):
                yield name, levels
            case ast.JoinedStr():
                yield from ((one, levels) for one in _channel_codes())
            case ast.Name():
                yield from ((one, levels) for one in texts & TEXTS.keys())


def _channel_codes() -> list[str]:
    errors: list[type[ChannelError]] = [ChannelError, *ChannelError.__subclasses__()]
    kinds = {one.kind for one in errors}
    return [f"{_CHANNEL}{kind}" for kind in (*kinds, _RECOVERED)]


def _texts(code: ast.AST) -> Iterator[str]:
    for one in ast.walk(code):
        if isinstance(one, ast.Constant) and isinstance(one.value, str):
            yield one.value


def _codes_of_calls(tree: ast.AST, *names: str) -> Iterator[str]:
    """The codes that calls of these names have as their second argument."""
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and any(_is_named(call.func, name) for name in names):
            code = call.args[1]
            if isinstance(code, ast.Constant):
                yield from _texts(code)
            elif _is_named(code, "WAITS"):
                yield WAITS


def _is_named(function: ast.expr, name: str) -> bool:
    return getattr(function, "attr", getattr(function, "id", "")) == name


def _example() -> str:
    """A message as the daemon logs it for a broker that failed."""
    text = "the registration of broker 2 was deleted"
    record = logging.LogRecord("controller.daemon.notices", logging.WARNING, "", 0, text, (), None)
    record.created = datetime(2026, 11, 21, 23, 21, 11, 24_000, UTC).timestamp()
    record.fields = {"code": "broker_failed", "subject": "broker 2", "event": 70, "term": 2}
    return JsonLines().format(record)


def page() -> str:
    """The page."""
    levels = codes()
    lines = [
        "# Log messages of the daemon",
        "",
        "The daemon logs to standard error: text on a terminal, otherwise one JSON object per line",
        "(`--log-format`, `refold.messages`). This page lists the codes of messages about the",
        "cluster. Alert on a code and a level: codes stay the same between versions, the wording",
        "of messages does not.",
        "",
        "```json",
        *textwrap.wrap(_example(), _COLUMNS, break_long_words=False),
        "```",
        "",
        "(In the log this is one line.)",
        "",
        "| field | content |",
        "|---|---|",
        "| `time` | UTC, in ms |",
        "| `level` | `info`, `warning` or `error` |",
        "| `logger` | the module that logged the message |",
        "| `message` | the text; a text line begins it with the subject if it does not name it |",
        "| `code` | one of the codes below; messages about the daemon itself (start, stop, "
        "ZooKeeper session, mirror) have no code |",
        "| `subject` | the znode, broker or partitions in question |",
        "| `event` | the event that caused the message: `refold log show LOG --from N --to N` |",
        "| `term` | the controller epoch |",
        "",
        "Generated from `tools/pages/log_codes.py` and `controller/core` by",
        "`python -m tools.pages --write`.",
        "",
        "## Codes",
        "",
        "| code | level | meaning | what to do |",
        "|---|---|---|---|",
    ]
    for code, text in TEXTS.items():
        level = ", ".join(levels.get(code, ()))
        lines.append(f"| `{code}` | {level} | {text.meaning} | {text.action} |")
    return "\n".join(lines) + "\n"
