"""The stored form of a broker's events and commands, as controller.core.canonical has the
controller's. Kinds that both designs have are the same in both."""

from typing import Final, get_args

import msgspec

from controller.core.canonical import decode_stored, kind_of
from controller.kafka_0_8.commands import BrokerCommand, BrokerStep
from controller.kafka_0_8.events import BrokerEvent

_event_decoder: msgspec.msgpack.Decoder[BrokerEvent] = msgspec.msgpack.Decoder(BrokerEvent)
_command_decoder: msgspec.msgpack.Decoder[BrokerCommand] = msgspec.msgpack.Decoder(BrokerCommand)

BROKER_EVENT_SCHEMAS: Final[dict[str, int]] = {kind_of(one): 1 for one in get_args(BrokerEvent)}
"""Every kind of event, with the version of its fields that this code writes and folds."""
BROKER_COMMANDS: Final = tuple(map(kind_of, get_args(BrokerCommand)))
"""Every kind of command."""
BROKER_STEPS: Final = frozenset(map(kind_of, get_args(BrokerStep)))
"""The kinds of commands that decide nothing themselves."""


def decode_broker_event(payload: bytes) -> BrokerEvent:
    """The event of a payload. Raises msgspec.DecodeError for anything else."""
    return decode_stored(_event_decoder.decode, payload)


def decode_broker_command(body: bytes) -> BrokerCommand:
    """The command of a body. Raises msgspec.DecodeError for anything else."""
    return decode_stored(_command_decoder.decode, body)
