"""The page about scenario files: all fields of the classes that a scenario is read to."""

import inspect as source
from collections.abc import Iterator
from typing import Any, Final, get_args

from msgspec import NODEFAULT, Struct, inspect, json

from replay.world.inputs import Input
from replay.world.scenario import (
    BrokerSpec,
    ControllerSpec,
    Load,
    Scenario,
    SlowReplica,
    TopicSpec,
)

_TABLES: Final[dict[str, type[Struct]]] = {
    "brokers": BrokerSpec,
    "topics": TopicSpec,
    "controllers": ControllerSpec,
    "load": Load,
    "slow_replicas": SlowReplica,
}
_NAMES: Final = {
    inspect.IntType: "integer",
    inspect.StrType: "text",
    inspect.BoolType: "true or false",
}
_LISTED_MAX: Final = 6
"""At most this many fields of another table are listed where it is used."""
_HEAD: Final = """\
# Scenario files

A scenario file of [`refold explore --scenario`](explore.md#scenarios) is TOML or JSON. This page
has all of its fields. All times are in milliseconds of the run. Defaults are written as in JSON.
*None* is `null` there; TOML has no value for it.

Generated from the classes in `replay/world` by `python -m tools.pages --write`.

Processes are named `zookeeper`, `broker 1`, `refold 100`, `stock 1` (a controller in broker 1),
`admin`, `producer 0` and `consumer 0`. The fields of `configuration` are those of
`controller/core/configuration.py`; the [settings](settings.md) of the daemon with the same names
describe most of them.
"""
_INPUTS: Final = """\
## Inputs

Each of `[[inputs]]` has its kind, for example `input = "crash_broker"`, and `at_ms`, its time since
the run began.
"""


def page() -> str:
    """The whole page."""
    return "\n".join([_HEAD, *_section("## The scenario", Scenario), *_tables(), *_inputs()])


def _tables() -> Iterator[str]:
    for name, form in _TABLES.items():
        yield from _section(f"## `{name}`", form)


def _inputs() -> Iterator[str]:
    yield _INPUTS
    for form in get_args(Input):
        yield from _section(f"### `{form.__struct_config__.tag}`", form, left_out=("at_ms",))


def _section(heading: str, form: type[Struct], left_out: tuple[str, ...] = ()) -> Iterator[str]:
    """Heading, docstring, and the table of the fields."""
    yield heading
    yield ""
    yield source.getdoc(form) or ""
    yield ""
    structure = inspect.type_info(form)
    assert isinstance(structure, inspect.StructType)
    fields = [one for one in structure.fields if one.name not in left_out]
    if fields:
        yield "| field | value | default |"
        yield "|---|---|---|"
        for field in fields:
            yield f"| `{field.name}` | {_value(field.type)} | {_default(field)} |"
        yield ""


def _value(form: inspect.Type) -> str:
    match form:
        case inspect.LiteralType(values=values):
            return "one of " + ", ".join(f"`{one}`" for one in values)
        case inspect.UnionType(types=types):
            known = [one for one in types if not isinstance(one, inspect.NoneType)]
            return " or ".join(map(_value, known))
        case inspect.VarTupleType(item_type=item):
            return f"list of {_value(item)}"
        case inspect.TupleType(item_types=items):
            return f"list: {', '.join(map(_value, items))}"
        case inspect.DictType(key_type=key, value_type=value):
            return f"table from {_value(key)} to {_value(value)}"
        case inspect.StructType(fields=fields, cls=cls):
            name = next((name for name, one in _TABLES.items() if one is cls), None)
            if name is not None:
                return f"[table](#{name})"
            if len(fields) > _LISTED_MAX:
                return "table"
            listed = ", ".join(f"`{one.name}`: {_value(one.type)}" for one in fields)
            return f"table ({listed})"
        case inspect.IntType(ge=lowest, le=highest) if highest is not None:
            return f"integer, {lowest} to {highest}"
        case inspect.IntType(ge=lowest) if lowest is not None:
            return f"integer, {lowest} or more"
        case _:
            return _NAMES[type(form)]


def _default(field: inspect.Field) -> str:
    if field.required:
        return "(required)"
    default: Any = field.default
    if default is NODEFAULT:
        default = field.default_factory()
    text = json.encode(default).decode()
    if text in ("[]", "{}", '""'):
        return "empty"
    return "none" if text == "null" else f"`{text}`"
