"""Files are prefetched before they are processed."""

from pathlib import Path

from replay.fleet.read_ahead import with_read_ahead


def test_items_keep_their_order_also_with_unreadable_files(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_bytes(bytes(10_000))
    names = ["empty", "folder", "is not there", "file", "file"]
    for count in range(len(names) + 1):
        assert list(with_read_ahead(names[:count], tmp_path.joinpath)) == names[:count]


def test_next_files_are_prefetched_while_one_is_processed(tmp_path: Path) -> None:
    prefetched: list[str] = []

    def file_of(name: str) -> Path:
        prefetched.append(name)
        return tmp_path / name

    items = with_read_ahead("abcdef", file_of)
    assert next(items) == "a"
    assert prefetched == ["a", "b", "c"]
    assert next(items) == "b"
    assert prefetched == ["a", "b", "c", "d"]
