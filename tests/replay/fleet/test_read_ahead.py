"""Files are asked for before their turn."""

from pathlib import Path

from replay.fleet.read_ahead import with_read_ahead


def test_all_come_in_order_whatever_is_wrong_with_them(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_bytes(bytes(10_000))
    names = ["empty", "folder", "is not there", "file", "file"]
    for count in range(len(names) + 1):
        assert list(with_read_ahead(names[:count], tmp_path.joinpath)) == names[:count]


def test_next_ones_are_asked_for_while_one_is_worked_on(tmp_path: Path) -> None:
    asked: list[str] = []

    def file_of(name: str) -> Path:
        asked.append(name)
        return tmp_path / name

    items = with_read_ahead("abcdef", file_of)
    assert next(items) == "a"
    assert asked == ["a", "b", "c"]
    assert next(items) == "b"
    assert asked == ["a", "b", "c", "d"]
