"""Versions of the code for comparisons: this version, and copies with deliberate changes."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final, NamedTuple

from replay.incidents.incident_folder import incidents_in

ROOT: Final = Path(__file__).parents[3]
INCIDENTS: Final = ROOT / "tests" / "incidents"
CRASH: Final = INCIDENTS / "broker-crash"
_IMPORTED: Final = ("stock-unclean-election", "migration-left", "migration-malformed")
RECORDED: Final = [one for one in incidents_in([INCIDENTS]) if one.name not in _IMPORTED]
"""The incidents of refold's controller."""
_PACKAGES: Final = ("controller", "eventstore", "replay")


class Edit(NamedTuple):
    """A replacement of one place in a file."""

    file: str
    old: str
    new: str


_CLEAN: Final = """    leader, passed_over = _first_in_sync(replicas, isr, is_online)
    if leader != NO_LEADER:
"""
LAST_OF_ISR: Final = Edit(
    "controller/core/election.py", _CLEAN, _CLEAN.replace("(replicas,", "(replicas[::-1],")
)
"""An election takes the last suitable replica instead of the first."""

_SHUTDOWN: Final = """    leader, passed_over = _first_eligible(replicas, why_not)
    if leader == NO_LEADER:
"""
LAST_AT_SHUTDOWN: Final = Edit(
    "controller/core/election.py", _SHUTDOWN, _SHUTDOWN.replace("(replicas,", "(replicas[::-1],")
)
"""The same change in a controlled shutdown."""

_CAUGHT_UP: Final = (
    "    moving = [one for one in partitions if one in controller.context.reassigning]\n"
)
NEVER_COMPLETE: Final = Edit(
    "controller/core/procedures/reassignment/partition_reassignment.py",
    _CAUGHT_UP,
    _CAUGHT_UP.replace("in partitions if", "in () if"),
)
"""A reassignment does not end when its replicas have caught up."""

_REMOVED: Final = """        return errors | dict.fromkeys(removed, error)
"""
NEVER_STORED: Final = Edit(
    "controller/core/procedures/reassignment/partition_reassignment.py",
    _REMOVED,
    f"""{_REMOVED}    for one in [one for one in led if before[one.partition].adding]:
        one.partition.assignment = before[one.partition]
        errors[one.partition] = ProcedureError("never stored")
        led.remove(one)
""",
)
"""A reassignment ends except for its record: no other partition state is written."""

METADATA_FIRST: Final = Edit(
    "controller/core/batch.py",
    "        for broker in sorted({**self._leader_and_isr, **self._prepared_for}):\n"
    "            if broker in self._context.brokers:\n"
    "                yield self._leader_and_isr_request(broker)\n"
    "        yield from self._update_metadata_requests()\n",
    "        yield from self._update_metadata_requests()\n"
    "        for broker in sorted({**self._leader_and_isr, **self._prepared_for}):\n"
    "            if broker in self._context.brokers:\n"
    "                yield self._leader_and_isr_request(broker)\n",
)
"""UpdateMetadata is sent before LeaderAndIsr."""

NEVER_UNCLEAN: Final = Edit(
    "controller/core/election.py",
    "if allow_unclean else NO_LEADER",
    "if not replicas else NO_LEADER",
)

