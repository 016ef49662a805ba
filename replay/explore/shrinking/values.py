"""Simpler values in inputs: shorter times, fewer partitions, plainer variants."""

from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeVar

from msgspec import structs

from replay.world.inputs import TimedInput

Input = TypeVar("Input", bound=TimedInput)

_TIMES: Final = (
    "ms",
    "restart_after_ms",
    "closes_after_ms",
    "latency_ms",
    "lag_ms",
    "delay_ms",
    "transactions",
)
_LISTS: Final = ("targets", "partitions", "changes")
_PLAIN: Final[dict[str, Any]] = {
    "loses_unflushed": False,
    "force": False,
    "validate_only": False,
    "configs": {},
    "successor": "same",
    "closes_after_ms": 0,
    "survives_restart": False,
}


def simpler_inputs(inputs: Sequence[Input]) -> Iterator[list[Input]]:
    """The inputs with one value simpler."""
    for place, one in enumerate(inputs):
        for simpler in _simpler(one):
            yield [*inputs[:place], simpler, *inputs[place + 1 :]]


def _simpler(one: Input) -> Iterator[Input]:
    fields = structs.asdict(one)
    for name, plain in _PLAIN.items():
        if name in fields and fields[name] != plain:
            yield structs.replace(one, **{name: plain})
    for name in _LISTS:
        items = fields.get(name, ())
        if len(items) > 1:
            for place in range(len(items)):
                yield structs.replace(one, **{name: items[:place] + items[place + 1 :]})
    for name in _TIMES:
        value = fields.get(name)
        if isinstance(value, int) and value > 1:
            yield structs.replace(one, **{name: value // 2})
