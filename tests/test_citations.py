"""Every citation in code, tests, tools and docs leads to an anchor of a page of this repository.

A name in backticks that looks like a name of the code exists in it. docs/citations.md describes the
forms.
"""

import ast
import builtins
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain, pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.test_tidy_tests import own_names

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
SUFFIXES = {".md", ".py", ".toml", ".txt", ".yml"}
NOT_PROSE = ("requirements/", "tests/recordings/", "tests/test_citations.py")
"""Lock files, recorded logs, and this module, which contains examples of refused citations."""

KAFKA_PAGES = (DOCS / "kafka-controller.md", *sorted((DOCS / "kafka-controller").glob("*.md")))
NO_PAGES = {"decisions.md", "index.md", "page.md", "readme.md", "report.md"}
"""Markdown files that commands, workflows, tests and the documentation site write."""

_KEY = r"\d+(?:\.\d+)*"
_DETAIL = r"(?: steps \d+(?:(?:, | and | to )\d+)+| (?:step|row|point) [a-i\d]+\b|,? [UAB]\d\b)?"
_KAFKA = re.compile(
    rf"\bKB ({_KEY}{_DETAIL}(?:(?:, | and | to |,\s+){_KEY}{_DETAIL}(?![\w:]))*)(?!\d)", re.DOTALL
)
_ONE_KEY = re.compile(rf"({_KEY})({_DETAIL})")
_ROW = re.compile(r"(?<![\w-])(?:CI|CF|PS|RS|PA|TD|CC|CX|EM|KC|SU|OB)-\d\d(?!\d)")
_RACE = re.compile(r"\b[Rr]ace (R\d+)")
_SENTENCE = re.compile(r"\bKIP-236 ([MPCEQFDX]-\d\d)")
_PAGE = re.compile(r"(?<!\"docs\" / \")(?<![\w/.-])((?:[\w.-]+/)*[\w.-]+\.md)(#[\w.-]+)?")
_WHOLE_LINK = re.compile(r"\[[^\]]*\]\([^)]*\)")
_LINK = re.compile(r"\]\((?!https?://|mailto:)([^)\s#]*)(#[^)\s]*)?\)")
_ANCHOR = re.compile(r'<a id="([^"]+)"></a>')
_HEADING = re.compile(r"(?m)^#{1,6} (.+)$")
_CODE = re.compile(r"(?ms)^ *```.*?^ *```$|`[^`]*`")
"""Literal text in Markdown."""
_OUTSIDE = {
    "a document that is not in the repository": re.compile(
        r"\b[Ss]eeds? ?/?00\d|\bseeds/|\b[Tt]he seed's\b|\bas the seed\b|\bDESIGN\b"
    ),
    "an issue that is not in the repository": re.compile(r"\bissue \d"),
    "a race without the word": re.compile(r"(?<![Rr]ace )\bR[1-9]\d?(?: \(KAFKA|: )"),
    "a folder outside of the repository": re.compile(r"\.\./shared\b"),
}
_IN_BACKTICKS = re.compile(r"(?<!`)`([A-Za-z_][\w./]*)(?:\([^`]*\))?`(?!`)")
_NAME = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
CODE_FOLDERS = ("controller/", "eventstore/", "replay/", "tests/", "tools/")
GENERATED_PAGES = {"docs/metrics.md", "docs/scenarios.md", "docs/settings.md"}
"""Their names are composed from those of the code."""
OTHER_NAMES = {
    "Kafka's": {
        *("ClusterControlManager", "ControllerEvent", "KRaftMigrationDriver"),
        *("KRaftMigrationZkWriter", "KafkaConfig", "KafkaController", "KafkaZkClient"),
        *("KafkaZooKeeper", "MigrationZNode", "ReplicaManager", "UnderReplicatedPartitions"),
        *("ZkMigrationLeadershipState", "ZkTopicMigrationClient", "configSource", "isActive"),
        *("ControllerState.scala", "ZooKeeperClient.scala"),
    },
    "ZooKeeper's": {"cons", "dataLogDir", "ustring", "wchs", "zookeeper.digest.enabled"},
    "Cruise Control's": {"destination_broker_ids", "remove_broker", "stat_cache"},
    "of Grafana's jsonnet-libs": {"KafkaBrokerCount", "KafkaZookeeperSyncConnect"},
    "kio's": {"RequestHeaderData"},
    "Kubernetes'": {"OrderedReady", "publishNotReadyAddresses"},
    "OpenTelemetry's": {"OTEL_EXPORTER_OTLP_HEADERS"},
    "Python's": {"__qualname__", "elif"},
    "Spark's": {"memoryOverhead", "minPartitions"},
    "composed by the code": {
        *("extra_found", "legacy_request_found", "request_found"),
        *("shadow_extra", "shadow_missing"),
    },
    "an anchor of a page": {"r22"},
}
"""Names that are not in the code, by origin."""
OTHER_NAMES_OF_ALL = frozenset(chain.from_iterable(OTHER_NAMES.values()))


