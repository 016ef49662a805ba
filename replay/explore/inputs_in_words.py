"""The inputs of a run in words, for the explorer and for what-if."""

from collections.abc import Sequence
from typing import Final, assert_never

from controller.core.values import counted
from controller.core.znodes import Name
from replay.description.phrases import broker_list, enumeration, first_few
from replay.names import partition_name
from replay.world.inputs import (
    NONE,
    SAME,
    AdminAct,
    AllocateProducerIds,
    AlterUserScramCredentials,
    CancelReassignment,
    ChangeBrokerConfig,
    ChangeTopicConfig,
    ChangeZooKeeperLeader,
    CrashBroker,
    CrashController,
    CreatePartitions,
    CreateTopic,
    CutConnection,
    Delay,
    DelayEphemeralDeletion,
    DeleteControllerZnode,
    DeleteStrays,
    DeleteTopic,
    DeleteZnode,
    ElectLeaders,
    EndCancellation,
    ExpireSession,
    FailLogDirectory,
    HangZooKeeper,
    HoldLink,
    KillController,
    LagZooKeeper,
    LoseReply,
    PauseProcess,
    Reassign,
    ShutDownController,
    SlowDisk,
    StartController,
    StopBroker,
    StopZooKeeperMember,
    Target,
    UpdateFeatures,
    WriteZnode,
)
from replay.world.kafka_0_8.networked.inputs import AddBrokers, Input08, RemoveBrokers

_ROUTES: Final = {
    "znode": "by a znode",
    "znode_with_id": "by a znode, with a topic id",
    "znode_without_id": "by a znode, without the topic id",
    "extra": "by /admin/reassign_partitions_extra",
    "request": "by a request znode",
    "legacy_request": "by a request znode with the mark of a legacy request",
}
"""How something is requested, unless by a request to the controller."""

_BrokerFault = CrashBroker | StopBroker | FailLogDirectory | AllocateProducerIds
_ConnectionFault = LoseReply | CutConnection | HoldLink | Delay
_ZooKeeperFault = (
    LagZooKeeper
    | HangZooKeeper
    | ChangeZooKeeperLeader
    | StopZooKeeperMember
    | DelayEphemeralDeletion
)
_TopicAct = CreateTopic | DeleteTopic | CreatePartitions | ChangeTopicConfig | ChangeBrokerConfig
_MoveAct = Reassign | CancelReassignment | EndCancellation | DeleteStrays | ElectLeaders


def input_in_words(one: Input08) -> str:
    """The effect of an input in words, in the past tense, without its time."""
    match one:
        case CrashBroker() | StopBroker() | FailLogDirectory() | AllocateProducerIds():
            return _broker_fault(one)
        case PauseProcess() | SlowDisk() | ExpireSession():
            return _process_fault(one)
        case LoseReply() | CutConnection() | HoldLink() | Delay():
            return _connection_fault(one)
        case CrashController() | KillController() | StartController() | ShutDownController():
            return _controller_fault(one)
        case _ if isinstance(one, _ZooKeeperFault):
            return _zookeeper_fault(one)
        case AddBrokers(brokers=brokers):
            return f"a client ran add-brokers for {broker_list(brokers)}"
        case RemoveBrokers(brokers=brokers):
            return f"a client ran remove-brokers for {broker_list(brokers)}"
        case _:
            return _act(one)


def _broker_fault(one: _BrokerFault) -> str:
    match one:
        case CrashBroker(broker=broker, restart_after_ms=ms):
            lost = " and lost the records that it had not flushed" if one.loses_unflushed else ""
            return f"broker {broker} crashed{lost}{_started_again(ms)}"
        case StopBroker(broker=broker, restart_after_ms=ms, closes_after_ms=closes):
            served = f" after it had served for {_time(closes)} more" if closes else ""
            lasted = f", which took {_time(one.lasts_ms)}" if one.lasts_ms else ""
            return f"broker {broker} shut down{served}{lasted}{_started_again(ms)}"
        case FailLogDirectory(broker=broker, partitions=partitions, repaired_after_ms=ms):
            repaired = f", until a repair {_time(ms)} later" if ms is not None else ""
            survives = ", also after a restart" if one.survives_restart else ""
            return f"the log directory of {_names(partitions)} on broker {broker} failed" + (
                repaired + survives
            )
        case AllocateProducerIds(broker=broker, route=route):
            return f"broker {broker} needed a block of producer ids{_route_text(route)}"
        case _:
            assert_never(one)


def _process_fault(one: PauseProcess | SlowDisk | ExpireSession) -> str:
    match one:
        case PauseProcess(process=process, ms=ms):
            return f"{process} was paused for {_time(ms)}"
        case SlowDisk(process=process, latency_ms=latency, ms=ms):
            return f"each write of {process} to its disk took {_time(latency)}, for {_time(ms)}"
        case ExpireSession(process=process):
            return f"the session of {process} expired"
        case _:
            assert_never(one)


def _connection_fault(one: _ConnectionFault) -> str:
    match one:
        case LoseReply(process=process, is_carried_out=is_carried_out):
            write = "write, which was carried out" if is_carried_out else "write, which was lost"
            return f"the connection of {process} to ZooKeeper broke at its next {write}"
        case CutConnection(one=first, other=other, ms=ms):
            return f"the connection between {first} and {other} broke" + _duration_text(ms)
        case HoldLink(sender=sender, receiver=receiver, ms=ms, accepts=accepts):
            opened = "; new connections were possible" if accepts else ""
            return f"messages from {sender} to {receiver} were held for {_time(ms)}{opened}"
        case Delay(link=link, number=number, ms=ms):
            sender, _, receiver = link.partition(">")
            return f"message {number} from {sender} to {receiver} arrived {_time(ms)} later"
        case _:
            assert_never(one)


