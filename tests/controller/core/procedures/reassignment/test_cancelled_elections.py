"""While /admin/reassign_cancel exists, only originals are elected (KB 14.2.2, steps 1 and 2).

t-0 moves from [1,2,3] to [4,5,6]. Its rollback waits, since too few originals are in sync.
"""

import pytest

from controller.core import error_codes as codes
from controller.core.commands import Choice
from controller.core.election import UNCLEAN_LEADER
from controller.core.operations import Delete
from controller.core.values import ANY_VERSION
from controller.core.znodes import CANCEL_CONTENT, REASSIGN_CANCEL, Name
from tests.controller.core.cluster import Cluster, reads
from tests.controller.core.endpoint import controlled_shutdown
from tests.controller.core.procedures.elections.electing import (
    configure,
    configure_quietly,
    elect,
    rebalance,
)
from tests.controller.core.procedures.reassignment.interrupting import (
    OtherControllersTerm,
    assert_nothing_is_left,
    cancel_all,
    cancel_quietly,
    interruptible,
    request,
    set_minimum,
    submit,
    submit_extra,
)
from tests.controller.core.procedures.reassignment.reassigning import (
    T0,
    ask_for_isr,
    assert_no_failures,
    assignment,
    catch_up,
    elect_preferred,
    reassign,
)

ELECTION = "offline partition leader election"
U0 = ("u", 0)
UNDER_WAY = "4,5,6,1,2,3 adding 4,5,6 removing 1,2,3"


def moving(least: int = 3) -> Cluster:
    """t-0 during its move, so that its rollback waits for `least` originals."""
    cluster = interruptible(6, 1, 2, 3)
    set_minimum(cluster, least)
    submit(cluster, {T0: [4, 5, 6]})
    return cluster


def led_by(leader: int, *isr: int) -> Cluster:
    """t-0 has this leader, which is not 1, and this ISR. All brokers are alive."""
    cluster = moving()
    ask_for_isr(cluster, 1, leader)
    cluster.stop_broker(1)
    cluster.start_broker(1)
    catch_up(cluster, *[one for one in isr if one != leader])
    assert cluster.leadership("t", 0).leader == leader
    assert set(cluster.leadership("t", 0).isr) == set(isr)
    return cluster


def leader(cluster: Cluster) -> int:
    """The leader of t-0."""
    found: int = cluster.leadership("t", 0).leader
    return found


# A leader dies ----------------------------------------------------------------------------------


def test_live_original_in_the_isr_is_elected_before_the_targets() -> None:
    cluster = led_by(4, 4, 5, 2)
    cancel_all(cluster)
    cluster.stop_broker(4)
    assert leader(cluster) == 2


def test_target_in_the_isr_is_elected_without_a_live_original_in_the_isr() -> None:
    cluster = led_by(4, 4, 5)
    cancel_all(cluster)
    seen = cluster.seen()
    cluster.stop_broker(4)
    assert leader(cluster) == 5
    assert seen.texts_of("unclean_leader") == []
    assert assignment(cluster) == UNDER_WAY


def test_targets_are_elected_first_without_a_cancellation() -> None:
    cluster = led_by(4, 4, 5, 2)
    cluster.stop_broker(4)
    assert leader(cluster) == 5


def test_dead_original_in_the_isr_is_not_elected() -> None:
    cluster = led_by(4, 4, 5, 2)
    cluster.unregister(2)
    cancel_all(cluster)
    cluster.stop_broker(4)
    assert leader(cluster) == 5


@pytest.mark.parametrize("route", [reassign, None])
def test_elections_of_other_reassignments_are_unchanged(route: object) -> None:
    """/admin/reassign_cancel does not cancel them."""
    cluster = interruptible(6, 1, 2, 3)
    if route is None:
        request(cluster, {T0: [4, 5, 6]})
    else:
        assert reassign(cluster, 4, 5, 6) == codes.NONE
    catch_up(cluster, 4, 5)
    cancel_all(cluster)
    cluster.stop_broker(1)
    assert leader(cluster) == 4


def test_cancellation_not_yet_processed_counts_in_an_election() -> None:
    """The broker's failure is processed first."""
    cluster = led_by(4, 4, 5, 2)
    cluster.unregister(4)
    cancel_quietly(cluster)
    seen = cluster.seen()
    cluster.run()
    elected = [
        choice.chosen
        for _, commands in seen.history
        for issued in commands
        if issued.reason.rule == "offline partition leader election"
        for choice in issued.reason.choices
    ]
    assert elected == [2]


@pytest.mark.parametrize(("isr", "elected"), [((4, 5, 2), 2), ((4, 5), 5)])
def test_failover_elects_originals_first_while_a_cancellation_exists(
    isr: tuple[int, ...], elected: int
) -> None:
    cluster = led_by(4, *isr)
    with OtherControllersTerm(cluster):
        cancel_quietly(cluster)
        cluster.unregister(4)
    assert leader(cluster) == elected
    assert_no_failures(cluster)


