"""Rules of the code base that no linter knows."""

import ast
import fnmatch
import re
import subprocess
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from vulture import Vulture

from tools.mutations.checking import list_errors

ROOT = Path(__file__).parents[1]
SHIPPED = ("controller", "eventstore", "replay")
CODE = (*SHIPPED, "tools", "tests")
IO_ROOMS = (
    "controller/zookeeper",
    "controller/brokers",
    "controller/api",
    "controller/daemon",
    "controller/kafka_0_8_broker",
    "eventstore",
)
PURE_CORES = ("controller/core", "controller/kafka_0_8")
PURE = (*PURE_CORES, "replay/world", "replay/znode_tree")
FUNCTION_LINES_MAX = 70
MODULE_LINES_MAX = 500

FORBIDDEN_IN_CORE = {
    "asyncio",
    "datetime",
    "logging",
    "os",
    "random",
    "secrets",
    "select",
    "socket",
    "sqlite3",
    "subprocess",
    "threading",
    "time",
    "uuid",
}
PATH_OF_A_ZNODE = re.compile(
    r"/(?:admin|brokers|cluster|config|consumers|controller(?:_epoch)?|delegation_token|feature"
    r"|isr_change_notification|kafka-acl(?:-[a-z-]+)?|latest_producer_id_block"
    r"|log_dir_event_notification|migration)(?:/[\w<>/-]*)?(?![\w-])"
)
MODULES_OF_ZNODES = ROOT / "controller" / "core" / "znodes"
TESTED_ELSEWHERE = {
    "controller/core/api_requests": "controller/test_api_requests.py",
    "tools/fleet": "replay/fleet",
    "tools/incidents": "lab/incidents",
    "tools/recordings/operations": "tools/recordings",
}
"""Packages without tests in the folder of their path, and where their tests are: the declarations
of APIs are compared with the endpoint; the tools generate what other tests read."""
SHARED_CLASS_NAMES = {
    "the design of Kafka 0.8 and the design with a controller": {
        *("Broker", "BrokerEnvironment", "ClusterStatus", "Coverage", "Partition"),
        *("ServedConnection", "Startup", "Unreachable"),
    },
    "a client or a server, and its simulation": {
        *("BrokerChannels", "Connection", "Disk", "FetchResponse", "Ping", "ProduceResponse"),
        *("Sync", "ZooKeeperClient"),
    },
    "an operation of ZooKeeper, requested, simulated or in its transaction log": {
        *("Check", "CloseSession", "Create", "CreateSession", "Delete", "Multi", "SetData"),
        "Transaction",
    },
    "a part of a program, changed by a version or a mutation": {"Function", "Value"},
    "a file of a log, with events or with the records of a topic": {"Segment"},
}
"""Names that classes of several modules may have, because they are one concept."""
FORBIDDEN_IN_FILES = {
    "a folder of one machine": re.compile(r"(?<![\w.])/(?:home|root|work|Users)/[\w.-]+/"),
    "the host of a package registry": re.compile(
        r"\b(?:pypi\.org|files\.pythonhosted\.org|repo1?\.maven\.(?:org|apache\.org))\b"
    ),
}


def modules(*places: str) -> list[Path]:
    """The Python files of folders or the files themselves, those that exist."""
    found: list[Path] = []
    for place in places:
        path = ROOT / place
        found += [path] if path.is_file() else sorted(path.rglob("*.py"))
    return found


def tree_of(module: Path) -> ast.Module:
    return ast.parse(module.read_text(encoding="utf-8"))


def at(module: Path, node: ast.AST) -> str:
    return f"{module.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}"


def calls(module: Path) -> Iterator[tuple[ast.Call, str]]:
    """Every call with the last part of the called name."""
    for node in ast.walk(tree_of(module)):
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name):
                yield node, node.func.id
            elif isinstance(node.func, ast.Attribute):
                yield node, node.func.attr


def test_functions_are_short() -> None:
    long = [
        f"{at(module, node)} {node.name}: {node.end_lineno - node.lineno + 1} lines"
        for module in modules(*CODE)
        for node in ast.walk(tree_of(module))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno is not None
        and node.end_lineno - node.lineno + 1 > FUNCTION_LINES_MAX
    ]
    assert not long


