"""What the operator is told of clients that are turned away."""

from controller.api.front.server import WARNING_INTERVAL_S, RateLimitedWarning


def test_a_flood_is_told_once_with_its_number() -> None:
    told: list[str] = []
    now = 0.0
    complaints = RateLimitedWarning(told.append, lambda: now)
    for _ in range(100):
        complaints.add("10.0.0.1", "garbage")
    assert told == ["closed the connection of 10.0.0.1: garbage"]
    now = WARNING_INTERVAL_S
    complaints.add("10.0.0.2", "a lie")
    assert told[1:] == [
        "closed the connection of 10.0.0.2: a lie; 99 others were closed since the last message"
    ]
