"""Why is a broker registered or not, and which partitions does that affect?"""

from collections.abc import Iterable, Iterator
from typing import Final

from controller.core.values import counted
from replay.description.phrases import enumeration
from replay.why.explanations.finding import Finding, around_loss, last, loss_of
from replay.why.facts import (
    AddressProbed,
    AnyFact,
    BrokerChanged,
    NoLeader,
    NoticeIssued,
    StateWritten,
)
from replay.why.history import FactHistory
from replay.why.sentences import event_and_time, sentence

_SHOWN: Final = 10


def explain_broker(history: FactHistory) -> Finding:
    """Explain the state of the broker in question."""
    broker = history.subject.broker
    assert broker is not None, "the question is about a broker"
    facts = list(_without_repeated_probes(history.facts, broker))
    view = history.cluster.broker(broker)
    changed = last(facts, BrokerChanged) if view is not None else loss_of(history, broker)
    parts = [one for one in history.cluster.partitions() if broker in one.replicas]
    if view is None:
        head = f"Broker {broker} is not registered"
        if changed is not None:
            head = f"Broker {broker} has not been registered since {event_and_time(changed)}: "
            head += f"{sentence(changed)}{around_loss(history, changed)}"
    else:
        state = "shutting down" if view.is_shutting_down else "registered"
        head = f"Broker {broker} is {state}"
        if changed is not None:
            head = f"Broker {broker} has been {state} since {event_and_time(changed)}"
    leads = sum(1 for one in parts if one.leader == broker)
    out = [one.name for one in parts if broker not in one.isr]
    offline = [
        one.name for one in parts if one.status == "offline" and broker in (one.leader, *one.isr)
    ]
    tail = f"It has {counted(len(parts), 'replica')}, leads {leads}, and is "
    tail += f"out of the ISR of {_some(out)}" if out else "in all their ISRs"
    if offline:
        tail += f"; {_some(offline)} {'is' if len(offline) == 1 else 'are'} offline without it"
    return Finding(f"{head}. {tail}.", facts)


def _without_repeated_probes(facts: Iterable[AnyFact], broker: int) -> Iterator[AnyFact]:
    """The facts about a broker, without probes that found the same as the one before."""
    result = ""
    for one in facts:
        if not _belongs(one, broker):
            continue
        match one:
            case AddressProbed():
                if one.result != result:
                    yield one
                result = one.result
            case BrokerChanged():
                result = ""
                yield one
            case _:
                yield one


def _belongs(fact: AnyFact, broker: int) -> bool:
    if isinstance(fact, BrokerChanged | AddressProbed):
        return fact.broker == broker
    return isinstance(fact, (StateWritten, NoLeader, NoticeIssued))


def _some(names: list[str]) -> str:
    if len(names) <= _SHOWN:
        return enumeration(names)
    return f"{', '.join(names[:_SHOWN])} and {len(names) - _SHOWN} more"