def test_modules_are_short() -> None:
    lines = {
        str(module.relative_to(ROOT)): len(module.read_text(encoding="utf-8").splitlines())
        for module in modules(*CODE)
    }
    assert not {module: count for module, count in lines.items() if count > MODULE_LINES_MAX}


def test_public_classes_of_two_modules_have_different_names() -> None:
    modules_of: dict[str, list[str]] = {}
    for module in modules(*SHIPPED, "tools"):
        for node in tree_of(module).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                modules_of.setdefault(node.name, []).append(at(module, node))
    several = {name: found for name, found in modules_of.items() if len(found) > 1}
    shared = set().union(*SHARED_CLASS_NAMES.values())
    assert {name: found for name, found in several.items() if name not in shared} == {}
    assert shared - several.keys() == set(), "remove these names from SHARED_CLASS_NAMES"


def test_each_name_that_vulture_ignores_is_needed() -> None:
    """Without the list, vulture would report code with this name as unused."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["vulture"]
    found = Vulture(ignore_decorators=settings["ignore_decorators"])
    found.scavenge([ROOT / one for one in settings["paths"]], exclude=settings["exclude"])
    unused = {one.name for one in found.get_unused_code()}
    ignored = settings["ignore_names"]
    assert [one for one in ignored if not fnmatch.filter(unused, one)] == []
    assert [one for one, count in Counter(ignored).items() if count > 1] == []


def test_files_of_tests_hold_tests() -> None:
    files = [one for one in modules("tests") if one.name.startswith("test_")]
    empty = [
        str(module.relative_to(ROOT))
        for module in files
        if not any(
            isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            and node.name.startswith("test_")
            for node in ast.walk(tree_of(module))
        )
    ]
    assert not empty


def test_folder_of_tests_has_the_path_of_a_package() -> None:
    """Except for tests of the repository as a whole, tests with servers in tests/lab, and the
    planted races."""
    folders = {module.parent.relative_to(ROOT / "tests") for module in modules("tests")}
    tested = {
        folder
        for folder in folders - {Path()}
        if folder.parts[0] not in ("lab", "races")
        and any((ROOT / "tests" / folder).glob("test_*.py"))
    }
    assert [str(one) for one in sorted(tested) if not (ROOT / one / "__init__.py").exists()] == []


def test_each_package_has_tests_in_the_folder_of_its_path() -> None:
    """Or an entry in TESTED_ELSEWHERE, which names a folder or a file with tests."""
    packages = [one.parent.relative_to(ROOT) for one in modules(*SHIPPED, "tools")]
    without = {
        str(one)
        for one in packages
        if (ROOT / one / "__init__.py").exists() and not any((ROOT / "tests" / one).rglob("test_*"))
    }
    assert sorted(without) == sorted(TESTED_ELSEWHERE)
    assert [one for one in TESTED_ELSEWHERE.values() if not (ROOT / "tests" / one).exists()] == []


def test_nothing_prints_below_the_command_line() -> None:
    prints = [
        at(module, call)
        for module in modules(*PURE_CORES, "eventstore", "replay")
        for call, name in calls(module)
        if name == "print" and isinstance(call.func, ast.Name)
    ]
    assert not prints


def imported(module: Path) -> Iterator[tuple[ast.AST, str]]:
    """Every import with the first part of the module's name."""
    for node in ast.walk(tree_of(module)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node, alias.name.partition(".")[0]
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node, node.module.partition(".")[0]


def test_core_knows_no_clock_and_no_io() -> None:
    imports = [
        f"{at(module, node)} imports {name}"
        for module in modules(*PURE)
        for node, name in imported(module)
        if name in FORBIDDEN_IN_CORE
    ]
    opened = [
        f"{at(module, call)} calls {name}"
        for module in modules(*PURE)
        for call, name in calls(module)
        if name in {"open", "input"} and isinstance(call.func, ast.Name)
    ]
    assert not imports + opened


def literals_of(tree: ast.AST) -> Iterator[ast.Constant]:
    """The literal strings in a tree, parts of f-strings among them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node


def test_paths_of_znodes_are_constants_of_the_module_of_znodes() -> None:
    """A literal is a path, or a regular expression that contains one. Text for people names znodes
    as well, and so do the names of acts in `replay/explore/acts_of_code.py`."""
    places = [one for one in modules(*SHIPPED) if not one.is_relative_to(MODULES_OF_ZNODES)]
    literals = [
        at(module, node)
        for module in places
        for node in literals_of(tree_of(module))
        if PATH_OF_A_ZNODE.fullmatch(node.value)
    ]
    patterns = [
        at(module, node)
        for module in places
        for call, name in calls(module)
        if name == "compile"
        for node in literals_of(call)
        if PATH_OF_A_ZNODE.search(node.value)
    ]
    assert not literals + patterns


def named_modules(module: Path, package: str) -> Iterator[str]:
    """Where a module imports `package` or a module of it, or has the name in a string."""
    name = re.compile(rf"(?<![\w./]){package}(\.[a-z_]|$)")
    for node in ast.walk(tree_of(module)):
        text = node.value if isinstance(node, ast.Constant) else None
        if isinstance(text, str) and name.search(text):
            yield f"{at(module, node)} has {package} in a string"
    for node, first in imported(module):
        if first == package:
            yield f"{at(module, node)} imports {package}"


def test_controller_and_eventstore_name_no_module_of_replay() -> None:
    """Neither in imports nor in strings, for example as a module that a helper process runs."""
    named = [
        one
        for module in modules("controller", "eventstore")
        for one in named_modules(module, "replay")
    ]
    assert not named


def is_set(node: ast.AST) -> bool:
    """Whether an expression is seen to be a set without knowing types."""
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id in {"set", "frozenset"}
    return isinstance(node, ast.Set | ast.SetComp)


def test_core_does_not_iterate_over_sets() -> None:
    """The order of a set of strings differs with the hash seed, so commands would."""
    iterated = [
        at(module, node.iter)
        for module in modules(*PURE_CORES)
        for node in ast.walk(tree_of(module))
        if isinstance(node, ast.For | ast.comprehension) and is_set(node.iter)
    ]
    frozen = [
        at(module, call)
        for module in modules(*PURE_CORES)
        for call, name in calls(module)
        if name in {"list", "tuple", "enumerate", "iter"} and call.args and is_set(call.args[0])
    ]
    assert not iterated + frozen


def is_unbounded_queue(call: ast.Call, name: str) -> bool:
    keywords = {keyword.arg for keyword in call.keywords}
    if name in {"Queue", "LifoQueue", "PriorityQueue"}:
        return not call.args and "maxsize" not in keywords
    return name == "SimpleQueue" or (
        name == "deque" and len(call.args) < 2 and "maxlen" not in keywords
    )


def test_queues_that_io_fills_are_bounded() -> None:
    unbounded = []
    for module in modules(*IO_ROOMS):
        lines = module.read_text(encoding="utf-8").splitlines()
        for call, name in calls(module):
            said = any("# bounded by " in line for line in lines[call.lineno - 1 : call.end_lineno])
            if is_unbounded_queue(call, name) and not said:
                unbounded.append(at(module, call))
    assert not unbounded, "give it a size, or say on the line `# bounded by ...`"


def test_each_sleep_in_tests_has_a_comment_with_the_reason() -> None:
    """For example, that a session expires meanwhile. Tests await signals and lasting states."""
    bare = []
    for module in modules("tests"):
        lines = module.read_text(encoding="utf-8").splitlines()
        for call, name in calls(module):
            said = any("  # " in line for line in lines[call.lineno - 1 : call.end_lineno])
            if name == "sleep" and not said:
                bare.append(at(module, call))
    assert not bare, "await an event, or use tests/waiting.py; or say on the line why time passes"


def tracked_files() -> list[Path]:
    """The files that git tracks, or would add."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if listing.returncode != 0:
        pytest.skip("not a git checkout")
    names = listing.stdout.decode().split("\0")
    return [ROOT / name for name in names if name and (ROOT / name).is_file()]


def test_files_name_no_machine_and_no_registry() -> None:
    found = []
    for file in tracked_files():
        if file == Path(__file__):
            continue
        text = file.read_bytes().decode("utf-8", errors="ignore")
        found += [
            f"{file.relative_to(ROOT)}: {what}: {match[0]}"
            for what, pattern in FORBIDDEN_IN_FILES.items()
            for match in pattern.finditer(text)
        ]
    assert not found


def test_lists_of_mutation_testing_fit_the_code() -> None:
    """`make mutations` reports the same before it runs anything."""
    assert list_errors(ROOT) == []