@cache
def sources() -> dict[str, str]:
    """The text of every file written by people, by its path in the repository."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    return {
        name: (ROOT / name).read_text(encoding="utf-8")
        for name in listed
        if (Path(name).suffix in SUFFIXES or name == "Makefile")
        and not name.startswith(NOT_PROSE)
        and (ROOT / name).is_file()
    }


@cache
def anchors(page: Path) -> frozenset[str]:
    """The anchors of a page: explicit ones, and GitHub's of each heading."""
    text = page.read_text(encoding="utf-8")
    return frozenset(_ANCHOR.findall(text)) | {slug(one) for one in _HEADING.findall(text)}


def slug(heading: str) -> str:
    """GitHub's anchor of a heading."""
    words = re.sub(r"\[([^\]]*)\]\([^)]*\)|<[^>]*>", r"\1", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", words).replace(" ", "-")


@cache
def kafka_anchors() -> frozenset[str]:
    """The anchors of all pages on Kafka's controller."""
    return frozenset().union(*map(anchors, KAFKA_PAGES))


def kafka_anchors_of(text: str) -> Iterator[str]:
    """The anchor of each key after KB in a text."""
    for found in _KAFKA.finditer(text):
        for key, detail in _ONE_KEY.findall(" ".join(found[1].split())):
            kind = "step-" if "step" in detail else "point-" if "point" in detail else ""
            details = re.findall(r"\b(?:[UAB]?\d+|[a-i])\b", detail)
            yield from [f"kb-{key}-{kind}{one.lower()}" for one in details] or [f"kb-{key}"]


class Definitions(NamedTuple):
    """The names of the code. `names`: the identifiers and dotted names in code, strings and data
    files, without docstrings and comments, and each module by its path. `bases` and `members`: of
    the classes by name; classes of one name are one concept."""

    names: set[str]
    bases: dict[str, set[str]]
    members: dict[str, set[str]]


@cache
def definitions() -> Definitions:
    """The names in all files."""
    found = Definitions(set(), defaultdict(set), defaultdict(set))
    for file, text in sources().items():
        if file.endswith(".py"):
            found.names.update(parts_of(Path(file).with_suffix("").parts))
            module = ast.parse(text)
            code = "\n".join(texts_of_code(module))
            note_classes(found, module)
        else:
            code = "" if file.endswith(".md") else text
        for dotted in set(_NAME.findall(code)):
            found.names.update(parts_of(dotted.split(".")))
    return found


def note_classes(found: Definitions, module: ast.Module) -> None:
    """Note the classes of a module."""
    for node in ast.walk(module):
        if isinstance(node, ast.ClassDef):
            bases = [ast.unparse(one).partition("[")[0] for one in node.bases]
            found.bases[node.name].update(one.rpartition(".")[2] for one in bases)
            found.members[node.name].update(own_names(node))


def has_member(owner: str, name: str) -> bool:
    """Whether a class has a member, perhaps from a class of the code or of Python that it
    extends."""
    bases = definitions().bases.get(owner)
    if bases is None:
        return hasattr(getattr(builtins, owner, None), name)
    return name in definitions().members[owner] or any(has_member(one, name) for one in bases)


def parts_of(name: Sequence[str]) -> set[str]:
    """The parts of a dotted name: of a.b.c also a.b, b.c and b."""
    places = range(len(name))
    return {".".join(name[begin : end + 1]) for begin in places for end in places[begin:]}


def texts_of_code(module: ast.Module) -> Iterator[str]:
    """The names and strings in a module, without docstrings."""
    docstrings = set(map(id, docstrings_of(module)))
    for node in ast.walk(module):
        if id(node) not in docstrings:
            yield from (value for _, value in ast.iter_fields(node) if isinstance(value, str))


def docstrings_of(module: ast.Module) -> Iterator[ast.Constant]:
    """The strings in a module that are statements."""
    for node in ast.walk(module):
        match node:
            case ast.Expr(value=ast.Constant(value=str()) as text):
                yield text


def cited_in(file: str, text: str) -> Iterator[str]:
    """The texts in backticks in the prose of a Markdown page, and in docstrings and comments."""
    if file.endswith(".md"):
        prose = re.sub(r"(?ms)^ *```.*?^ *```$", "", text)
    else:
        docstrings = [str(one.value) for one in docstrings_of(ast.parse(text))]
        prose = "\n".join([*docstrings, *re.findall(r"#.*", text)])
    yield from _IN_BACKTICKS.findall(prose)


def is_in_code(cited: str, *, every_name: bool) -> bool:
    """Whether a path exists, and the module of a dotted name that begins with a package; and
    whether a class of the code has the member that is named after it. If `every_name`, whether any
    name exists. Other text does not matter."""
    if cited.endswith(".py") or cited.startswith(CODE_FOLDERS):
        is_file = any(f"/{file}".endswith(f"/{cited}") for file in sources())
        return is_file or (ROOT / cited.removesuffix("/NAME")).exists()
    first, *others = parts = cited.split(".")
    if not _NAME.fullmatch(cited) or not OTHER_NAMES_OF_ALL.isdisjoint((cited, first)):
        return True
    pairs = [(owner, name) for owner, name in pairwise(parts) if owner in definitions().bases]
    if not all(has_member(*one) for one in pairs):
        return False
    if others and first in packages():
        module = re.sub(r"\.[A-Z]\w*$", "", cited)
        return {module, parts[-1]} <= definitions().names
    return not every_name or set(parts) <= definitions().names


@cache
def packages() -> frozenset[str]:
    """The names of all folders of code."""
    return frozenset(Path(file).parent.name for file in sources() if file.endswith("/__init__.py"))


def refuse(citations: Iterator[tuple[str, str]]) -> None:
    """Fail if there are any citations. The message has each one with its file."""
    found = sorted({f"{name}: {what}" for name, what in citations})
    assert not found, "\n".join(["these citations lead nowhere; see docs/citations.md:", *found])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("KB 4.4", ["kb-4.4"]),
        ("(KB 3.3, 3.4, 9.1 to 9.4; x)", ["kb-3.3", "kb-3.4", "kb-9.1", "kb-9.4"]),
        ("KB 6.2 step 11: once", ["kb-6.2-step-11"]),
        ("KB 6.2 steps 6 and 7", ["kb-6.2-step-6", "kb-6.2-step-7"]),
        ("KB 7.7 B3, KB 7.8.4", ["kb-7.7-b3", "kb-7.8.4"]),
        ("KB 11.2 row h", ["kb-11.2-h"]),
        ("KB 18 point 15", ["kb-18-point-15"]),
        ("KB 6.2,\n    6.3", ["kb-6.2", "kb-6.3"]),
    ],
)
def test_key_is_resolved_to_its_anchor(text: str, expected: list[str]) -> None:
    assert list(kafka_anchors_of(text)) == expected


