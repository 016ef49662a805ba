"""Inputs in words."""

from typing import get_args

import pytest

from replay.explore.inputs_in_words import input_in_words
from replay.world.inputs import (
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
    CredentialChange,
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
    FeatureChange,
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

_T0 = (("t", 0),)

WORDS: list[tuple[Input08, str]] = [
    (CrashBroker(0, 3, False, 14_585), "broker 3 crashed, and started again 14.585 s later"),
    (
        CrashBroker(0, 3, True, None),
        "broker 3 crashed and lost the records that it had not flushed",
    ),
    (StopBroker(0, 5, 1), "broker 5 shut down, and started again 1 ms later"),
    (StopBroker(0, 5, None, 700), "broker 5 shut down after it had served for 700 ms more"),
    (
        FailLogDirectory(0, 1, _T0),
        "the log directory of t-0 on broker 1 failed, until a repair 20 s later",
    ),
    (
        FailLogDirectory(0, 1, (), None, True),
        "the log directory of all partitions on broker 1 failed, also after a restart",
    ),
    (AllocateProducerIds(0, 2, "znode"), "broker 2 needed a block of producer ids by a znode"),
    (PauseProcess(0, "refold 100", 1_500), "refold 100 was paused for 1.5 s"),
    (SlowDisk(0, "broker 1", 20, 2_000), "each write of broker 1 to its disk took 20 ms, for 2 s"),
    (ExpireSession(0, "broker 1"), "the session of broker 1 expired"),
    (
        LoseReply(0, "broker 1"),
        "the connection of broker 1 to ZooKeeper broke at its next write, which was carried out",
    ),
    (
        LoseReply(0, "broker 1", is_carried_out=False),
        "the connection of broker 1 to ZooKeeper broke at its next write, which was lost",
    ),
    (
        CutConnection(0, "broker 1", "broker 2", 0),
        "the connection between broker 1 and broker 2 broke",
    ),
    (
        HoldLink(0, "refold 100", "broker 1", 50, accepts=True),
        "messages from refold 100 to broker 1 were held for 50 ms; new connections were possible",
    ),
    (
        Delay(0, "broker 1>zookeeper", 4, 9),
        "message 4 from broker 1 to zookeeper arrived 9 ms later",
    ),
    (
        LagZooKeeper(0, "broker 1", 3, 5_000, 200),
        "the ZooKeeper server of broker 1 lagged by 3 transactions or 200 ms for 5 s",
    ),
    (HangZooKeeper(0, 900), "no ZooKeeper server answered for 900 ms"),
    (
        ChangeZooKeeperLeader(0, 2_000),
        "ZooKeeper elected a leader; no connection was possible for 2 s",
    ),
    (StopZooKeeperMember(0, 2, 1_000), "ZooKeeper server 2 was down for 1 s"),
    (
        DelayEphemeralDeletion(0, "broker 1", 300, 9_000),
        "ephemeral znodes of broker 1 were deleted 300 ms after an expiry of its session for 9 s",
    ),
    (
        CrashController(0, "refold 100", 6, "after", "refold 101"),
        "refold 100 crashed after its write or request number 6 from then on, and refold 101 "
        "started",
    ),
    (KillController(0, "refold 100"), "refold 100 crashed, and started again 2 s later"),
    (KillController(0, "refold 100", "none"), "refold 100 crashed"),
    (StartController(0, "refold 100"), "refold 100 started"),
    (ShutDownController(0, "refold 100"), "refold 100 shut down"),
    (CreateTopic(0, "t", ((1,),)), "topic t was created"),
    (DeleteTopic(0, "t", "znode"), "the deletion of topic t was requested by a znode"),
    (CreatePartitions(0, "t", ((1,),)), "1 partition of topic t was created"),
    (ChangeTopicConfig(0, "t", {}), "the configuration of topic t was changed"),
    (ChangeBrokerConfig(0, None, {}), "the dynamic configuration of all brokers was changed"),
    (
        AlterUserScramCredentials(0, (CredentialChange("ann", "SCRAM-SHA-256"),)),
        "the SCRAM credentials of ann were changed",
    ),
    (
        UpdateFeatures(0, (FeatureChange("f", 2),)),
        "a client requested changes of finalized features: f to 2",
    ),
    (
        Reassign(0, (Target("t", 0, (1, 3)),), "extra"),
        "a client requested the reassignment of t-0 to 1,3 by /admin/reassign_partitions_extra",
    ),
    (
        CancelReassignment(0, (), "znode", force=True),
        "a client cancelled the reassignment of all partitions with force by a znode",
    ),
    (EndCancellation(0), "a client deleted /admin/reassign_cancel"),
    (
        DeleteStrays(0, 1, _T0),
        "a client requested the deletion of unassigned replicas of t-0 on broker 1",
    ),
    (ElectLeaders(0, _T0, "unclean"), "a client requested an unclean election of t-0"),
    (DeleteControllerZnode(0), "a client deleted /controller"),
    (WriteZnode(0, "/brokers/ids/1", ""), "a client wrote /brokers/ids/1"),
    (DeleteZnode(0, "/brokers/ids/1"), "a client deleted /brokers/ids/1"),
    (AddBrokers(0, (4, 5)), "a client ran add-brokers for 4,5"),
    (RemoveBrokers(0, (4,)), "a client ran remove-brokers for 4"),
]


@pytest.mark.parametrize(("one", "words"), WORDS)
def test_input_is_in_words(one: Input08, words: str) -> None:
    assert input_in_words(one) == words


def test_each_input_has_words() -> None:
    assert {type(one) for one, _ in WORDS} == set(get_args(Input08))
