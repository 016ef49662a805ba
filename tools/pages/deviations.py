"""docs/deviations.md: the named deviations."""

from controller.core.deviations import ALL


def page() -> str:
    """The page."""
    lines = [
        "# Where refold decides better than Kafka",
        "",
        "Drawn from `controller/core/deviations.py` by `python -m tools.pages --write`.",
        '`rules = "kafka"` turns off those that are not marked as always on.',
        "",
    ]
    for one in ALL:
        lines += [
            f"## {one.name}",
            "",
            f"- Defect: {one.defect}",
            f"- Rule: {one.rule}",
            f"- Source: {one.source}",
            f"- {'Always on.' if one.always else 'Off under Kafka rules.'}",
            "",
        ]
    return "\n".join(lines)
