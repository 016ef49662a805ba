"""Real servers for tests marked `lab`, recordings, settings of all property tests, and the
distribution of files to workers."""

import gc
import hashlib
import os
import subprocess
import tarfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
import hypothesis
import pytest
from hypothesis.internal.conjecture import providers
from xdist.scheduler import LoadFileScheduling

from tools.lab import Lab, ZooKeeperServer

_RECORDINGS = Path(__file__).parent / "recordings"

# `same-draws` draws the same examples in each run; `make random-draws` chooses the other profile.
# There is no database, because examples of earlier runs would be drawn first. There are no
# deadlines, because tests are slow on a busy machine.
for profile, is_same in (("same-draws", True), ("random-draws", False)):
    hypothesis.settings.register_profile(
        profile,
        derandomize=is_same,
        database=None,
        print_blob=True,
        deadline=None,
        suppress_health_check=[hypothesis.HealthCheck.too_slow],
    )
hypothesis.settings.load_profile("same-draws")

# Hypothesis also draws constants that it finds in imported code. The same seed would then draw
# other examples after other tests, for example in each worker of pytest-xdist. Hypothesis has no
# setting against this.
NO_CONSTANTS = providers.Constants()
providers._get_local_constants = lambda: NO_CONSTANTS

# Hypothesis shrinks a failing example for up to 5 minutes. The report needs the result.
PROPERTY_TEST_SECONDS_MAX = 420


SPARK_FILES = (
    "tests/replay/fleet/test_decoding.py",
    "tests/replay/fleet/test_ingest.py",
    "tests/replay/fleet/test_sources.py",
)
"""Files with tests that use Spark. One worker runs them all, so that Java starts once."""
ENDS_AT = pytest.StashKey[float | None]()
LONG_FILES = (
    *SPARK_FILES,
    "tests/replay/diff/test_comparing.py",
    "tests/replay/agreement/test_corruptions.py",
    "tests/tools/mutations/test_mutations.py",
    "tests/replay/agreement/test_recordings.py",
    "tests/replay/diff/test_rollback_steps.py",
)
"""Workers of pytest-xdist run these files first, so that all workers end at about the same time."""


class FileScheduling(LoadFileScheduling):
    """Distributes files to the workers of pytest-xdist; the files that use Spark are one unit."""

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return "Spark" if file in SPARK_FILES else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One worker more than cores: tests wait for processes a third of their time."""
    return (os.cpu_count() or 1) + 1


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling | None:
    """Replace the scheduler of --dist loadfile."""
    return FileScheduling(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of CI, whose time is limited."""
    parser.addoption(
        "--minutes",
        type=float,
        help="Begin tests for this time and skip the others. After each commit, other files are "
        "first.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """The time of --minutes begins."""
    minutes = config.getoption("--minutes")
    config.stash[ENDS_AT] = time.monotonic() + 60 * minutes if minutes else None


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test when the time of --minutes is over."""
    ends_at = item.config.stash[ENDS_AT]
    if ends_at is not None and time.monotonic() > ends_at:
        pytest.skip("the time of --minutes is over")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with long files in workers; give property tests time to shrink a failing example."""
    _mark_other_samples(items)
    if config.getoption("--minutes"):
        commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, check=True)
        items.sort(key=lambda one: hashlib.sha256(commit.stdout + os.fsencode(one.path)).digest())
    elif hasattr(config, "workerinput"):
        places = {file: place for place, file in enumerate(LONG_FILES)}
        items.sort(key=lambda one: places.get(one.location[0], len(places)))
    for item in items:
        is_property = hypothesis.is_hypothesis_test(getattr(item, "obj", None))
        if is_property and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(PROPERTY_TEST_SECONDS_MAX))


def _mark_other_samples(items: list[pytest.Item]) -> None:
    """Of a test that is `sampled`, the first that is not long stays; the others become so."""
    first: dict[str, None] = {}
    for item in items:
        if (
            item.get_closest_marker("sampled") is None
            or item.get_closest_marker("long") is not None
        ):
            continue
        function = item.nodeid.partition("[")[0]
        if function in first:
            item.add_marker("long")
        first[function] = None


def pytest_collection_finish() -> None:
    """The garbage collector need not search the collected tests and imported modules again."""
    gc.freeze()


@pytest.fixture(scope="session")
def folder_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Returns the folder of a recording, which tests must not change."""
    folder = tmp_path_factory.mktemp("recordings")

    def unpack(name: str) -> Path:
        if not (folder / name).exists():
            with tarfile.open(_RECORDINGS / f"{name}.tar.xz") as tar:
                tar.extractall(folder, filter="data")
        return folder / name

    return unpack


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short path, since a socket's path is limited."""
    with TemporaryDirectory() as made:
        yield Path(made)


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    """A real ZooKeeper 3.9 that the tests of a module share, with an empty tree at their start."""
    lab = Lab(tmp_path_factory.mktemp("zookeeper"))
    try:
        yield anyio.run(lab.start_zookeeper)
    finally:
        lab.close()


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """A lab without servers: `await lab.start_zookeeper()` and so on."""
    lab = Lab(tmp_path / "lab")
    try:
        yield lab
    finally:
        lab.close()
