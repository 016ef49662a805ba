"""The tables of docs/agreement-results.md: how often Kafka and the fold agree on each recording."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from replay.agreement.comparison import agree, temporary_import
from replay.agreement.results import AgreementResult, DetailedTally
from replay.stock_clusters.imports.importing import Selection
from tools.agreement.corruptions import folder_of
from tools.agreement.fewer_logs import LEFT_OUT, copy_with_fewer_logs

_SUFFIX: Final = ".tar.xz"
_EXPLAINED_MIN: Final = 2
_EXPLAINED_PERCENT: Final = 1
_HEAD: Final = (
    "| recording | decisions | agreed | differ, missing, extra | explained"
    " | requests to brokers | agreed | differ, missing, extra | explained |\n"
    "|---|---|---|---|---|---|---|---|---|\n"
)


def recordings_in(folders: Iterable[Path]) -> list[Path]:
    """The recordings in folders, by name. A path that is a recording itself is included."""
    found: dict[str, Path] = {}
    for folder in folders:
        inside = sorted(folder.glob(f"*{_SUFFIX}")) if folder.is_dir() else []
        for one in inside or [folder]:
            found[one.name.removesuffix(_SUFFIX)] = one
    return [found[name] for name in sorted(found)]


def agreement_of(recording: Path) -> AgreementResult:
    """The result of one recording."""
    with temporary_import(recording, Selection(), lambda *_: None) as log:
        result = agree(log)
    result.source = recording.name.removesuffix(_SUFFIX)
    return result


def agreement_with_fewer_logs(recording: Path) -> dict[str, bool]:
    """For each kind of logs, whether all decisions agree or are explained."""
    found: dict[str, bool] = {}
    with folder_of(recording) as folder, TemporaryDirectory(prefix="refold-fewer-") as copies:
        for number, kind in enumerate(LEFT_OUT):
            copy = Path(copies) / str(number)
            copy_with_fewer_logs(folder, copy, kind)
            found[kind] = agreement_of(copy).agrees
    return found


def fewer_table(results: Sequence[Mapping[str, bool]]) -> str:
    """For each kind of logs, how many recordings agree."""
    rows = (
        f"| {kind} | {sum(one[kind] for one in results)} of {len(results)} |\n" for kind in LEFT_OUT
    )
    return "| logs of brokers | recordings that agree |\n|---|---|\n" + "".join(rows)


def is_good(result: AgreementResult) -> bool:
    """Whether all decisions agree or are explained, and only a few are explained."""
    return result.agrees and all(map(_is_little, (result, result.requests)))


def _is_little(side: DetailedTally) -> bool:
    limit = max(_EXPLAINED_MIN, side.decisions * _EXPLAINED_PERCENT // 100)
    return _explained_count(side) <= limit


def table(results: Sequence[AgreementResult]) -> str:
    """All recordings, and their sum."""
    return _HEAD + "".join(_rows(results))


def _rows(results: Sequence[AgreementResult]) -> Iterator[str]:
    for one in results:
        cells = " | ".join((*_cells([one]), *_cells([one.requests])))
        yield f"| {one.source} | {cells} |\n"
    cells = " | ".join((*_cells(results), *_cells([one.requests for one in results])))
    yield f"| **all** | {cells} |\n"


def _cells(sides: Sequence[DetailedTally]) -> Iterator[str]:
    yield str(sum(one.decisions for one in sides))
    yield str(sum(one.agreed for one in sides))
    verdicts = ("differs", "missing", "extra")
    yield ", ".join(str(sum(getattr(one, each) for one in sides)) for each in verdicts)
    yield str(sum(map(_explained_count, sides)))


def _explained_count(side: DetailedTally) -> int:
    return sum(len(one.zxids) for one in side.explained)