def _zookeeper_fault(one: _ZooKeeperFault) -> str:
    match one:
        case LagZooKeeper(process=process, transactions=count, ms=ms, lag_ms=lag):
            limits = [counted(count, "transaction")] if count else []
            limits += [_time(lag)] if lag else []
            by = f" by {' or '.join(limits)}" if limits else ""
            return f"the ZooKeeper server of {process} lagged{by}{_duration_text(ms)}"
        case HangZooKeeper(ms=ms):
            return f"no ZooKeeper server answered{_duration_text(ms)}"
        case ChangeZooKeeperLeader(ms=ms):
            return f"ZooKeeper elected a leader; no connection was possible{_duration_text(ms)}"
        case StopZooKeeperMember(member=member, ms=ms):
            return f"ZooKeeper server {member} was down{_duration_text(ms)}"
        case DelayEphemeralDeletion(process=process, delay_ms=delay, ms=ms):
            late = f"{_time(delay)} after an expiry of its session"
            return f"ephemeral znodes of {process} were deleted {late}{_duration_text(ms)}"
        case _:
            assert_never(one)


def _controller_fault(
    one: CrashController | KillController | StartController | ShutDownController,
) -> str:
    match one:
        case CrashController(process=process, act=act, when=when):
            what = f"{process} crashed {when} its write or request number {act} from then on"
            return what + _succeeded(one.successor, one.restart_after_ms)
        case KillController(process=process, successor=successor, restart_after_ms=ms):
            return f"{process} crashed{_succeeded(successor, ms)}"
        case StartController(process=process):
            return f"{process} started"
        case ShutDownController(process=process, restart_after_ms=ms):
            return f"{process} shut down{_started_again(ms)}"
        case _:
            assert_never(one)


def _act(one: AdminAct) -> str:
    match one:
        case _ if isinstance(one, _TopicAct):
            return _topic_act(one)
        case _ if isinstance(one, _MoveAct):
            return _move_act(one)
        case AlterUserScramCredentials(changes=changes):
            users = enumeration(dict.fromkeys(change.user for change in changes))
            return f"the SCRAM credentials of {users} were changed"
        case UpdateFeatures(changes=changes, validate_only=is_check):
            levels = first_few(f"{change.feature} to {change.level}" for change in changes)
            what = "checked" if is_check else "requested"
            return f"a client {what} changes of finalized features: {levels}"
        case DeleteControllerZnode():
            return "a client deleted /controller"
        case WriteZnode(path=path):
            return f"a client wrote {path}"
        case DeleteZnode(path=path):
            return f"a client deleted {path}"
        case _:
            assert_never(one)


def _topic_act(one: _TopicAct) -> str:
    match one:
        case CreateTopic(topic=topic, route=route):
            return f"topic {topic} was created{_route_text(route)}"
        case DeleteTopic(topic=topic, route=route):
            return f"the deletion of topic {topic} was requested{_route_text(route)}"
        case CreatePartitions(topic=topic, added=added, route=route):
            what = f"{counted(len(added), 'partition')} of topic {topic}"
            were = "was" if len(added) == 1 else "were"
            return f"{what} {were} created{_route_text(route)}"
        case ChangeTopicConfig(topic=topic):
            return f"the configuration of topic {topic} was changed"
        case ChangeBrokerConfig(broker=broker):
            whose = "all brokers" if broker is None else f"broker {broker}"
            return f"the dynamic configuration of {whose} was changed"
        case _:
            assert_never(one)


def _move_act(one: _MoveAct) -> str:
    match one:
        case Reassign(targets=targets, route=route):
            moved = first_few(map(_target, targets), "; ")
            return f"a client requested the reassignment of {moved}{_route_text(route)}"
        case CancelReassignment(partitions=partitions, route=route, force=force):
            forced = " with force" if force else ""
            what = f"the reassignment of {_names(partitions)}"
            return f"a client cancelled {what}{forced}{_route_text(route)}"
        case EndCancellation():
            return "a client deleted /admin/reassign_cancel"
        case DeleteStrays(broker=broker, partitions=partitions):
            what = f"replicas of {_names(partitions)} on broker {broker}"
            return f"a client requested the deletion of unassigned {what}"
        case ElectLeaders(partitions=partitions, election=election, route=route):
            article = "an" if election == "unclean" else "a"
            what = f"{article} {election} election of {_names(partitions)}"
            return f"a client requested {what}{_route_text(route)}"
        case _:
            assert_never(one)


def _target(one: Target) -> str:
    return f"{partition_name(one.topic, one.partition)} to {broker_list(one.replicas)}"


def _names(partitions: Sequence[Name]) -> str:
    names = [partition_name(topic, number) for topic, number in partitions]
    return first_few(names, ", ") if names else "all partitions"


def _route_text(route: str) -> str:
    return f" {_ROUTES[route]}" if route in _ROUTES else ""


def _started_again(ms: int | None) -> str:
    return f", and started again {_time(ms)} later" if ms is not None else ""


def _succeeded(successor: str, restart_after_ms: int) -> str:
    if successor == SAME:
        return _started_again(restart_after_ms)
    return "" if successor == NONE else f", and {successor} started"


def _duration_text(ms: int) -> str:
    return f" for {_time(ms)}" if ms else ""


def _time(ms: int) -> str:
    return f"{ms} ms" if ms < 1_000 else f"{ms / 1_000:g} s"
