"""The script under a stock controller and under refold: differences in output and in ZooKeeper.

    python -m tests.lab.stock_tools.comparison

runs it with all VERSIONS and writes its matrix into docs/stock-tools.md.
"""

import asyncio
import difflib
import json
import re
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.lab.incidents.zookeeper_tree import Difference, Tree, Znode
from tests.lab.incidents.zookeeper_tree import differences as tree_differences
from tests.lab.stock_tools.calls import REASONS
from tests.lab.stock_tools.comparable_output import RANDOM, distribution
from tests.lab.stock_tools.harness import HEAVY, Versions, harness
from tests.lab.stock_tools.script import FILES, SCRIPT
from tests.lab.stock_tools.steps import Row, Step

VERSIONS: Mapping[str, Versions] = {
    f"{kafka}-at-{protocol}": Versions(kafka, protocol)
    for kafka, protocol in (("3.9.1", "3.9"), ("3.9.1", "2.6"), ("3.3.2", "3.3"), ("2.8.2", "2.8"))
}
PAGE = Path(__file__).parents[3] / "docs" / "stock-tools.md"
BEGIN = "<!-- The matrix is written by python -m tests.lab.stock_tools.comparison -->\n"
END = "<!-- end of the matrix -->\n"
SAME, OLDER = "same", "-"

_CHANGES = "/config/changes/"
_USERS = "/config/users/"
_ONLY_REFOLD = (
    "/admin/reassignment_requests",
    "/admin/reassignments",
    "/admin/replica_deletions",
)
_MOVED = re.compile(r"/brokers/topics/(assigned|kp|moved)/partitions/[0-9]+/state")
"""Partitions that the script moves: refold raises the leader epoch once, a stock controller for
each replica that is removed (isr-within-replicas)."""
_CANCELLED = re.compile(rf"/brokers/topics/{HEAVY}(-too)?")
"""Topics whose reassignments the script cancels: refold writes the originals once, a stock
controller first as a target and then without replicas to remove (originals-restored-by-api)."""
_NOT_COMPARED = (
    # A producer asks any broker first, so that the number of allocated blocks varies.
    "/latest_producer_id_block",
    # The order of these znodes is not fixed: a tool sends requests to all brokers at once.
    _CHANGES,
    # A queue that the controller empties. Leaders write to it whenever replicas catch up.
    "/isr_change_notification/",
)


class Played(NamedTuple):
    """The rows of the calls, and the tree after each step that changes the cluster."""

    rows: list[Row]
    trees: dict[str, Tree]


async def play(
    folder: Path,
    versions: Versions,
    settings: Mapping[str, str | int] | None,
    script: Sequence[Step] = SCRIPT,
) -> Played:
    """Runs the script in a new cluster; `settings` are refold's, None means a stock controller."""
    rows: list[Row] = []
    trees: dict[str, Tree] = {}
    who = "stock" if settings is None else "refold"
    async with harness(folder, versions, settings) as cluster:
        began = time.monotonic()
        for name, content in FILES.items():
            filled = content.replace("(lab)", str(cluster.lab.folder))
            (cluster.folder / name).write_text(filled)
        for number, step in enumerate(script):
            rows += await step.play(cluster)
            if step.changes:
                trees[f"{number}: {step.what}"] = await cluster.settled()
            say(f"{time.monotonic() - began:6.1f} s  {who} {number}: {step.what}")
    return Played(rows, trees)


def unexplained(stock: Played, refold: Played) -> str:
    """Differences without a reason, and reasons without a difference."""
    lines = [
        one for pair in zip(stock.rows, refold.rows, strict=True) for one in _differences_of(*pair)
    ]
    for step, tree in stock.trees.items():
        for one in differing(tree, refold.trees[step]):
            lines.append(f"in ZooKeeper after {step}: {one}")
    return "\n".join(lines)


def _differences_of(stock: Row, refold: Row) -> list[str]:
    assert (stock.tool, stock.command) == (refold.tool, refold.command)
    head = f"{stock.tool} {stock.command}"
    if stock.reason and stock.output == refold.output:
        return [f"{head}: no difference, though {stock.reason.name!r} should make one", ""]
    shape = stock.reason.shape if stock.reason else str
    theirs, ours = shape(stock.output).splitlines(), shape(refold.output).splitlines()
    if theirs == ours:
        return []
    shown = difflib.unified_diff(theirs, ours, "stock", "refold", lineterm="", n=1)
    return [head, *shown, ""]


def differing(stock: Tree, refold: Tree) -> list[Difference]:
    """The differences between two trees, except random choices and orders that are not fixed."""
    return tree_differences(_comparable(stock), _comparable(refold))


