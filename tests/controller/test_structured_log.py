import json
import logging
import sys

from controller.structured_log import JsonLines, TextLines


def record(message: str, **extra: object) -> logging.LogRecord:
    made = logging.getLogger("controller.daemon").makeRecord(
        "controller.daemon", logging.WARNING, "file", 1, message, (), None, extra=extra
    )
    made.created = 1_700_000_000.25
    return made


def test_json_line_has_the_fields_of_a_record() -> None:
    line = JsonLines().format(record("gave\nup", fields={"term": 3}, broker=1, what={1}))
    assert json.loads(line) == {
        "time": "2023-11-14T22:13:20.250Z",
        "level": "warning",
        "logger": "controller.daemon",
        "message": "gave\nup",
        "term": 3,
        "broker": 1,
        "what": [1],
    }
    assert "\n" not in line


def test_json_line_contains_no_character_that_controls_a_terminal() -> None:
    message = "no ACL allows it: User:a\u202eb\x7f \U000e0001 é"
    line = JsonLines().format(record(message))
    assert line.isprintable()
    assert "é" in line
    assert json.loads(line)["message"] == message


def test_exception_is_a_field() -> None:
    made = record("fault")
    try:
        raise ValueError("why")
    except ValueError:
        made.exc_info = sys.exc_info()
    assert "ValueError: why" in json.loads(JsonLines().format(made))["exception"]


def test_text_line_has_the_fields_of_a_record() -> None:
    line = TextLines().format(record("gave up", fields={"term": 3}))
    assert line == "2023-11-14T22:13:20.250Z WARNING gave up term=3"


def test_text_line_names_the_subject() -> None:
    unnamed = record("the state cannot be read", fields={"subject": "t-0"})
    assert " t-0: the state cannot be read subject=t-0" in TextLines().format(unnamed)
    named = record("broker 2 registered", fields={"subject": "broker 2"})
    assert " WARNING broker 2 registered subject=broker 2" in TextLines().format(named)


def test_text_line_of_a_message_with_control_characters_is_one_line() -> None:
    forged = record("refused: x\n2026 INFO elected\x1b[31m", fields={"who": "a\nb"})
    line = TextLines().format(forged)
    assert "refused: x\\n2026 INFO elected\\x1b[31m who=a\\nb" in line
    assert "\n" not in line
