"""Words in paths and contents of no known shape: none of them is in a redacted log."""

import re
import string
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from controller.core import znodes
from controller.core.configuration import Authorization
from replay.cli.redacted import redacted_logs
from replay.redaction import places
from replay.redaction.names import Names, StandIns
from replay.stock_clusters.imported_log.events import (
    ControllerLogged,
    ImportBegun,
    ImportedEvent,
    ImportEnded,
    ZnodesRestored,
)
from replay.stock_clusters.zookeeper_log.transactions import OPEN_ACL, Create, SetData, Transaction
from tests.controller.core.cluster import Cluster
from tests.replay.recorded_log import write_log
from tests.replay.stock_clusters.imported_log.test_reading import written

pytestmark = pytest.mark.timeout(300)

FOREIGN = (
    *("/brokers/ids/{}", "/brokers/topics/t/partitions/{}", "/config/brokers/{}"),
    *(f"{znodes.ISR_CHANGES}/{{}}", f"{znodes.ISR_CHANGES}/isr_change_{{}}"),
    *(f"{znodes.CONFIG_CHANGES}/{{}}", f"{znodes.CONFIG_CHANGES}/config_change_{{}}"),
    *(f"{znodes.LOG_DIR_EVENTS}/{{}}", f"{znodes.LOG_DIR_EVENTS}/log_dir_event_{{}}"),
    *(f"{znodes.REASSIGNMENT_REQUESTS}/{{}}", f"{znodes.REPLICA_DELETIONS}/{{}}"),
    *("/kafka-acl/Topic/x{}", "/kafka-acl/{}", "/kafka-acl-changes/{}", "/config/{}", "/{}"),
)
"""Paths with a child of no known name."""
CONTENTS = (
    *("{}", "{} {}: [", '{{"version":1,"{}":"{}"', '["{}"]', '"{}"', "\\{}", "1 {}"),
    '{{"{}":"{}","version":1}}',
    '{{"version":1,"partitions":"{}","config":"{}","assignments":"{}","broker":"{}"}}',
    '{{"version":"{}","partitions":[{{"{}":1,"topic":5}}],"features":{{"{}":{{}}}}}}',
    '{{"version":1,"config":{{"a b {}":"1"}},"host":["{}"],"endpoints":["{}"],"id":{{"{}":[]}}}}',
    '{{"version":1,"entity_path":"{}/{}","acls":[{{"{}":"{}"}}],"leader":"{}","isr":["{}"]}}',
)
"""Contents without the shape of a znode."""
READ = (
    *("/brokers/topics/broken", "/brokers/topics/t/partitions/0/state", "/brokers/ids/7"),
    *(znodes.REASSIGN_PARTITIONS, znodes.PREFERRED_ELECTION, "/config/brokers/<default>"),
    *("/config/topics/t", f"{znodes.ISR_CHANGES}/isr_change_0000000009", "/config/users/u"),
    *(f"{znodes.CONFIG_CHANGES}/config_change_0000000009", "/kafka-acl/Topic/t"),
    *(f"{znodes.LOG_DIR_EVENTS}/log_dir_event_0000000009", "/config/ips/h"),
    *("/kafka-acl-changes/acl_changes_0000000001", "/kafka-acl-extended/prefixed/Topic/t"),
    *("/kafka-acl-extended-changes/acl_changes_0000000001",),
    *(f"{znodes.REASSIGNMENT_REQUESTS}/request_0000000009", znodes.REASSIGN_PARTITIONS_EXTRA),
    *(f"{znodes.REPLICA_DELETIONS}/requested_0000000009", f"{znodes.REASSIGNMENTS}/t/0"),
)
"""Znodes that the controller reads."""
UNREAD = (
    *(znodes.CONTROLLER, znodes.CONTROLLER_EPOCH, znodes.FEATURE, znodes.MIGRATION),
    *(znodes.PRODUCER_IDS, "/brokers/seqid", "/delegation_token/tokens/x", "/zookeeper/config"),
    *("/consumers/g/ids/x", "/consumers/g/owners/t/0", "/consumers/g/offsets/t/0", "/other"),
)
"""Other znodes, or those without which the controller does not work."""