def test_failover_elects_originals_in_place_of_a_leader_that_restarted() -> None:
    cluster = led_by(4, 4, 5, 2)
    with OtherControllersTerm(cluster):
        cancel_quietly(cluster)
        cluster.bounce(4)
    assert leader(cluster) == 2
    assert_no_failures(cluster)


def test_failover_elects_targets_first_after_the_cancellation_was_removed() -> None:
    cluster = led_by(4, 4, 5, 2)
    cancel_all(cluster)
    with OtherControllersTerm(cluster):
        cluster.ask(Delete(REASSIGN_CANCEL, ANY_VERSION))
        cluster.unregister(4)
    assert leader(cluster) == 5


# Unclean leaders --------------------------------------------------------------------------------


def test_only_an_original_becomes_an_unclean_leader() -> None:
    """The ISR is [4]. Brokers 1, 5 and 6 are alive, and 5 precedes 1 in the assignment."""
    cluster = led_by(4, 4)
    configure(cluster, "topics/t", "true")
    cluster.stop_broker(2)
    cluster.stop_broker(3)
    cancel_all(cluster)
    assert assignment(cluster) == UNDER_WAY
    seen = cluster.seen()
    cluster.stop_broker(4)
    assert leader(cluster) == 1
    assert seen.texts_of("unclean_leader") == [
        "offline partition leader election: the new leader of t-0 was not in sync: records may be "
        "lost (passed over: 1 not in sync, 2 not online, 3 not online, 4 not online, 5 not an "
        "original replica of the cancelled reassignment, 6 not an original replica of the "
        "cancelled reassignment)"
    ]
    assert assignment(cluster) == "1,2,3"
    assert_nothing_is_left(cluster)


@pytest.mark.parametrize("fails_over", [False, True])
def test_only_an_original_becomes_an_unclean_leader_while_a_rollback_waits_for_an_extra_entry(
    fails_over: bool,
) -> None:
    cluster = led_by(4, 4)
    configure(cluster, "topics/t", "true")
    cluster.stop_broker(2)
    cluster.stop_broker(3)
    seen = cluster.seen()
    submit_extra(cluster, {T0: [5, 6]})
    assert seen.texts_of("rollback_waits")
    if fails_over:
        with OtherControllersTerm(cluster):
            cluster.unregister(4)
    else:
        cluster.stop_broker(4)
    assert leader(cluster) == 1
    assert seen.texts_of("unclean_leader")


def test_member_of_the_isr_leads_while_a_rollback_waits_for_an_extra_entry() -> None:
    cluster = led_by(4, 4, 5)
    configure(cluster, "topics/t", "true")
    submit_extra(cluster, {T0: [5, 6]})
    cluster.stop_broker(4)
    assert leader(cluster) == 5


def test_targets_in_sync_are_elected_first_while_a_rollback_waits_for_an_extra_entry() -> None:
    cluster = led_by(4, 4, 5, 2)
    seen = cluster.seen()
    submit_extra(cluster, {T0: [5, 6]})
    assert seen.texts_of("rollback_waits")
    cluster.stop_broker(4)
    assert leader(cluster) == 5


def test_no_target_becomes_an_unclean_leader() -> None:
    cluster = led_by(4, 4)
    configure(cluster, "topics/t", "true")
    for broker in (1, 2, 3):
        cluster.stop_broker(broker)
    cancel_all(cluster)
    seen = cluster.seen()
    cluster.stop_broker(4)
    assert leader(cluster) == -1
    assert seen.texts_of("unclean_leader") == []
    cluster.start_broker(2)
    assert leader(cluster) == 2


def test_failed_election_names_the_live_replicas_that_a_cancellation_excludes() -> None:
    cluster = led_by(4, 4)
    configure(cluster, "topics/t", "true")
    for broker in (1, 2, 3):
        cluster.stop_broker(broker)
    cancel_all(cluster)
    seen = cluster.seen()
    cluster.stop_broker(4)
    passed_over = (
        *((one, "not online") for one in (1, 2, 3, 4)),
        *((one, "not an original replica of the cancelled reassignment") for one in (5, 6)),
    )
    assert seen.failed_elections() == [Choice("t", 0, -1, ELECTION, passed_over)]
    [text] = seen.texts_of("no_leader_elected")
    assert text.endswith(
        "4 not online, 5 not an original replica of the cancelled reassignment, "
        "6 not an original replica of the cancelled reassignment"
    )


def test_excluded_replicas_are_not_in_sync_where_no_unclean_leader_is_allowed() -> None:
    cluster = led_by(4, 4)
    cluster.stop_broker(1)
    cancel_all(cluster)
    seen = cluster.seen()
    cluster.stop_broker(4)
    [failed] = seen.failed_elections()
    assert failed.passed_over == (
        (1, "not online"),
        (2, "not in sync"),
        (3, "not in sync"),
        (4, "not online"),
        (5, "not in sync"),
        (6, "not in sync"),
    )


