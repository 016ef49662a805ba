"""Why is a broker there or not, and what did that lead to?"""

from typing import Final

from replay.description.phrases import joined
from replay.why.answers.finding import Reply, after_shutdown, at, last
from replay.why.facts import AnyFact, BrokerChanged, NoLeader, StateWritten, Told
from replay.why.history import History
from replay.why.words import sentence

_SHOWN: Final = 10


def about_broker(history: History) -> Reply:
    """The answer about the broker that is asked about."""
    broker = history.subject.broker
    assert broker is not None, "a broker is asked about"
    facts = [one for one in history.facts if _belongs(one, broker)]
    changed = last(facts, BrokerChanged)
    view = history.cluster.broker(broker)
    parts = [one for one in history.cluster.partitions() if broker in one.replicas]
    if view is None:
        head = f"Broker {broker} is not registered"
        if changed is not None:
            head += f" since {at(changed)}: {sentence(changed)}{after_shutdown(history, changed)}"
    else:
        head = f"Broker {broker} is {'shutting down' if view.is_shutting_down else 'registered'}"
        if changed is not None:
            head += f" since {at(changed)}"
    leads = sum(1 for one in parts if one.leader == broker)
    out = [one.name for one in parts if broker not in one.isr]
    offline = [
        one.name for one in parts if one.status == "offline" and broker in (one.leader, *one.isr)
    ]
    tail = f"It has {len(parts)} replicas, leads {leads}, and is "
    tail += f"out of the ISR of {_some(out)}" if out else "in all their ISRs"
    if offline:
        tail += f"; {_some(offline)} {'is' if len(offline) == 1 else 'are'} offline without it"
    return Reply(f"{head}. {tail}.", facts)


def _belongs(fact: AnyFact, broker: int) -> bool:
    if isinstance(fact, BrokerChanged):
        return fact.broker == broker
    return isinstance(fact, (StateWritten, NoLeader, Told))


def _some(names: list[str]) -> str:
    if len(names) <= _SHOWN:
        return joined(names)
    return f"{', '.join(names[:_SHOWN])} and {len(names) - _SHOWN} more"
