"""A source is a folder or an archive that contains a server's data at any depth."""

import io
import os
import shutil
import tarfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.errors import ReplayError
from replay.stock_clusters.zookeeper_log.source import open_source
from replay.znode_tree.tree import Tree
from tests.replay.stock_clusters.zookeeper_log.samples import error, log_bytes, patient
from tests.replay.stock_clusters.zookeeper_log.test_snapshot_file import snapshot_bytes

EMPTY_SNAPSHOT = snapshot_bytes("", {}, {}, [(p, -1, z) for p, z in Tree().dump().items()])


def log(first: int, last: int, preallocated: int = 0) -> bytes:
    return log_bytes([error(zxid) for zxid in range(first, last + 1)], preallocated)


ONE_SERVER = {
    "incident/zk/version-2/snapshot.0": EMPTY_SNAPSHOT,
    "incident/zk/version-2/log.1": log(1, 15, preallocated=70_000),
    "incident/zk/version-2/log.10": log(16, 20),
    "incident/zk/version-2/currentEpoch": b"0",
    "incident/logs/broker-1/controller.log": b"first",
    "incident/logs/broker-1/controller.log.2024-01-01-10": b"rotated",
    "incident/logs/broker-2/state-change.log": b"second",
    "incident/logs/broker-2/control-requests.log": b"third",
    "incident/logs/broker-2/server.log": b"not wanted",
}


def fill(folder: Path, files: Mapping[str, bytes]) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


def pack(path: Path, files: Mapping[str, bytes]) -> Path:
    kind = path.suffix[1:].replace("tgz", "gz").replace("txz", "xz").replace("tar", "")
    with tarfile.open(path, f"w:{kind}") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path


def zxids(path: Path) -> list[int]:
    with open_source(path) as source:
        return [one.zxid for one in source.transactions(source.first_state().zxid)]


@pytest.mark.parametrize("name", ["", "x.tar", "x.tar.gz", "x.tgz", "x.tar.xz", "x.txz"])
def test_folder_and_archives_have_the_same_content(tmp_path: Path, name: str) -> None:
    path = pack(tmp_path / name, ONE_SERVER) if name else fill(tmp_path, ONE_SERVER)
    with open_source(path) as source:
        assert source.server.name == "incident/zk/version-2"
        assert [one.zxid for one in source.server.logs] == [1, 16]
        assert [one.size for one in source.server.logs] == [70_000, len(log(16, 20))]
        assert [one.zxid for one in source.server.snapshots] == [0]
        assert [(one.kind, one.name, one.path.read_bytes()) for one in source.broker_logs] == [
            ("controller.log", "incident/logs/broker-1/controller.log", b"first"),
            (
                "controller.log",
                "incident/logs/broker-1/controller.log.2024-01-01-10",
                b"rotated",
            ),
            ("control-requests.log", "incident/logs/broker-2/control-requests.log", b"third"),
            ("state-change.log", "incident/logs/broker-2/state-change.log", b"second"),
        ]
        logs = source.transactions()
        assert [one.zxid for one in logs] == [*range(1, 21)]
        assert logs.damages == []
        unpacked = source.broker_logs[0].path
    assert unpacked.exists() is (name == "")


def test_folder_may_be_the_data_folder_itself(tmp_path: Path) -> None:
    fill(tmp_path, ONE_SERVER)
    assert zxids(tmp_path / "incident/zk/version-2") == [*range(1, 21)]


def test_most_complete_server_is_used_and_reported(tmp_path: Path) -> None:
    fill(
        tmp_path,
        {
            "zk1/version-2/log.1": log(1, 10),
            "zk2/version-2/log.1": log(1, 12),
            "zk3/version-2/log.5": log(5, 14),
        },
    )
    with open_source(tmp_path) as source:
        assert source.server.name == "zk2/version-2"
        assert source.notes == [
            "uses zk2/version-2: 12 transactions up to zxid 0xc",
            "leaves out zk3/version-2: 10 transactions up to zxid 0xe",
            "leaves out zk1/version-2: 10 transactions up to zxid 0xa",
        ]


