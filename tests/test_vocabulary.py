"""The words of the prose in all files that people read: docs, code, build files, descriptions.

Each word has a plainer or a more exact one; CONTRIBUTING.md says how the project writes.
"""

import ast
import io
import re
import subprocess
import tokenize
from collections.abc import Iterator
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import pytest

ROOT: Final = Path(__file__).parents[1]

REPLACE: Final = {
    r"tells?|told|telling": "report, log, print, send, say",
    r"anew": "again",
    r"(?<!falls )(?<!fall )(?<!lag )(?<!lags )behind(?! the leader)": "after",
    r"beside": "compared with, next to",
    r"(?:what )?comes? of (?:it|this|that|them)": "the result, the outcome",
    r"stands?(?!-| in for)": "is, is stored",
    r"takes? (?:out|along)": "remove, include",
    r"(?:the|its|their) own (?:id|broker)": "the daemon's id",
    r"of (?:its|their) own": "separate",
    r"for good": "permanently",
    r"the very same|so or so": "(say exactly)",
    r"(?<!stay )(?<!stays )as (?:it is|they are)"
    r"(?! (?:\w+ed|being|in|known|read|spelt|written)\b)": "unchanged",
    r"(?:fold|function|method|replay) (?:gives?|gave)(?! up)": "return, lead to",
    r"mend(?:s|ed|ing)?|put right": "repair, fix",
    r"(?:comes?|came) to": "result in, equal, reach",
    r"whoever|whomever": "the process, broker or user that ...",
    r"somebody|nobody|anybody": "a client, an operator, no broker (name the actor)",
}
"""A regular expression of whole words, and what to write instead."""

ALLOWED: Final = {
    ("controller/core/procedures/role/controller_election.py", "stand"): "to stand for election",
    ("tests/incidents/failed-failover/", "stand"): "to stand for election",
    ("replay/agreement/broker_requests/settled_requests.py", "as"): "not derived again",
    ("replay/cli/explore.py", "as"): "without options",
    ("replay/cli/what_if.py", "as"): "without changes",
    ("replay/explore/generators/strategies.py", "as"): "not varied",
    ("replay/explore/scenario_checks.py", "as"): "with its inputs",
    ("tests/controller/operator/test_checks.py", "behind"): "a clock is behind another",
    (
        "tests/replay/stock_clusters/imports/test_importing.py",
        "behind",
    ): "a clock is behind another",
}
"""The beginning of a path and a word that is right there, with the reason."""

DATA: Final = (
    "LICENSE",
    "*.lock",
    "*.png",
    "*.refold",
    "*.sha256",
    "*.snappy",
    "*.stream",
    "*.xz",
    "controller/settings/kafka_keys.txt",
    "replay/report/page/vendor/*",
    "tests/recordings/*",
    "tests/replay/kafka_text/*.log",
    "tests/replay/kafka_text/*.txt",
)
"""Files without prose of this project: licence text, generated lists, recorded bytes, pictures,
libraries of others, lines of Kafka. Files of every other kind are checked.
"""

_TEXTS_MIN: Final = 3
"""Words; a shorter string is a key or a name, not a text."""
_FIRST_WORD: Final = re.compile(
    r"test_(?:an?|the|it|its|they|them|their|that|those|these|this|so|others?|there|what|who|whose)_"
)
"""The first word of a test's name that is an article, or a pronoun without its noun."""
_WITHOUT_SUBJECT: Final = re.compile(r"(?:It|They|That|Those|What|Who|Whose)\s")
"""The beginning of a docstring whose subject is a clause, or is only in the name of a function."""
_CLAUSE_AS_SUBJECT: Final = re.compile(
    r"(?:\A|(?<=[.:!?]\s)|(?<=\n\n)|(?<=[-|]\s))\s*(?:What|Who)\s(?:[^.?!|\n]|\n(?!\n))*\."
)
"""A sentence, no question, that begins with a clause: "What arrives waits."."""
_CLAUSES_ALLOWED: Final = ("CHANGELOG.md", "controller/core/metric_table.py", "docs/metrics.md")
"""Entries of earlier versions, and a metric of the core, with its row in the page."""
_NAME: Final = re.compile(
    r"tells?|told|telling|anew|beside|mend(?:s|ed|ing)?|(?:some|any|no|every)body", re.IGNORECASE
)
"""A word of a name in the code that REPLACE has a better word for."""
UNCLEAR: Final = {
    "Arrivals": "EventQueue",
    "Course": "PartitionTimeline",
    "Desk": "PendingRequests",
    "Moment": "ClusterState, Sample, ...: what is known of that moment",
    "Story": "RecordedHistory",
    "Taken": "what was taken",
    "Wanted": "Filter, Selection, ...",
    "World": "SimulatedCluster",
}
"""A class or a word at its end, and a name that says what it holds."""
_CODE_BLOCK: Final = re.compile(r"^( *)```.*?^\1```", re.MULTILINE | re.DOTALL)
_CODE: Final = re.compile(r"`[^`\n]*`|<!--.*?-->|\]\([^)]*\)", re.DOTALL)
_WORDS: Final = re.compile(
    "|".join(rf"(?P<w{number}>\b(?:{word})\b)" for number, word in enumerate(REPLACE)),
    re.IGNORECASE,
)


