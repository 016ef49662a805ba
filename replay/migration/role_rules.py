"""Rules about /controller, /controller_epoch, /migration and the epochs of partitions."""

from collections.abc import Iterator

from controller.core import znodes
from controller.core.errors import ZnodeError
from replay.cluster_view.later_epochs import raise_epoch, with_later_epoch
from replay.migration.findings import MigratingCluster, MigrationFinding
from replay.names import controller_name

_ROLL_BACK = (
    "if the migration continues, nothing: do not run refold. To roll it back, stop all KRaft "
    "controllers, then delete /controller and /migration (docs/migration.md#roll-back)"
)
_DELETE_MIGRATION = (
    "keep the output of `get /migration`, then `delete /migration`. Before the next migration, "
    "format the KRaft controllers' metadata directories again"
)


def check_controller(subject: MigratingCluster) -> Iterator[MigrationFinding]:
    """/controller is ephemeral. A KRaft controller creates it as a persistent znode
    (KafkaZkClient.tryRegisterKRaftControllerAsActiveController)."""
    if subject.view is None:
        return
    found, path = subject.find(znodes.CONTROLLER), znodes.CONTROLLER
    holder = subject.controller
    if found is None:
        text = "there is no controller"
        advice = "start a broker or refold; brokers elect a controller as soon as they run"
        yield MigrationFinding(
            check="controller", level="warning", text=text, where=(path,), advice=advice
        )
    elif holder is not None and subject.is_kraft:
        text = (
            f"{controller_name(holder.brokerid, is_kraft=True)} has the role, with KRaft epoch "
            f"{holder.kraftControllerEpoch}; its znode is persistent"
        )
        yield MigrationFinding(
            check="controller", level="error", text=text, where=(path,), advice=_ROLL_BACK
        )
    elif found.owner == 0:
        text = (
            "/controller is persistent and not of a KRaft controller: no broker can take the role"
        )
        yield MigrationFinding(
            check="controller", level="error", text=text, where=(path,), advice="delete /controller"
        )
    elif holder is None:
        text = "/controller cannot be read"
        advice = "delete /controller: the brokers elect a controller, which writes it again"
        yield MigrationFinding(
            check="controller", level="error", text=text, where=(path,), advice=advice
        )
    elif holder.brokerid not in {one.id for one in subject.cluster.brokers}:
        text = f"the controller is {holder.brokerid}, which is no registered broker: is it refold?"
        advice = "stop refold before the brokers enter migration mode: a broker takes the role"
        yield MigrationFinding(
            check="controller", level="warning", text=text, where=(path,), advice=advice
        )
    else:
        yield MigrationFinding(
            check="controller", level="ok", text=f"{controller_name(holder.brokerid)} is controller"
        )


def check_migration(subject: MigratingCluster) -> Iterator[MigrationFinding]:
    """/migration does not exist, or belongs to the migration that is under way.

    A KRaft controller copies the metadata only if /migration does not say that it was copied
    (KRaftMigrationDriver, strimzi #11262). It reads a znode that it cannot parse again and again
    (KAFKA-19480).
    """
    if subject.view is None:
        return
    found, where = subject.find(znodes.MIGRATION), (znodes.MIGRATION,)
    if found is None:
        yield MigrationFinding(check="migration", level="ok", text="/migration does not exist")
        return
    try:
        state = znodes.read_migration(found.data)
    except ZnodeError as error:
        fault = "/migration is empty" if found.data in (b"", b"null") else str(error)
        text = f"{fault}: a KRaft controller hangs on it (KAFKA-19480)"
        advice = "`delete /migration`; a KRaft controller creates it again"
        yield MigrationFinding(
            check="migration", level="error", text=text, where=where, advice=advice
        )
        return
    if subject.is_kraft:
        done = "was copied" if state.is_copied else "was not copied yet"
        text = f"the metadata {done}; KRaft controller {state.kraft_controller_id} wrote /migration"
        advice = "delete it when the migration is rolled back"
        yield MigrationFinding(
            check="migration", level="warning", text=text, where=where, advice=advice
        )
    elif state.is_copied:
        text = (
            f"/migration is left of an earlier migration (KRaft controller "
            f"{state.kraft_controller_id} with epoch {state.kraft_controller_epoch}, metadata up "
            f"to offset {state.kraft_metadata_offset} of epoch {state.kraft_metadata_epoch}): the "
            "next one does not copy the metadata and overwrites ZooKeeper, so topics created since "
            "then are deleted (strimzi #11262)"
        )
        yield MigrationFinding(
            check="migration", level="error", text=text, where=where, advice=_DELETE_MIGRATION
        )
    else:
        text = (
            f"KRaft controller {state.kraft_controller_id} has prepared a migration and has not "
            "copied the metadata"
        )
        advice = "if the migration was given up, stop the KRaft controllers and delete /migration"
        yield MigrationFinding(
            check="migration", level="warning", text=text, where=where, advice=advice
        )


def check_epoch(subject: MigratingCluster) -> Iterator[MigrationFinding]:
    """/controller_epoch can be read, and is not below the epoch of the KRaft controller, which
    writes its own epoch into the states of partitions (ZkTopicMigrationClient, KAFKA-20488)."""
    where = (znodes.CONTROLLER_EPOCH,)
    epoch = subject.epoch
    if epoch is None:
        if subject.view is not None:
            text = (
                "/controller_epoch does not exist or cannot be read: no controller can be elected"
            )
            advice = "write a number into it that is above the controller_epoch of all partitions"
            yield MigrationFinding(
                check="epoch", level="error", text=text, where=where, advice=advice
            )
        return
    kraft_epoch = subject.controller.kraftControllerEpoch if subject.controller else -1
    if kraft_epoch > epoch:
        text = (
            f"the KRaft epoch {kraft_epoch} is above /controller_epoch {epoch}: after a rollback, "
            "partitions that the KRaft controller has written get no new leader (KAFKA-20488)"
        )
        yield MigrationFinding(
            check="epoch", level="error", text=text, where=where, advice=raise_epoch(kraft_epoch)
        )
    else:
        yield MigrationFinding(check="epoch", level="ok", text=f"/controller_epoch is {epoch}")


def check_partition_epochs(subject: MigratingCluster) -> Iterator[MigrationFinding]:
    """No partition has a controller_epoch above /controller_epoch: a controller in ZooKeeper mode
    does not elect a leader for such a partition (KB 4.4, KAFKA-20488)."""
    if subject.epoch is None:
        return
    known = [one for topic in subject.cluster.topics for one in topic.partitions]
    above = with_later_epoch(known, subject.epoch)
    if not above:
        text = "no partition has an epoch above /controller_epoch"
        yield MigrationFinding(check="partition epochs", level="ok", text=text)
        return
    highest = max(one.controller_epoch for one in above)
    text = (
        f"partitions have a controller_epoch up to {highest}, above /controller_epoch "
        f"{subject.epoch}: a controller in ZooKeeper mode elects no leader for them (KAFKA-20488)"
    )
    yield MigrationFinding(
        check="partition epochs",
        level="error",
        text=text,
        where=tuple(one.name for one in above),
        advice=raise_epoch(highest),
    )
