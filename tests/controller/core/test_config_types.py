"""Checks of configuration values, as Kafka's ConfigDef makes them."""

from typing import Any

import pytest

from controller.core.config_types import (
    Check,
    InvalidConfiguration,
    Parse,
    between,
    each_of,
    int32,
    parse_value,
    string_list,
)


@pytest.mark.parametrize(
    ("check", "parse", "text", "value"),
    [
        (between(2, 4), int32, "2", 2),
        (between(2, 4), int32, "4", 4),
        (each_of("a", "b"), string_list, "b, a", ("b", "a")),
    ],
)
def test_allowed_value_is_read(check: Check, parse: Parse, text: str, value: Any) -> None:
    assert parse_value("n", text, parse, check) == value


@pytest.mark.parametrize(
    ("make", "limits", "parse", "text", "why"),
    [
        (between, (2, 4), int32, "1", "1 for configuration n: Value must be at least 2"),
        (between, (2, 4), int32, "5", "5 for configuration n: Value must be no more than 4"),
        (
            each_of,
            ("a", "b"),
            string_list,
            "a,c",
            "c for configuration n: String must be one of: a, b",
        ),
    ],
)
def test_value_outside_of_the_limits_is_refused_with_kafkas_text(
    make: Any, limits: tuple[Any, ...], parse: Parse, text: str, why: str
) -> None:
    with pytest.raises(InvalidConfiguration, match=f"^Invalid value {why}$"):
        parse_value("n", text, parse, make(*limits))