class Prose(NamedTuple):
    """A piece of prose and where it begins."""

    file: str
    line: int
    text: str


@cache
def files() -> tuple[str, ...]:
    """The files in git that have prose and are checked."""
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split("\n")
    return tuple(one for one in listed if one and (ROOT / one).exists() and is_checked(one))


def is_checked(file: str) -> bool:
    """Whether the words of a file are checked."""
    return file != _HERE and not any(fnmatch(file, pattern) for pattern in DATA)


_HERE: Final = str(Path(__file__).relative_to(ROOT))


@cache
def prose_of(file: str) -> tuple[Prose, ...]:
    """The prose of a file."""
    return tuple(prose_in(file, (ROOT / file).read_text(encoding="utf-8")))


def prose_in(file: str, text: str) -> Iterator[Prose]:
    """Markdown without its code; the comments and texts of Python; any other file as a whole."""
    if file.endswith(".md"):
        yield Prose(file, 1, _blank(_CODE, _blank(_CODE_BLOCK, text)))
        return
    if not file.endswith(".py"):
        yield Prose(file, 1, text)
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield Prose(file, token.start[0], _blank(_CODE, token.string))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            words = _blank(_CODE, node.value)
            if len(words.split()) >= _TEXTS_MIN:
                yield Prose(file, node.lineno, words)


def _blank(pattern: re.Pattern[str], text: str) -> str:
    """Without what matches; the lines stay."""
    return pattern.sub(lambda found: "\n" * found[0].count("\n"), text)


def replaceable(prose: Prose) -> Iterator[str]:
    """Each word to replace, as `file:line: word: write ...`."""
    for found in _WORDS.finditer(prose.text):
        if any(
            prose.file.startswith(place) and found[0].lower().startswith(word)
            for place, word in ALLOWED
        ):
            continue
        line = prose.line + prose.text.count("\n", 0, found.start())
        instead = list(REPLACE.values())[int((found.lastgroup or "w0")[1:])]
        yield f"{prose.file}:{line}: {found[0]!r}: write {instead}"


@pytest.mark.timeout(300)  # It reads every file.
def test_prose_uses_the_words_of_the_field() -> None:
    found = [line for file in files() for prose in prose_of(file) for line in replaceable(prose)]
    assert not found, "\n" + "\n".join(found)


def clauses_as_subjects(prose: Prose) -> Iterator[str]:
    """Each sentence whose subject is a clause, as `file:line: sentence`."""
    for found in _CLAUSE_AS_SUBJECT.finditer(prose.text):
        line = prose.line + prose.text.count("\n", 0, found.start())
        yield f"{prose.file}:{line}: {' '.join(found[0].split())}"


@pytest.mark.timeout(300)  # It reads every file.
def test_sentences_have_no_clause_as_their_subject() -> None:
    found = [
        line
        for file in files()
        if file.endswith((".py", ".md")) and file not in _CLAUSES_ALLOWED
        for prose in prose_of(file)
        for line in clauses_as_subjects(prose)
    ]
    assert not found, "\n" + "\n".join(found)


