"""The warning about disconnected clients."""

from controller.api.front.server import WARNING_INTERVAL_S, RateLimitedWarning


def test_frequent_warnings_are_reported_once_with_their_number() -> None:
    logged: list[str] = []
    now = 0.0
    warning = RateLimitedWarning(logged.append, lambda: now)
    for _ in range(100):
        warning.add("10.0.0.1", "garbage")
    assert logged == ["closed the connection of 10.0.0.1: garbage"]
    now = WARNING_INTERVAL_S
    warning.add("10.0.0.2", "a lie")
    assert logged[1:] == [
        "closed the connection of 10.0.0.2: a lie; 99 others were closed since the last message"
    ]
