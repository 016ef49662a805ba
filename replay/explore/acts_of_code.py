"""All kinds of acts that the core can do: its writes to ZooKeeper and its requests to brokers.

A kind has no names of topics and no numbers (`kind_of_act`). Several writes that are sent together
have the kind of the first one. So writes that are always a later part of one transaction are
absent, such as that of /controller_epoch. A test compares this table with the code.
"""

from typing import Final

WRITES: Final[dict[str, tuple[str, ...]]] = {
    "controller_election._stand": ("Create /controller_epoch",),
    "controller_election._take_role": ("Create /controller", "Delete /controller"),
    "controller_election.give_up": ("Delete /controller",),
    "creation._write_configs": ("Create /config/topics/T", "SetData /config/topics/T"),
    "creation._write_topics": ("Create /brokers/topics/T",),
    "deletion._delete": (
        "Delete /brokers/topics/T/partitions/N/state",
        "Delete /brokers/topics/T/partitions/N",
        "Delete /brokers/topics/T/partitions",
        "Delete /brokers/topics/T",
        "Delete /config/topics/T",
        "Delete /admin/delete_topics/T",
    ),
    "deletion._delete_markers": ("Delete /admin/delete_topics/T",),
    "deletion_requests._mark": ("Create /admin/delete_topics/T",),
    "entries._write_remaining_entries": (
        "Create /admin/reassign_partitions",
        "Delete /admin/reassign_partitions",
        "SetData /admin/reassign_partitions",
    ),
    "features.process_update_features": ("SetData /feature",),
    "features.set_up_features": ("Create /feature", "SetData /feature"),
    "kip236_requests._delete": (
        "Delete /admin/reassignment_requests/request_N",
        "SetData /admin/reassignment_requests/request_N",
    ),
    "kip236_requests._reduce": ("SetData /admin/reassignment_requests/request_N",),
    "leadership._creates": (
        "Create /brokers/topics/T/partitions",
        "Create /brokers/topics/T/partitions/N",
        "Create /brokers/topics/T/partitions/N/state",
    ),
    "leadership.write_states": ("SetData /brokers/topics/T/partitions/N/state",),
    "partition_addition._write": ("SetData /brokers/topics/T",),
    "producer_ids._next_block": (
        "Create /latest_producer_id_block",
        "SetData /latest_producer_id_block",
    ),
    "reassign_partitions._make_request": (
        "CreateSequential /admin/reassignment_requests/request_",
    ),
    "reassign_partitions.put_entries": (
        "Create /admin/reassign_partitions",
        "Delete /admin/reassign_partitions",
        "SetData /admin/reassign_partitions",
    ),
    "reassign_partitions.strip_originals": ("SetData /admin/reassign_partitions",),
    "reassign_partitions_extra._move": (
        "Create /admin/reassign_partitions",
        "Delete /admin/reassign_partitions_extra",
        "SetData /admin/reassign_partitions",
        "SetData /admin/reassign_partitions_extra",
    ),
    "reassign_partitions_extra._read_extra_znode": ("Delete /admin/reassign_partitions_extra",),
    "records._delete": ("Delete /admin/reassignments/T/N", "Delete /admin/reassignments/T"),
    "records._list": ("Delete /admin/reassignments/T",),
    "records._make": (
        "Create /admin/reassignment_requests",
        "Create /admin/reassignments",
        "Create /admin/replica_deletions",
        "Create /admin/reassignments/T",
    ),
    "records._record_operation": (
        "Create /admin/reassignments/T/N",
        "SetData /admin/reassignments/T/N",
    ),
    "records.repair_records": (
        "Create /admin/reassignments/T/N",
        "SetData /admin/reassignments/T/N",
    ),
    "records.unset_leader_epochs": ("SetData /admin/reassignments/T/N",),
    "replica_deletion._make_parent": ("Create /admin/replica_deletions",),
    "replica_deletion._read_new_deletions": ("Delete /admin/replica_deletions/requested_N",),
    "replica_deletion._remove_confirmed": (
        "Delete /admin/replica_deletions/N_N",
        "Delete /admin/replica_deletions/requested_N",
    ),
    "replica_deletion._store_deletions": ("Create /admin/replica_deletions/N_N",),
    "replica_election.resume_election": ("Delete /admin/preferred_replica_election",),
    "scram_credentials._announce": ("CreateSequential /config/changes/config_change_",),
    "scram_credentials._write": (
        "Create /config/users/T",
        "Delete /config/users/T",
        "SetData /config/users/T",
    ),
    "topics._write_changed": ("SetData /brokers/topics/T",),
    "topics.topic_write": ("SetData /brokers/topics/T",),
    "zookeeper_io.delete_notifications": (
        "Delete /isr_change_notification/isr_change_N",
        "Delete /log_dir_event_notification/log_dir_event_N",
    ),
}
"""By module and function of the core."""

REQUESTS: Final = (
    "LeaderAndIsrRequest to broker N",
    "StopReplicaRequest to broker N",
    "UpdateMetadataRequest to broker N",
)

ACTS: Final = tuple(sorted({kind for kinds in WRITES.values() for kind in kinds})) + REQUESTS