def _comparable(tree: Tree) -> Tree:
    kept = {
        path: znode
        for path, znode in tree.items()
        if not path.startswith((*_NOT_COMPARED, *_ONLY_REFOLD))
    }
    for path, znode in kept.items():
        if _MOVED.fullmatch(path):
            content = {**znode.content, "leader_epoch": "(number)"}
            kept[path] = znode._replace(content=content, version=0)
        if _CANCELLED.fullmatch(path):
            kept[path] = znode._replace(version=0)
    changes = [znode.content for path, znode in tree.items() if path.startswith(_CHANGES)]
    contents = sorted(json.dumps(one, sort_keys=True) for one in changes)
    kept[_CHANGES] = Znode(contents, 0, False)
    for path, znode in tree.items():
        # Before Kafka 3.5 the znode of a user with an empty configuration is not deleted.
        if path.startswith(_USERS) and znode.content and not znode.content["config"]:
            del kept[path]
    # Before Kafka 3.4 the znode has no KRaft epoch.
    controller = tree["/controller"]
    content = {**controller.content, "version": 2, "kraftControllerEpoch": -1}
    kept["/controller"] = controller._replace(content=content)
    for path, znode in tree.items():
        if path.startswith("/brokers/ids/"):
            # A broker writes the znode again when its configuration changes.
            kept[path] = znode._replace(version=0)
        if path.startswith(f"/brokers/topics/{RANDOM}"):
            if "/partitions" in path:
                del kept[path]
            else:
                content = {**znode.content, "partitions": distribution(znode.content["partitions"])}
                kept[path] = znode._replace(content=content)
    return kept


# The page -------------------------------------------------------------------------------------


def cells(stock: Played, refold: Played) -> dict[tuple[str, str], str]:
    """The cell of each command; a command that occurs twice has the worse result."""
    found: dict[tuple[str, str], str] = {}
    for theirs, ours in zip(stock.rows, refold.rows, strict=True):
        key = (theirs.tool, theirs.command)
        if theirs.output == ours.output:
            found.setdefault(key, SAME)
        else:
            found[key] = theirs.reason.name if theirs.reason else "differs"
    return found


def matrix(columns: Mapping[str, Mapping[tuple[str, str], str]]) -> str:
    """The cells of each version as a Markdown table."""
    command = list(dict.fromkeys(key for column in columns.values() for key in column))
    lines = [
        f"| tool | command | {' | '.join(columns)} |",
        f"|---|---|{'---|' * len(columns)}",
    ]
    for tool, what in sorted(command, key=lambda key: key[0]):
        words = [column.get((tool, what), OLDER) for column in columns.values()]
        shown = _short(what).replace("|", "\\|")
        lines.append(f"| {tool} | `{shown}` | {' | '.join(words)} |")
    return "\n".join(lines) + "\n"


def cells_of(page: str, name: str) -> dict[tuple[str, str], str]:
    """The cells of a version in a page, by tool and shortened command."""
    written = page.partition(BEGIN)[2].partition("\n\n")[0]
    table = [line.strip("|").split(" | ") for line in written.splitlines() if line.startswith("| ")]
    if not table or name not in (names := [one.strip() for one in table[0]]):
        return {}
    place = names.index(name)
    rows = [[one.strip() for one in row] for row in table[1:]]
    return {(row[0], row[1]): row[place] for row in rows if row[place] != OLDER}


def shown(found: Mapping[tuple[str, str], str]) -> dict[tuple[str, str], str]:
    """Cells in the form in which `cells_of` reads them from a page."""
    return {(tool, f"`{_short(command)}`"): text for (tool, command), text in found.items()}


def _short(command: str) -> str:
    """A command line without the usual bootstrap server."""
    return command.replace("--bootstrap-server {brokers} ", "").replace(
        " --bootstrap-server {brokers}", ""
    )


def reasons() -> str:
    """The explanations of cells that are not "same"."""
    rows = (f"| {one.name} | {one.text} |\n" for one in REASONS)
    return "".join(["| name | reason |\n", "|---|---|\n", *rows])


def with_matrix(page: str, text: str) -> str:
    """The page with its matrix replaced."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{text}\n{END}{after}"


def say(line: str) -> None:
    """Prints a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


async def compared(
    folder: Path, versions: Versions, script: Sequence[Step]
) -> tuple[Played, Played]:
    """Runs the script with a stock controller, and then with refold."""
    folders = folder / "stock", folder / "refold"
    for one in folders:
        one.mkdir()
    stock = await play(folders[0], versions, None, script)
    return stock, await play(folders[1], versions, {}, script)


async def _write_page() -> str:
    """Writes the page; returns the unexplained differences."""
    columns = {}
    wrong = ""
    for name, versions in VERSIONS.items():
        with tempfile.TemporaryDirectory() as folder:
            stock, refold = await compared(Path(folder), versions, SCRIPT)
        columns[name] = cells(stock, refold)
        wrong += unexplained(stock, refold)
    if not wrong:
        PAGE.write_text(with_matrix(PAGE.read_text(), f"{matrix(columns)}\n{reasons()}"))
    return wrong


if __name__ == "__main__":
    sys.exit(asyncio.run(_write_page()) or None)
