"""Explains the state of a subject from a log of either kind, or from several logs of a cluster."""

from collections.abc import Sequence

from replay.cluster_view.selecting import require, require_broker_among
from replay.cluster_view.views import NO_BROKER
from replay.description.phrases import broker_list
from replay.errors import ReplayError
from replay.logs.open_log import OpenedLog
from replay.progress import Progress, unreported
from replay.stock_clusters.imported_log.reading import ImportedLog
from replay.why import imported, recorded, terms
from replay.why.explanations.explanation import Explanation, explanation_of
from replay.why.explanations.reassignment import refusal_since
from replay.why.facts import BrokerChanged, RoleChanged, TopicChanged
from replay.why.history import FactHistory
from replay.why.recorded import LogPart
from replay.why.subject import Subject
from replay.why.terms import ImportedPart


def explain(
    log: OpenedLog, subject: Subject, seq: int, progress: Progress = unreported
) -> Explanation:
    """Explain the state of the subject after event `seq`.

    Raises ReplayError if the topic or partition did not exist then, and LogError.
    """
    if isinstance(log, ImportedLog):
        history = imported.history_of(log, subject, seq, progress)
    else:
        history = recorded.history_of([LogPart(log, seq)], subject, progress)
    return explain_history(history)


def explain_history(history: FactHistory) -> Explanation:
    """Explain the state of the subject of a history that was read before. Raises ReplayError."""
    _require_subject(history)
    return explanation_of(history)


def explain_runs(
    parts: Sequence[LogPart], subject: Subject, progress: Progress = unreported
) -> Explanation:
    """Explain the state of the subject from several logs of one cluster, each up to an event.
    Raises as `explain` does."""
    return explain_history(recorded.history_of(parts, subject, progress))


def explain_terms(
    parts: Sequence[LogPart],
    imports: Sequence[ImportedPart],
    subject: Subject,
    progress: Progress = unreported,
) -> Explanation:
    """Explain the controller role from logs of the daemon and imported logs of one cluster, each
    up to an event. Raises as `explain` does."""
    return explain_history(terms.history_of(parts, imports, subject, progress))


def _require_broker(history: FactHistory, broker: int) -> None:
    cluster = history.cluster
    registered = {one.broker for one in history.facts if isinstance(one, BrokerChanged)}
    known = cluster.known_brokers() | registered
    if broker == history.daemon and broker not in known:
        raise ReplayError(
            f"{broker} is the broker id of the daemon that recorded this log: a daemon is not "
            "registered and has no replicas; `refold why LOG` and `--term` explain its role"
        )
    try:
        require_broker_among(known, broker, f"no {{}} at event {cluster.seq}")
    except ReplayError as error:
        raise ReplayError(
            f"{error}. No earlier event of the log is about its registration: correct the id, or "
            "choose another event with --at"
        ) from error


def _require_term(history: FactHistory, term: int) -> None:
    roles = [one for one in history.facts if isinstance(one, RoleChanged)]
    known = {one.epoch for one in roles if one.code in ("elected", "resigned")}
    # A daemon that takes over has read whose /controller it deletes.
    known |= {one.epoch - 1 for one in roles if one.code == "elected" and one.other != NO_BROKER}
    known = (known | {history.cluster.controller.epoch}) - {0}
    if not known or not min(known) <= term <= max(known):
        terms = broker_list(sorted(known))
        raise ReplayError(
            f"no term {term} by event {history.cluster.seq}; this log has {terms}. Other terms are "
            "those of other controllers"
        )


def _require_subject(history: FactHistory) -> None:
    subject = history.subject
    if subject.term is not None:
        _require_term(history, subject.term)
    if subject.topic is None:
        if subject.broker is not None:
            _require_broker(history, subject.broker)
        return
    if history.exists():
        return
    found = history.facts_about_name()
    if not found:
        try:
            require(history.cluster, subject.topic, subject.partition)
        except ReplayError as error:
            kind = "topic" if subject.partition is None else "partition"
            advice = "correct the name"
            if history.has_later_events:
                advice += ", or give a later moment with --at"
            raise ReplayError(
                f"{error}. No earlier event of the log names this {kind}: {advice}"
            ) from error
    was_there = any(isinstance(one, TopicChanged) for one in found)
    if was_there and not (subject.is_reassignment and refusal_since(history, 0)):
        # The explanation then says what happened to the topic.
        history.subject = Subject(topic=subject.topic)