def test_snapshots_in_a_separate_folder_belong_to_the_nearest_logs(tmp_path: Path) -> None:
    fill(
        tmp_path,
        {
            "zk1/data/version-2/snapshot.0": EMPTY_SNAPSHOT,
            "zk1/txn/version-2/log.1": log(1, 10),
            "zk2/data/version-2/snapshot.5": EMPTY_SNAPSHOT,
            "zk2/txn/version-2/log.1": log(1, 3),
        },
    )
    with open_source(tmp_path) as source:
        assert [one.name for one in source.server.snapshots] == ["zk1/data/version-2/snapshot.0"]


def test_files_with_similar_names_are_not_logs(tmp_path: Path) -> None:
    fill(tmp_path, {**ONE_SERVER, "app/log.1": b"some text", "app/log.txt": b"text"})
    assert zxids(tmp_path) == [*range(1, 21)]


def test_link_or_device_is_skipped_and_reported(tmp_path: Path) -> None:
    """A link whose target was not copied may have been to a log."""
    fill(tmp_path, ONE_SERVER)
    folder = tmp_path / "incident/zk/version-2"
    (folder / "log.20").symlink_to("elsewhere/log.20")
    os.mkfifo(folder / "log.30")
    with open_source(tmp_path) as source:
        assert sorted(source.notes) == [
            "incident/zk/version-2/log.20 is left out: it is a link to nothing",
            "incident/zk/version-2/log.30 is left out: it is a device, socket or pipe",
        ]
        assert source.is_cut


def test_damaged_log_is_reported_with_its_folder(tmp_path: Path) -> None:
    fill(tmp_path, {**ONE_SERVER, "incident/zk/version-2/log.10": b"broken"})
    with open_source(tmp_path) as source:
        logs = source.transactions()
        assert [one.zxid for one in logs] == [*range(1, 16)]
        assert str(logs.damages[0]).startswith("incident/zk/version-2/log.10 ends at offset 0")


def test_earliest_readable_snapshot_is_the_start(tmp_path: Path) -> None:
    fill(
        tmp_path,
        {
            "version-2/snapshot.3": EMPTY_SNAPSHOT,
            "version-2/snapshot.f": EMPTY_SNAPSHOT[:-3],
            "version-2/snapshot.12": EMPTY_SNAPSHOT,
            "version-2/snapshot.14": EMPTY_SNAPSHOT,
            "version-2/log.10": log(16, 22),
        },
    )
    with open_source(tmp_path) as source:
        assert [one.left_out for one in source.first_states()] == [3, 5, 0]
    with open_source(tmp_path) as source:
        assert source.first_state().zxid == 0x12
        assert source.notes[-1] == (
            "starts from version-2/snapshot.12: the logs before it, from zxid 0x10 on, are left out"
        )
        [damage] = source.damages
        assert str(damage).startswith("version-2/snapshot.f ends at offset")
        assert str(damage).endswith(": it is not used")


def test_snapshot_may_lack_the_last_transactions_before_the_logs(tmp_path: Path) -> None:
    """Servers take such snapshots: the last transactions are in an earlier log."""
    fill(
        tmp_path,
        {
            "version-2/snapshot.9": EMPTY_SNAPSHOT,
            "version-2/snapshot.e": EMPTY_SNAPSHOT,
            "version-2/snapshot.12": EMPTY_SNAPSHOT,
            "version-2/log.10": log(16, 22),
        },
    )
    with open_source(tmp_path) as source:
        assert source.first_state().zxid == 0xE
        assert source.notes == ["starts from version-2/snapshot.e"]


def test_damaged_snapshot_is_not_needed_if_the_logs_are_complete(tmp_path: Path) -> None:
    """With a later snapshot, the transactions before it would be skipped."""
    fill(
        tmp_path,
        {
            "version-2/snapshot.0": EMPTY_SNAPSHOT[:-3],
            "version-2/snapshot.9": EMPTY_SNAPSHOT,
            "version-2/log.1": log(1, 12),
        },
    )
    with open_source(tmp_path) as source:
        assert source.first_state().zxid == 0
        assert source.notes[-1].startswith("starts from an empty ZooKeeper: ")
        assert [one.file for one in source.damages] == ["version-2/snapshot.0"]