words = st.text(string.ascii_letters, min_size=7, max_size=9).map(lambda word: f"zQ{word}")
contents = st.builds(
    lambda template, some, bad: (template.format(*some)).encode() + bad,
    st.sampled_from(CONTENTS),
    st.lists(words, min_size=6, max_size=6),
    st.sampled_from([b"", b"", b"\xff", b"\n"]),
)


def words_in(found: bytes) -> list[bytes]:
    """The planted words in some bytes. A shorter one may be a part of a checksum."""
    return re.findall(rb"zQ[A-Za-z0-9]{6,}", found)


def words_below(folder: Path) -> set[bytes]:
    return {
        word for file in folder.iterdir() if file.is_file() for word in words_in(file.read_bytes())
    }


def require_none_remains(log: Path) -> None:
    with redacted_logs([log]) as other:
        assert words_below(other.logs[0]) == set()


@pytest.mark.long
@settings(max_examples=12, phases=[Phase.generate])
@given(
    st.lists(st.tuples(st.sampled_from(READ), contents), min_size=1, max_size=5),
    st.lists(st.tuples(st.sampled_from(FOREIGN), words, contents), min_size=1, max_size=5),
    st.booleans(),
)
def test_redacted_recorded_log_has_no_foreign_word(
    read: list[tuple[str, bytes]], foreign: list[tuple[str, str, bytes]], is_before: bool
) -> None:
    cluster = Cluster(1, 2, authorization=Authorization())
    put = cluster.put_with_parents
    if is_before:
        cluster.create_topic("t", {0: [1, 2]})
    else:
        cluster.start()
        cluster.create_topic("t", {0: [1, 2]})
    for template, word, content in foreign:
        put(template.format(word), content)
    for path, content in read:
        put(path, content)
    if is_before:
        cluster.start()
    cluster.run()
    cluster.create_topic("works", {0: [1]})
    with TemporaryDirectory() as folder:
        require_none_remains(write_log(Path(folder) / "log", cluster))


@given(
    st.sampled_from([*READ, *UNREAD, *(one.format("zQchild") for one in FOREIGN)]),
    contents,
    st.sampled_from(["", "/zK", "/zK/b"]),
)
def test_content_of_no_known_shape_has_no_word_after_redaction(
    path: str, content: bytes, chroot: str
) -> None:
    for whole in (chroot + path, path):
        names = Names()
        names.chroot = chroot
        places.path(names, whole)
        places.znode(names, whole, content)
        stand_ins = StandIns(names)
        stand_ins.chroot = chroot
        after = places.znode(stand_ins, whole, content)
        assert after is not None
        assert words_in(after) == []
        assert words_in(places.path(stand_ins, whole).encode()) == []


@pytest.mark.parametrize("chroot", ["", "/kafka"])
def test_redacted_imported_log_has_no_foreign_word(tmp_path: Path, chroot: str) -> None:
    paths = [
        "",
        *(f"{chroot}{one.format(f'zQchild{number}')}" for number, one in enumerate(FOREIGN)),
    ]
    paths += [f"/zQother/zQother{number}" for number in range(3)]
    data = [f"zQcontent {number}".encode() for number in range(len(paths))]
    count = [0] * len(paths)
    columns = [count] * 9
    others: list[ImportedEvent] = [
        Transaction(
            1, 1, 1, 1, 1, Create("/zQmore", b'{"zQsome":"zQvalue v"}', OPEN_ACL, False, 1)
        ),
        Transaction(2, 1, 2, 1, 5, SetData(f"{chroot}/controller", b"zQcontroller", 1)),
        ControllerLogged(1, "", "line about /brokers/ids/zQchild0 and /zQmore and zQcontent 0"),
    ]
    restored = ZnodesRestored(paths, data, *columns)
    log = tmp_path / "log"
    written(log, ImportBegun("here", "1", 0, chroot), restored, *others, ImportEnded([], []))
    require_none_remains(log)
