"""A comparison as one JSON object."""

from typing import Any

import msgspec

from replay.diff.comparing import Comparison, Group, Instance
from replay.diff.reports import sentences


def as_json(comparison: Comparison, failing: list[Group]) -> str:
    """All results, including the divergences that follow from others."""
    content = {
        "summary": sentences.summary(comparison),
        "differs": bool(failing),
        "base": comparison.base,
        "head": comparison.head,
        "errors": comparison.errors,
        "nondeterminism": comparison.nondeterminism,
        "groups": [_group(one) for one in comparison.groups],
        "logs": [
            {
                "log": one.log,
                "events": one.events,
                "decisions": one.decisions,
                "left_at": one.left_at,
                "assumptions": {"base": one.assumptions[0], "head": one.assumptions[1]},
                "groups": [group.id for group in comparison.groups if one.log in group.logs],
                "error": one.error,
            }
            for one in comparison.logs
        ],
        "unused_accepted": comparison.unused,
        "uncovered": comparison.uncovered,
        "one_sided": comparison.one_sided,
        "undistinguished": comparison.undistinguished,
        "unmeasured": comparison.unmeasured,
    }
    return msgspec.json.encode(content).decode() + "\n"


def _group(group: Group) -> dict[str, Any]:
    first = group.first.root.first
    return {
        "id": group.id,
        "title": sentences.title(group),
        "what": first.what,
        "is_harmless": group.is_harmless,
        "is_later": group.is_later,
        "base_rule": first.base_rule,
        "head_rule": first.head_rule,
        "kind": first.kind,
        "accepted": group.accepted or None,
        "logs": group.logs,
        "partitions": group.partitions,
        "instances": [_instance(one) for one in group.instances],
    }


def _instance(instance: Instance) -> dict[str, Any]:
    return {
        "log": instance.log,
        "is_later": instance.is_later,
        "first": instance.root.first,
        "followers": instance.root.followers,
        "partitions": instance.root.partitions,
        "verdicts": instance.root.verdicts,
        "consequences": None if instance.is_shadow else instance.consequences,
        "not_simulated": [*instance.root.to_brokers, *instance.root.to_clients],
    }
