"""The kinds of owners of znodes."""

import pytest

from replay.znode_tree.owners import CONTAINER_OWNER, TTL_MS_MAX, is_session, ttl_of, ttl_owner


@pytest.mark.parametrize(
    ("owner", "has_session", "ttl_ms"),
    [
        (0, False, None),
        (0x1000020D7780000, True, None),
        (-0x0200000000000000 + 5, True, None),
        (CONTAINER_OWNER, False, None),
        (ttl_owner(1), False, 1),
        (ttl_owner(TTL_MS_MAX), False, TTL_MS_MAX),
        (-1, True, None),
    ],
)
def test_owner_is_a_session_a_container_or_a_ttl(
    owner: int, has_session: bool, ttl_ms: int | None
) -> None:
    assert is_session(owner) is has_session
    assert ttl_of(owner) == ttl_ms