_READ: Final = """    command = ReadZnodes(tuple(paths), watch)
    found = await _issue_read(client, command, lambda: ZnodeColumns(len(paths)), rule)
"""
READS_TWICE: Final = Edit(
    "controller/core/zookeeper_io.py",
    _READ,
    _READ + _READ[_READ.index("\n") + 1 :],
)
READS_ONE_BY_ONE: Final = Edit(
    "controller/core/zookeeper_io.py",
    _READ,
    """    found = ZnodeColumns(len(paths))
    for place, path in enumerate(paths):
        one = await _issue_read(client, ReadZnodes((path,), watch), lambda: ZnodeColumns(1), rule)
        for name in ("errors", "data", "czxids", "mzxids", "versions", "owners"):
            getattr(found, name)[place] = getattr(one, name)[0]
""",
)
DRAWS_LATE: Final = Edit(
    "controller/core/zookeeper_io.py",
    "    id = controller.issue(DrawTopicIds(count), Reason(rule))\n",
    "    from controller.core.commands import StartTimer\n"
    "    from controller.core.outcomes import BrokerResponses\n\n"
    '    controller.issue(StartTimer("late", 20), Reason(rule))\n'
    '    await suspend(Wait(None, BrokerResponses([], "late")))\n'
    "    id = controller.issue(DrawTopicIds(count), Reason(rule))\n",
)
"""The log has its topic ids before this version asks for them."""
WRITES_ONE_BY_ONE: Final = Edit(
    "controller/core/zookeeper_io.py",
    "    done = Writes(len(operations))\n",
    """    done = Writes(len(operations))
    if len(operations) > 1:
        for place, operation in enumerate(operations):
            part = await write(client, [operation], reason)
            done.errors[place], done.versions[place] = part.errors[0], part.versions[0]
        return done
""",
)
STATES_READ_TWICE: Final = Edit(
    "controller/core/procedures/elections/leadership.py",
    "    found = await read_state_znodes(controller, paths, rule, may_be_denied=True)\n",
    "    await read_znodes(controller, paths, rule, may_be_denied=True)\n"
    "    found = await read_state_znodes(controller, paths, rule, may_be_denied=True)\n",
)
"""The states of partitions are read twice before an election."""
READS_BEFORE_WRITING: Final = Edit(
    "controller/core/zookeeper_io.py",
    "    done = Writes(len(operations))\n",
    "    await read_stats(client, [one.path for one in operations], reason.rule)\n"
    "    done = Writes(len(operations))\n",
)
"""Every znode is read before it is written."""
WRITES_IN_PAIRS: Final = Edit(
    "controller/core/zookeeper_io.py",
    "    done = Writes(len(operations))\n",
    """    done = Writes(len(operations))
    if len(operations) > 2:
        for place in range(0, len(operations), 2):
            part = await write(client, operations[place : place + 2], reason)
            done.errors[place : place + 2] = part.errors
            done.versions[place : place + 2] = part.versions
        return done
""",
)
_DELETES: Final = (
    "    return (await write(controller, deletes, "
    'Reason("topic deletion: remove znodes"))).errors\n'
)
DELETES_ONE_BY_ONE: Final = Edit(
    "controller/core/procedures/topics/deletion.py",
    _DELETES,
    """    errors: list[int] = []
    for one in deletes:
        errors += (await write(controller, [one], Reason("topic deletion: remove znodes"))).errors
    return errors
""",
)
"""The znodes of a topic are deleted one by one."""
_SHRUNK: Final = "        state.leader_epoch + 1,\n"
SHRUNK_WITHOUT_EPOCH: Final = Edit(
    "controller/core/procedures/elections/replica_state_machine.py",
    _SHRUNK,
    _SHRUNK.replace(" + 1", ""),
)
"""A leader epoch stays if a replica is removed from the ISR."""
_DELETION_STARTED: Final = "    context.deletion_started.update(dict.fromkeys(fresh))\n"
FAILS_TO_DELETE: Final = Edit(
    "controller/core/procedures/topics/deletion.py",
    _DELETION_STARTED,
    f'{_DELETION_STARTED}    raise KeyError("no deletion")\n',
)
NO_METADATA_TO_OTHERS: Final = Edit(
    "controller/core/procedures/znode_changes/broker_change.py",
    "    controller.send_metadata(STARTUP, existing)\n",
    "",
)
NO_METADATA_TO_STARTED: Final = Edit(
    "controller/core/procedures/znode_changes/broker_change.py",
    "    batch.add_update_metadata(new, ())\n",
    "",
)
"""A started broker is not sent the partitions of the cluster."""
EPOCH_NOT_RAISED: Final = Edit(
    "controller/core/election.py",
    "current.leader_epoch + 1,\n        elected.isr",
    "current.leader_epoch,\n        elected.isr",
)
"""An election does not raise the leader epoch."""
DEAD_IN_ISR: Final = Edit(
    "controller/core/election.py",
    "in_sync = tuple(one for one in isr if is_online(one))",
    "in_sync = isr",
)
"""A dead broker stays in the ISR when another broker becomes leader."""
NEVER_NEW: Final = Edit("controller/core/batch.py", "is_new or sticks", "False")
"""isNew is false in each LeaderAndIsr request."""
REFUSES_DELETION: Final = Edit(
    "controller/core/procedures/topics/deletion_requests.py",
    "    return error_codes.NONE\n\n\nasync def _find",
    "    return error_codes.INVALID_REQUEST\n\n\nasync def _find",
)
"""Requests to delete topics are refused."""
DELETES_NOTHING: Final = Edit(
    "controller/core/procedures/topics/deletion.py",
    "    if topics:\n        await resume_deletions(controller)\n",
    "",
)
"""Topics that clients delete are queued, but not deleted."""
DOES_NOT_START: Final = Edit("controller/core/fold.py", "class Fold", "class class Fold")
LACKS_A_MODULE: Final = Edit(
    "replay/diff/protocol.py", "import sys\n", "import sys\n\nimport replay.gone.missing\n"
)
FAILS_LATER: Final = Edit(
    "controller/core/fold.py",
    "        controller = self.controller\n        controller.begin(",
    "        if recorded.seq == 150:\n"
    "            raise KeyError(recorded.seq)\n"
    "        controller = self.controller\n        controller.begin(",
)
"""The version fails at an event that only one of the incidents has."""
ENDLESS: Final = Edit(
    "controller/core/election.py",
    "        in_sync = tuple(one for one in isr if is_online(one))\n",
    "        import threading\n        threading.Event().wait()\n",
)
"""An election never ends. It waits, so that tests at the same time have the processors."""
SET_OF_STRINGS: Final = Edit(
    "controller/core/election.py",
    _CLEAN,
    _CLEAN.replace("(replicas,", "(tuple(map(int, {f'{one}' for one in replicas})),"),
)
"""An election considers the replicas in the order of a set of strings."""
RAISES: Final = Edit(
    "controller/core/election.py",
    "        in_sync = tuple(one for one in isr if is_online(one))\n",
    '        raise RuntimeError("no election today")\n',
)
"""A successful election raises an error."""
OTHER_NOTICE: Final = Edit(
    "controller/core/procedures/znode_changes/broker_change.py",
    '"broker_failed": "the registration of broker {0} was deleted"',
    '"broker_failed": "broker {0} is gone"',
)
"""A log message has another text."""
OTHER_PROTOCOL: Final = Edit(
    "replay/diff/messages.py", "PROTOCOL: Final = 1", "PROTOCOL: Final = 2"
)