def docstrings_without_subject(file: str, text: str) -> Iterator[str]:
    """Each docstring of a module, class, function or value that does not name its subject."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Expr(value=ast.Constant(value=str(said))) if _WITHOUT_SUBJECT.match(said):
                yield f"{file}:{node.lineno}: {said.splitlines()[0]}"


def test_docstrings_name_their_subject() -> None:
    found = [
        line
        for file in files()
        if file.endswith(".py")
        for line in docstrings_without_subject(file, (ROOT / file).read_text(encoding="utf-8"))
    ]
    assert not found, "\n" + "\n".join(found)


def test_names_of_tests_begin_with_no_article_and_no_pronoun() -> None:
    found = [
        f"{file}:{node.lineno}: {node.name}"
        for file in files()
        if file.startswith("tests/") and file.endswith(".py")
        for node in ast.walk(ast.parse((ROOT / file).read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _FIRST_WORD.match(node.name)
    ]
    assert not found, "\n" + "\n".join(found)


def names_in(file: str) -> Iterator[tuple[int, str]]:
    """The names that a module gives to functions, classes, parameters and variables."""
    for node in ast.walk(ast.parse((ROOT / file).read_text(encoding="utf-8"))):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield node.lineno, name
            case ast.ClassDef(name=name) | ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()):
                yield node.lineno, name
            case ast.Attribute(attr=name, ctx=ast.Store()):
                yield node.lineno, name


def test_names_of_tests_use_the_words_of_the_field() -> None:
    """The name of a test is a sentence."""
    found = [
        line
        for file in files()
        if file.startswith("tests/") and file.endswith(".py")
        for number, name in names_in(file)
        if name.startswith("test_")
        for line in replaceable(Prose(file, number, name.replace("_", " ")))
    ]
    assert not found, "\n" + "\n".join(found)


def test_names_in_the_code_use_the_words_of_the_field() -> None:
    found = [
        f"{file}:{line}: {name}"
        for file in files()
        if file.endswith(".py")
        for line, name in names_in(file)
        if any(map(_NAME.fullmatch, re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)))
    ]
    assert not found, "\n" + "\n".join(found)


def last_word(name: str) -> str:
    """The last word of a class's name."""
    return re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]", name)[-1]


def test_classes_are_named_for_what_they_hold() -> None:
    found = [
        f"{file}:{node.lineno}: {node.name}; better: {UNCLEAR[last_word(node.name)]}"
        for file in files()
        if file.endswith(".py") and not file.startswith("tests/")
        for node in ast.walk(ast.parse((ROOT / file).read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef) and last_word(node.name) in UNCLEAR
    ]
    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The operator is told of it.", ["told"]),
        ("The broker falls behind the leader.", []),
        ("Behind event 41 the log ends.", ["Behind"]),
        ("A standby, `told` and stand-by.", []),
        ("What came to be, nobody\nknows.", ["came to", "nobody"]),
        ("The run is saved as it is. Keys stay as they are, as they are stored.", ["as it is"]),
        ("A replay gives the numbers. The controller gives up the role.", ["replay gives"]),
    ],
)
def test_words_to_replace_are_found_in_prose(text: str, words: list[str]) -> None:
    prose = Prose("docs/index.md", 1, _blank(_CODE, text))
    assert [line.split("'")[1] for line in replaceable(prose)] == words


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("A process stops. What arrives\nwaits.", ["What arrives waits."]),
        ("Who can read it has it. It has a name.", ["Who can read it has it."]),
        ("- What is left out is counted.", ["What is left out is counted."]),
        ("What is left out? It says what is left.", []),
    ],
)
def test_clauses_as_subjects_are_found_in_prose(text: str, sentences: list[str]) -> None:
    found = clauses_as_subjects(Prose("docs/index.md", 1, text))
    assert [line.split(": ", 1)[1] for line in found] == sentences


def test_docstring_that_begins_with_a_pronoun_or_a_clause_is_found() -> None:
    text = 'A = 1\n"""It is a number."""\n\ndef f():\n    """What f returns."""\n    """A value."""'
    found = [line.split(": ", 1)[1] for line in docstrings_without_subject("new.py", text)]
    assert found == ["It is a number.", "What f returns."]


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("page.md", "The error is told to clients."),
        ("tools/new.py", "# The error is told to clients."),
        ("tools/new.py", '"""The error is told to clients."""'),
        ("tools/new.py", 'print("the error is told to clients")'),
        ("Makefile", "# The error is told to clients."),
        ("pyproject.toml", "# The error is told to clients."),
        ("tests/incidents/new/incident.toml", 'title = "The error is told to clients."'),
        ("tests/incidents/new/transcript.txt", "warning failed t-0: the error is told to clients"),
        ("tests/transcripts/new.txt", "  the error is told to clients"),
        ("tests/tools/mutations/survivors.toml", 'why = "The error is told to clients."'),
        (".ci/run", 'echo "the error is told to clients"'),
        (".github/workflows/new.yml", "name: the error is told to clients"),
        (".gitignore", "# The error is told to clients."),
        ("requirements/build.in", "# The error is told to clients."),
        ("tools/lab/new.properties", "# The error is told to clients."),
        ("replay/fleet/report/page.css", "/* The error is told to clients. */"),
        ("replay/fleet/report/page.js", "// The error is told to clients."),
    ],
)
def test_word_in_each_kind_of_file_is_found(file: str, text: str) -> None:
    assert is_checked(file)
    found = [line for prose in prose_in(file, text) for line in replaceable(prose)]
    assert len(found) == 1
    assert "told" in found[0]


def test_every_exception_for_data_concerns_a_file() -> None:
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split("\n")
    assert [one for one in DATA if not any(fnmatch(file, one) for file in listed)] == []
