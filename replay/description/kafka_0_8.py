"""Events and commands of a broker of the 0.8 design in words."""

from controller.core import commands as core
from controller.kafka_0_8 import commands, events
from controller.kafka_0_8.commands import BrokerCommand, RecordCommand
from controller.kafka_0_8.events import CONSUMER, BrokerEvent, RecordEvent
from replay.description.commands import command_in_words, operation_in_words
from replay.description.error_names import error_name
from replay.description.events import event_in_words
from replay.description.phrases import first_few
from replay.names import command_name, partition_name


def broker_event_in_words(event: BrokerEvent) -> str:
    """An event in one line, without the fields of the record."""
    return _records(event) if isinstance(event, RecordEvent) else event_in_words(event)


def _records(event: RecordEvent) -> str:
    match event:
        case events.ProduceReceived(request=request, count=count, acks=acks):
            records = f"{count} records for {_name(event)}, acks {acks}"
            return f"request {request}: {records}"
        case events.FetchReceived(request=request, replica=replica, offset=offset, epoch=epoch):
            who = "a consumer" if replica == CONSUMER else f"replica {replica}, epoch {epoch},"
            return f"request {request}: {who} fetches {_name(event)} from offset {offset}"
        case events.FetchResponded(error=error, count=count, hw=hw, leo=leo):
            if error:
                return f"the leader answered {error_name(error)} ({_outcome(event)})"
            return (
                f"{count} records fetched, high watermark {hw}, log end {leo} ({_outcome(event)})"
            )
        case events.RecordsAppended(leo=leo):
            return f"records appended, log end {leo} ({_outcome(event)})"
        case events.LogOpened(leo=leo, hw=hw):
            return (
                f"log opened, log end {leo}, checkpointed high watermark {hw} ({_outcome(event)})"
            )
        case events.LogTruncated(leo=leo):
            return f"log truncated, log end {leo} ({_outcome(event)})"
        case events.LogDeleted():
            return f"log deleted ({_outcome(event)})"


def _outcome(
    event: events.FetchResponded | events.RecordsAppended | events.LogOutcome,
) -> str:
    return f"outcome of command {command_name(event.command)}"


def broker_command_in_words(command: BrokerCommand) -> str:
    """A command in one line."""
    match command:
        case core.WriteZnodes(operations=operations):
            return first_few(operation_in_words(one, _content) for one in operations)
        case core.WriteAtomically(operations=operations):
            return f"multi: {first_few(operation_in_words(one, _content) for one in operations)}"
        case _ if isinstance(command, RecordCommand):
            return _about_records(command)
        case _:
            return command_in_words(command)


def _about_records(command: RecordCommand) -> str:
    match command:
        case commands.OpenLog():
            return f"open the log of {_name(command)}"
        case commands.TruncateLog(offset=offset):
            return f"truncate the log of {_name(command)} to offset {offset}"
        case commands.DeleteLog():
            return f"delete the log of {_name(command)}"
        case commands.AppendRecords(count=count, source=source):
            return f"append {count} records of event {source} to {_name(command)}"
        case commands.SendFetch(leader=leader, address=address, offset=offset, epoch=epoch):
            to = f"from leader {leader} at {address}, epoch {epoch}"
            return f"fetch {_name(command)} from offset {offset} {to}"
        case commands.RespondProduce(request=request, error=error, offset=offset, leader=leader):
            if error:
                return f"answer request {request}: {error_name(error)}, leader {leader}"
            return f"answer request {request}: appended up to offset {offset}"
        case commands.RespondFetch(request=request, error=error, start=start, end=end, hw=hw):
            if error:
                return f"answer request {request}: {error_name(error)}"
            part = f"{end - start} records of {_name(command)} from offset {start}"
            return f"answer request {request}: {part}, high watermark {hw}"
        case commands.WriteCheckpoint(hws=hws):
            marks = first_few(f"{topic}-{number} {hw}" for topic, number, hw in hws)
            return f"checkpoint the high watermarks: {marks or 'none'}"


def _name(
    value: events.ProduceReceived
    | events.FetchReceived
    | commands.OpenLog
    | commands.TruncateLog
    | commands.DeleteLog
    | commands.AppendRecords
    | commands.SendFetch
    | commands.RespondFetch,
) -> str:
    return partition_name(value.topic, value.partition)


def _content(path: str, data: bytes) -> str:
    """The content of a znode: every znode of the design is short and has no secret."""
    return f" {data.decode('utf-8', 'backslashreplace')}" if data else ""