def changed(folder: Path, *edits: Edit) -> Path:
    """This version's code in `folder`, with changes. It includes the stored bytecode, so that the
    processes of the version do not compile modules that are not changed. The files are hard links
    where that is possible, so change them by `edit` or `rewrite`."""
    # Another process may be writing bytecode, first under a temporary name.
    ignored = shutil.ignore_patterns("*.pyc.*")
    for package in _PACKAGES:
        shutil.copytree(ROOT / package, folder / package, ignore=ignored, copy_function=_link)
    shutil.copy(ROOT / "pyproject.toml", folder)
    edit(folder, *edits)
    return folder


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system
        shutil.copy2(source, target)


def edit(folder: Path, *edits: Edit) -> None:
    """Changes places in the code."""
    for one in edits:
        path = folder / one.file
        text = path.read_text(encoding="utf-8")
        assert text.count(one.old) == 1, f"{one.file} has changed: the test must, too"
        rewrite(path, text.replace(one.old, one.new))


def rewrite(path: Path, text: str) -> None:
    """Gives a file another text. It may be a link to a file of this version, which stays."""
    path.unlink()
    path.write_text(text, encoding="utf-8")
    # Bytecode fits source of the same size and second.
    for compiled in path.parent.glob(f"__pycache__/{path.stem}.*.pyc"):
        compiled.unlink()


def git(folder: Path, *arguments: str) -> str:
    """The output of git."""
    settings = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")
    done = subprocess.run(
        ["git", *settings, *arguments], cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def repository(folder: Path) -> Path:
    """A repository with this version on branch main."""
    changed(folder)
    git(folder, "init", "--quiet", "--initial-branch=main")
    (folder / ".git" / "info" / "exclude").write_text("__pycache__/\n")
    commit(folder, "this version")
    return folder


def commit(folder: Path, text: str) -> None:
    """Commits all files."""
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", text)
