"""Asking a log of either kind, or several logs of one cluster."""

from collections.abc import Sequence

from replay.cluster_view.selecting import demand
from replay.description.phrases import listed
from replay.errors import ReplayError
from replay.logs.open_log import OpenedLog
from replay.progress import Progress, unreported
from replay.stock_clusters.imported_log.reading import ImportedLog
from replay.why import imported, recorded
from replay.why.answers.answer import Answer, answer
from replay.why.answers.reassignment import refusal_since
from replay.why.facts import BrokerChanged, RoleChanged, TopicChanged
from replay.why.history import History
from replay.why.recorded import Part
from replay.why.subject import Subject


def ask(log: OpenedLog, subject: Subject, seq: int, progress: Progress = unreported) -> Answer:
    """Why the subject is as it is after event `seq`.

    Raises ReplayError where there is no such topic or partition then, and LogError.
    """
    if isinstance(log, ImportedLog):
        history = imported.history_of(log, subject, seq, progress)
    else:
        history = recorded.history_of([Part(log, seq)], subject, progress)
    _demand_subject(history)
    return answer(history)


def ask_runs(parts: Sequence[Part], subject: Subject, progress: Progress = unreported) -> Answer:
    """The same of several logs of one cluster, each up to an event. Raises as `ask` does."""
    history = recorded.history_of(parts, subject, progress)
    _demand_subject(history)
    return answer(history)


def _demand_broker(history: History, broker: int) -> None:
    cluster = history.cluster
    is_replica = any(broker in one.replicas for one in cluster.partitions())
    told = any(isinstance(one, BrokerChanged) and one.broker == broker for one in history.facts)
    if cluster.broker(broker) is None and not is_replica and not told:
        known = listed([one.id for one in cluster.brokers])
        raise ReplayError(f"no broker {broker} by event {cluster.seq}; registered are {known}")


def _demand_term(history: History, term: int) -> None:
    roles = [one for one in history.facts if isinstance(one, RoleChanged)]
    known = {one.epoch for one in roles if one.code in ("elected", "resigned")}
    known = (known | {history.cluster.controller.epoch}) - {0}
    if term not in known:
        told = listed(sorted(known))
        raise ReplayError(f"no term {term} by event {history.cluster.seq}; this log's are {told}")


def _demand_subject(history: History) -> None:
    subject, heard = history.subject, history.about_its_name()
    if subject.term is not None:
        _demand_term(history, subject.term)
    if subject.topic is None:
        if subject.broker is not None:
            _demand_broker(history, subject.broker)
        return
    if history.is_there():
        return
    if not heard:
        demand(history.cluster, subject.topic, subject.partition)
    was_there = any(isinstance(one, TopicChanged) for one in heard)
    if was_there and not (subject.is_reassignment and refusal_since(history, None)):
        # The answer tells what became of the topic.
        history.subject = Subject(topic=subject.topic)
