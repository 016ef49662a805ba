"""A run on disk: the file that reproduces it, and the logs of its controllers.

A folder has `run.json` and one log for each run of each refold, such as `refold-100-run-1`, which
`refold replay`, `why`, `inspect` and `diff` open. Stock controllers write no log of refold.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree
from typing import Final, TypeVar

import msgspec
from msgspec import UNSET, Struct, UnsetType, field

from controller.core import znodes
from controller.fingerprint import code_version, core_fingerprint
from eventstore.errors import LogError
from replay.errors import ReplayError
from replay.explore.invariants.invariant import Violation
from replay.explore.run import Run
from replay.explore.scenario_checks import problem_of, unknown_field, unknown_kind, unknown_value
from replay.logs.histories import write_history
from replay.logs.saved_runs import RUN_FILE
from replay.world.cluster import Cluster
from replay.world.inputs import Input
from replay.world.scenario import Scenario

FORMAT: Final = 1
CONTROLLER: Final = "controller"
"""The design with a controller, which has the field `design` in no run.json."""
WHAT_IF: Final = "what-if"
"""The strategy of a run that `refold what-if` has saved."""

Document = TypeVar("Document", bound=Struct)
Decoded = TypeVar("Decoded")


class BranchPoint(Struct, frozen=True):
    """Where a run continues a log: after event `seq` of `log`, which happened at `time`. In the log
    of the run that is `begin`; before, the run sets up the cluster of that moment. At `end` the run
    ends, which may be later than its last event."""

    log: str
    seq: int
    time: str
    begin: str
    end: str


class ContinuingLog(Struct, frozen=True):
    """A log of a run that continues another log. The run has `count` logs; `is_last`: it ends in
    this one."""

    branch: BranchPoint
    count: int
    is_last: bool


class SavedRun(Struct, frozen=True, kw_only=True):
    """run.json: everything that a run is a function of, and what it must result in.

    `digest` is that of all histories and znodes when the run ended: at the violation, when the
    cluster had recovered, or at the end of the scenario. It is the same with any version of Python,
    but not with another version of refold: `core` says which one found it.
    """

    format: int = FORMAT
    scenario: Scenario
    inputs: tuple[Input, ...]
    violation: Violation | None
    digest: str
    core: str = field(default_factory=core_fingerprint)
    version: str = field(default_factory=code_version)
    seed: int = 0
    strategy: str = ""
    inputs_before_shrinking: int = 0
    branch: BranchPoint | UnsetType = UNSET
    """Only a run of `refold what-if` has one."""

    @property
    def goes_to_end(self) -> bool:
        """Whether the run went on to the end of its scenario, as those of `refold what-if` do. A
        run of the explorer ends at a violation, or when the cluster has recovered."""
        return self.strategy == WHAT_IF


def saved_run(
    scenario: Scenario, inputs: tuple[Input, ...], *, seed: int, strategy: str, before: int
) -> SavedRun:
    """Run once more to get the violation and the digest."""
    outcome = Run(scenario, inputs).outcome(with_digest=True)
    return SavedRun(
        scenario=scenario,
        inputs=inputs,
        violation=outcome.violation,
        digest=outcome.digest,
        seed=seed,
        strategy=strategy,
        inputs_before_shrinking=before,
    )


def run_again(saved: SavedRun) -> Run:
    """Run a saved run again, as far as it went."""
    return Run(saved.scenario, saved.inputs, to_end=saved.goes_to_end)


def save(run: SavedRun, folder: Path) -> list[Path]:
    """Write a run into a new folder; return its logs. Nothing of it stays there if that fails.
    Raises ReplayError, LogError."""
    write_document(run, folder)
    cluster = Run(run.scenario, run.inputs).cluster
    try:
        return write_logs(cluster, folder) if cluster is not None else []
    except LogError:
        for one in folder.iterdir():
            rmtree(one) if one.is_dir() else one.unlink()
        raise


@contextmanager
def reserved(folder: Path) -> Iterator[None]:
    """Make a new folder before a search, so that its result can be saved; an empty one may be there
    that a killed search has left. At the end, remove it if it is empty, with the parents that were
    made. Raises ReplayError."""
    absent = [one for one in (folder, *folder.parents) if not one.exists()]
    if not _is_empty_folder(folder):
        _make(folder)
    try:
        yield
    finally:
        for one in absent:
            if any(one.iterdir()):
                break
            one.rmdir()


def _is_empty_folder(path: Path) -> bool:
    """Whether a folder is there, and empty."""
    return path.is_dir() and not any(path.iterdir())


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        raise ReplayError(
            f"{folder} exists already: delete it, or give another one with --out"
        ) from None
    except OSError as error:
        raise ReplayError(f"{folder} cannot be created: {error.strerror}") from error


def document_of(run: Struct) -> bytes:
    """The content of run.json."""
    return msgspec.json.format(msgspec.json.encode(run), indent=1) + b"\n"


def write_document(run: Struct, folder: Path) -> None:
    """Write run.json into a new folder, or a reserved one. Raises ReplayError."""
    if not _is_empty_folder(folder):
        _make(folder)
    try:
        (folder / RUN_FILE).write_bytes(document_of(run))
    except OSError as error:
        (folder / RUN_FILE).unlink(missing_ok=True)
        raise ReplayError(f"{folder / RUN_FILE} cannot be written: {error.strerror}") from error


def write_logs(cluster: Cluster, folder: Path) -> list[Path]:
    """Write the logs of all runs of all refolds. Returns their folders."""
    cluster_id = cluster_id_of(cluster.digest())
    written: list[Path] = []
    for process, histories in cluster.histories().items():
        controller = cluster.controllers[process]
        if controller.is_stock:
            continue
        for number, history in enumerate(histories, 1):
            if history:
                path = folder / f"{process.replace(' ', '-')}-run-{number}"
                write_history(
                    path,
                    history,
                    controller.settings.configuration,
                    core_fingerprint=core_fingerprint(),
                    cluster_id=cluster_id,
                )
                written.append(path)
    return written


def cluster_id_of(digest: str) -> str:
    """The cluster id of a run: `refold fleet` takes the logs of different runs for different ones,
    although they begin at the same time with the same configuration."""
    return f"explored-{digest[:12]}"


class _AnyRun(Struct):
    """The content of run.json for each design."""

    format: int
    design: str = CONTROLLER


def design_of(path: Path) -> str:
    """The design of a saved run, by its file or folder: CONTROLLER or "0.8". Raises ReplayError."""
    return _read_run_file(path, _AnyRun).design


def read_run(path: Path) -> SavedRun:
    """Read a run from its file or folder, and check it. Raises ReplayError."""
    saved = read_document(path, SavedRun)
    problem = problem_of(saved.scenario, saved.inputs, is_saved=True)
    if problem is not None:
        raise ReplayError(f"{path}: {problem}; see docs/explore.md")
    return saved


def read_document(path: Path, form: type[Document]) -> Document:
    """Read run.json by its path or its folder's. Raises ReplayError, also for a field that the form
    does not have."""
    read = _read_run_file(path, form)
    unknown = unknown_field(_read_run_file(path, dict[str, object]), msgspec.to_builtins(read))
    if unknown is not None:
        raise ReplayError(f"{path}: {unknown}; see docs/explore.md")
    return read


def _read_run_file(path: Path, form: type[Decoded]) -> Decoded:
    file = path / RUN_FILE if path.is_dir() else path
    try:
        content = file.read_bytes()
        found = msgspec.json.decode(content, type=_AnyRun)
        if found.format != FORMAT:
            raise ReplayError(
                f"{file} has format {found.format}; this version reads format {FORMAT}"
            )
        return msgspec.json.decode(content, type=form)
    except OSError as error:
        raise ReplayError(f"{file} cannot be read: {error.strerror}") from error
    except msgspec.DecodeError as error:
        raise ReplayError(f"{file} is not a run of `refold explore`: {error}") from error


class _ScenarioFile(Scenario, frozen=True, kw_only=True):
    """A scenario, and inputs that are varied."""

    inputs: tuple[Input, ...] = ()


def read_scenario(path: Path) -> tuple[Scenario, tuple[Input, ...]]:
    """Read a scenario, with inputs if it has some, from TOML or JSON. Raises ReplayError.

    Brokers create /latest_producer_id_block when they start (KB 1.1). Saved runs of earlier
    versions do not have it, so it is added here.
    """
    try:
        content = path.read_bytes()
        if path.suffix == ".toml":
            given = msgspec.toml.decode(content)
        else:
            given = msgspec.json.decode(content)
        unknown = unknown_kind(given) or unknown_value(given)
        if unknown is not None:
            raise ReplayError(f"{path}: {unknown}; see docs/explore.md")
        found = msgspec.convert(given, _ScenarioFile)
    except OSError as error:
        raise ReplayError(f"{path} cannot be read: {error.strerror}") from error
    except msgspec.DecodeError as error:
        raise ReplayError(f"{path} is not a scenario: {error}; see docs/explore.md") from error
    except UnicodeDecodeError as error:
        raise ReplayError(f"{path} is not a scenario: it is not text in UTF-8") from error
    fields = {name: getattr(found, name) for name in Scenario.__struct_fields__}
    scenario = Scenario(**{**fields, "znodes": {znodes.PRODUCER_IDS: "", **found.znodes}})
    problem = unknown_field(given, msgspec.to_builtins(found))
    problem = problem or problem_of(scenario, found.inputs)
    if problem is not None:
        raise ReplayError(f"{path}: {problem}; see docs/explore.md")
    return scenario, found.inputs
