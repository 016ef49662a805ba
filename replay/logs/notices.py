"""The notices of a daemon that its log has, of which nothing is folded."""

from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec

from controller.core.canonical import decode_command
from controller.core.commands import Notice
from eventstore.reader import LogReader
from eventstore.records import CommandRecord
from replay.errors import ReplayError

_NOTICE: Final = str(Notice.__struct_config__.tag)


class StoredNotice(NamedTuple):
    """A notice with its record."""

    record: CommandRecord
    notice: Notice


def notices(reader: LogReader, last_seq: int | None = None) -> Iterator[StoredNotice]:
    """The notices up to event `last_seq`, in order, without those that are too large to be stored.
    Raises ReplayError, LogError."""
    for record in reader.commands(last_cause=last_seq, kind=_NOTICE):
        if record.body is None:
            continue
        try:
            command = decode_command(record.body)
        except msgspec.DecodeError as error:
            text = f"a notice of event {record.cause} cannot be decoded: {error}"
            raise ReplayError(text) from error
        if isinstance(command, Notice):
            yield StoredNotice(record, command)