@pytest.mark.parametrize("begin", [1, (1 << 32) + 1])
def test_complete_logs_begin_before_later_snapshots(tmp_path: Path, begin: int) -> None:
    """Servers before 3.5 take no snapshot of an empty ZooKeeper."""
    files = {
        f"version-2/snapshot.{begin + 6:x}": EMPTY_SNAPSHOT,
        f"version-2/log.{begin:x}": log(begin, begin + 7),
    }
    with open_source(fill(tmp_path, files)) as source:
        assert source.first_state().zxid == 0
        assert source.notes == [
            "starts from an empty ZooKeeper: no snapshot from before the logs can be used"
        ]


@pytest.mark.parametrize(
    ("begin", "before"),
    [
        pytest.param((2 << 32) + 1, None, id="an epoch precedes"),
        pytest.param((1 << 32) + 1, 0x50, id="a damaged snapshot precedes"),
    ],
)
def test_logs_of_a_later_epoch_do_not_start_from_an_empty_zookeeper(
    tmp_path: Path, begin: int, before: int | None
) -> None:
    files = {
        f"version-2/snapshot.{begin + 6:x}": EMPTY_SNAPSHOT,
        f"version-2/log.{begin:x}": log(begin, begin + 7),
    }
    if before is not None:
        files[f"version-2/snapshot.{before:x}"] = EMPTY_SNAPSHOT[:-3]
    with open_source(fill(tmp_path, files)) as source:
        assert source.first_state().zxid == begin + 6


def test_earlier_snapshot_is_used_if_none_adjoins_the_logs(tmp_path: Path) -> None:
    fill(tmp_path, {"version-2/snapshot.3": EMPTY_SNAPSHOT, "version-2/log.8": log(8, 12)})
    with open_source(tmp_path) as source:
        state = source.first_state()
        assert state.zxid == 3
        logs = source.transactions(state.zxid)
        list(logs)
        assert [str(one) for one in logs.gaps] == [
            "transactions between zxid 0x3 and 0x8 are missing"
        ]


@pytest.mark.parametrize("begin", [1, (1 << 32) + 1])
def test_logs_from_the_first_transaction_need_no_snapshot(tmp_path: Path, begin: int) -> None:
    fill(tmp_path, {f"version-2/log.{begin:x}": log(begin, begin + 2)})
    assert zxids(tmp_path) == [begin, begin + 1, begin + 2]


def test_logs_from_the_middle_need_a_snapshot(tmp_path: Path) -> None:
    fill(tmp_path, {"version-2/log.8": log(8, 12)})
    with (
        open_source(tmp_path) as source,
        pytest.raises(ReplayError, match=r"begin at zxid 0x8 .* add the snapshot\.\* files"),
    ):
        source.first_state()


def test_unusable_source_is_rejected(tmp_path: Path) -> None:
    def refusal(path: Path) -> str:
        with pytest.raises(ReplayError) as raised, open_source(path):
            pass
        return str(raised.value)

    assert refusal(tmp_path / "none") == f"{tmp_path / 'none'} does not exist"
    assert "has no ZooKeeper transaction log" in refusal(tmp_path)
    file = tmp_path / "file.zip"
    file.write_bytes(b"x")
    assert "neither a folder nor an archive (.tar, " in refusal(file)
    for name in ("x.tar", "x.tar.gz", "x.tar.xz"):
        (tmp_path / name).write_bytes(b"no archive")
        assert "cannot be unpacked" in refusal(tmp_path / name)


@pytest.mark.parametrize("name", ["x.tar", "x.tar.gz", "x.tar.xz"])
def test_truncated_archive_is_read_up_to_its_end(tmp_path: Path, name: str) -> None:
    noise = Random(1).randbytes(300_000)
    whole = pack(tmp_path / name, {**ONE_SERVER, "controller.log": noise}).read_bytes()
    (tmp_path / name).write_bytes(whole[:-30_000])
    with open_source(tmp_path / name) as source:
        assert "is damaged, it cannot be read after " in source.notes[0]
        assert [one.zxid for one in source.transactions()] == [*range(1, 21)]