@pytest.mark.parametrize(
    ("cited", "expected"),
    [
        ("FoldedLog", True),
        ("UnfoldedLog", False),
        ("ConformanceChecker.take_settled", True),
        ("SteppedFold.apply", True),
        ("Fold.extend", False),
        ("Index.extend", False),
        ("KafkaController.updateMetrics", True),
        ("agreement.forking", True),
        ("agreement.forked", False),
        ("agreement.logs.BrokerLogIndex", True),
        ("replay/agreement", True),
        ("replay/disagreement", False),
        ("agreement/forking.py", True),
        ("agreement/forked.py", False),
        ("zookeeper.connect", True),
        ("/brokers/ids", True),
    ],
)
def test_name_in_backticks_is_looked_up_in_the_code(cited: str, expected: bool) -> None:
    assert is_in_code(cited, every_name=True) == expected


def test_every_name_of_the_code_that_is_cited_exists() -> None:
    """Docs on Kafka's controller cite names of Kafka's code."""
    refuse(
        (name, cited)
        for name, text in sources().items()
        if name.endswith((".md", ".py"))
        and not name.startswith(("docs/kafka-controller", "CHANGE"))
        for cited in cited_in(name, text)
        if not is_in_code(cited, every_name=name not in GENERATED_PAGES)
    )


@pytest.mark.parametrize("what", _OUTSIDE)
def test_no_citation_points_outside_of_the_repository(what: str) -> None:
    refuse(
        (name, found[0])
        for name, text in sources().items()
        for found in _OUTSIDE[what].finditer(text)
    )


def test_every_kafka_key_has_an_anchor() -> None:
    refuse(
        (name, anchor)
        for name, text in sources().items()
        for anchor in kafka_anchors_of(text)
        if anchor not in kafka_anchors()
    )


def test_every_scenario_race_and_sentence_has_an_anchor() -> None:
    pages = {
        _ROW: DOCS / "kafka-controller/scenarios.md",
        _RACE: DOCS / "races.md",
        _SENTENCE: DOCS / "rows/kip-236.md",
    }
    refuse(
        (name, cited)
        for name, text in sources().items()
        for form, page in pages.items()
        for cited in form.findall(text)
        if cited.lower() not in anchors(page)
    )


def test_every_page_that_is_named_exists_with_its_anchor() -> None:
    """A path is relative to the root of the repository, or in Markdown also to the page. Links
    have a separate test."""
    refuse(
        (name, f"{page}{anchor}")
        for name, text in sources().items()
        for page, anchor in _PAGE.findall(_WHOLE_LINK.sub("", text))
        if page not in NO_PAGES and not leads_to(name, page, anchor)
    )


def test_every_link_between_pages_leads_to_an_anchor() -> None:
    refuse(
        (name, f"{target}{anchor}")
        for name, text in sources().items()
        if name.endswith(".md")
        for target, anchor in _LINK.findall(_CODE.sub("", text))
        if not leads_to(name, target, anchor, from_root=False)
    )


def leads_to(name: str, target: str, anchor: str, from_root: bool = True) -> bool:
    """Whether the named page exists in the repository, with its anchor."""
    folders = [ROOT] if from_root else []
    if name.endswith(".md"):
        folders.append((ROOT / name).parent)
    for folder in folders:
        path = (folder / target).resolve() if target else ROOT / name
        if path.is_relative_to(ROOT) and path.exists():
            return not anchor or anchor.removeprefix("#") in anchors(path)
    return False