def test_unclean_election_of_an_original_passes_over_the_excluded_replicas() -> None:
    cluster = led_by(4, 4)
    configure(cluster, "topics/t", "true")
    cancel_all(cluster)
    seen = cluster.seen()
    cluster.stop_broker(4)
    [passed_over] = [
        choice.passed_over
        for _, commands in seen.history
        for issued in commands
        for choice in issued.reason.choices
        if (issued.reason.rule, choice.code) == (ELECTION, UNCLEAN_LEADER)
    ]
    assert [one for one, why in passed_over if why.startswith("not an original")] == [5, 6]


def test_partition_without_unclean_election_waits_for_its_isr() -> None:
    cluster = led_by(4, 4)
    cancel_all(cluster)
    cluster.stop_broker(4)
    assert leader(cluster) == -1
    cluster.start_broker(4)
    assert leader(cluster) == 4


def test_requested_unclean_election_elects_an_original() -> None:
    cluster = led_by(4, 4)
    cancel_all(cluster)
    cluster.stop_broker(4)
    seen = cluster.seen()
    assert elect(cluster, "unclean", T0) == {T0: codes.NONE}
    assert leader(cluster) == 1
    assert len(seen.texts_of("unclean_leader")) == 1


def test_requested_unclean_election_elects_no_target() -> None:
    cluster = led_by(4, 4)
    for broker in (1, 2, 3):
        cluster.stop_broker(broker)
    cancel_all(cluster)
    cluster.stop_broker(4)
    assert elect(cluster, "unclean", T0) == {T0: codes.ELIGIBLE_LEADERS_NOT_AVAILABLE}
    assert leader(cluster) == -1


def test_topic_that_allows_unclean_leaders_later_elects_an_original() -> None:
    cluster = led_by(4, 4)
    cancel_all(cluster)
    cluster.stop_broker(4)
    configure(cluster, "topics/t", "true")
    assert leader(cluster) == 1


@pytest.mark.parametrize("elected", [(T0,), (T0, U0), ()])
def test_election_that_leaves_only_originals_in_the_isr_ends_the_wait(
    elected: tuple[Name, ...],
) -> None:
    """By a tool, for these partitions; or by the topic's configuration."""
    cluster = led_by(4, 4)
    cluster.create_topic("u", {0: [4, 2]})
    ask_for_isr(cluster, 4, name=U0)
    cancel_all(cluster)
    cluster.stop_broker(4)
    if elected:
        set_minimum(cluster, 1)
        assert set(elect(cluster, "unclean", *elected).values()) == {codes.NONE}
    else:
        configure(cluster, "topics/t", "true")
    assert cluster.leadership("t", 0).isr == (1,)
    assert assignment(cluster) == "1,2,3"


def test_failover_elects_only_an_original_as_unclean_leader() -> None:
    cluster = led_by(4, 4)
    allowed = {"version": 1, "config": {"unclean.leader.election.enable": "true"}}
    configure_quietly(cluster, "topics/t", allowed)
    with OtherControllersTerm(cluster):
        cancel_quietly(cluster)
        cluster.unregister(4)
    assert leader(cluster) == 1


# Other elections --------------------------------------------------------------------------------


def test_preferred_leader_is_the_first_original() -> None:
    cluster = led_by(5, 4, 5, 1)
    cancel_all(cluster)
    assert elect_preferred(cluster) == codes.NONE
    assert leader(cluster) == 1


def test_target_is_never_a_preferred_leader() -> None:
    cluster = led_by(5, 4, 5)
    cancel_all(cluster)
    assert elect_preferred(cluster) == codes.PREFERRED_LEADER_NOT_AVAILABLE
    assert leader(cluster) == 5


def test_automatic_elections_elect_no_target() -> None:
    cluster = led_by(2, 2, 4)
    cancel_all(cluster)
    rebalance(cluster)
    assert leader(cluster) == 2


def test_controlled_shutdown_elects_an_original() -> None:
    cluster = led_by(4, 4, 5, 2)
    cancel_all(cluster)
    assert controlled_shutdown(cluster, 4).remaining == ()
    assert leader(cluster) == 2


def test_controlled_shutdown_without_an_original_in_sync_elects_a_target() -> None:
    cluster = led_by(4, 4, 5)
    cancel_all(cluster)
    assert controlled_shutdown(cluster, 4).remaining == ()
    assert leader(cluster) == 5


def test_cancellation_created_just_before_an_election_counts() -> None:
    cluster = led_by(4, 4, 5, 2)
    cluster.once(
        reads("/brokers/topics/t/partitions/0/state"),
        lambda: cluster.put_quietly(REASSIGN_CANCEL, CANCEL_CONTENT),
    )
    controlled_shutdown(cluster, 4)
    assert leader(cluster) == 2