@pytest.mark.parametrize("place", [150_000, 250_000, -5_000])
def test_changed_byte_in_a_compressed_archive_is_reported(tmp_path: Path, place: int) -> None:
    noise = Random(1).randbytes(300_000)
    path = pack(tmp_path / "x.tar.gz", {**ONE_SERVER, "controller.log": noise})
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)
    with open_source(path) as source:
        assert "x.tar.gz is damaged, " in source.notes[0]


def test_archive_is_unpacked_only_into_the_temporary_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    evil = {"../../log.1": log(1, 3), f"{tmp_path}/outside/log.2": log(2, 3)}
    archive = pack(tmp_path / "x.tar", {**evil, **ONE_SERVER})
    link = tarfile.TarInfo("version-2/log.5")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    with tarfile.open(archive, "a") as tar:
        tar.addfile(link)
    with open_source(archive) as source:
        assert source.server.name == "incident/zk/version-2"
        assert not (tmp_path / "outside").exists()
        assert all("damaged" not in note for note in source.notes)
    assert [one.name for one in tmp_path.iterdir()] == ["x.tar"]


def test_progress_is_reported_up_to_the_end(tmp_path: Path) -> None:
    reported: list[tuple[str, int, int]] = []
    archive = pack(tmp_path / "x.tar.gz", ONE_SERVER)
    with open_source(archive, lambda *what: reported.append(what)) as source:
        list(source.transactions())
    unpacked = [one for one in reported if one[0] == "unpacking"]
    assert {size for _, _, size in unpacked} == {archive.stat().st_size}
    assert all(0 < done <= size for _, done, size in reported)
    assert [(what, done) for what, done, size in reported if done == size][-1][0] == "reading"
    assert reported[-1] == ("reading", 70_000 + len(log(16, 20)), 70_000 + len(log(16, 20)))


@patient
@given(st.sampled_from(["x.tar", "x.tar.gz", "x.tar.xz"]), st.data())
def test_damaged_archive_is_read_or_rejected(
    tmp_path_factory: pytest.TempPathFactory, name: str, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("archive")
    content = bytearray(pack(folder / name, ONE_SERVER).read_bytes())
    for _ in range(data.draw(st.integers(1, 5))):
        content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    (folder / name).write_bytes(content)
    with suppress(ReplayError), open_source(folder / name) as source:
        list(source.transactions())
    shutil.rmtree(folder)


@pytest.mark.parametrize("name", ["", "x.tar"])
def test_files_with_other_names_are_skipped_and_reported(tmp_path: Path, name: str) -> None:
    others = ("log.10.gz", "log.1F", "snapshot.0.bak")
    files = {**ONE_SERVER, **{f"incident/zk/version-2/{one}": b"x" for one in others}}
    path = pack(tmp_path / name, files) if name else fill(tmp_path, files)
    with open_source(path) as source:
        assert source.notes == [
            "left out, because no server uses these names: incident/zk/version-2/log.10.gz,"
            " incident/zk/version-2/log.1F, incident/zk/version-2/snapshot.0.bak"
        ]
        assert [one.zxid for one in source.transactions()] == [*range(1, 21)]


def test_name_of_any_bytes_is_printed_with_escapes(tmp_path: Path) -> None:
    """The folders count as those of two servers."""
    for byte, last in ((b"\xfe", 3), (b"\xff", 2)):
        folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/a \n" + byte + b"/version-2"))
        folder.mkdir(parents=True)
        (folder / "log.1").write_bytes(log(1, last))
    with open_source(tmp_path) as source:
        assert source.notes == [
            r"uses a \n\udcfe/version-2: 3 transactions up to zxid 0x3",
            r"leaves out a \n\udcff/version-2: 2 transactions up to zxid 0x2",
        ]
