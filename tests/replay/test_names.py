"""Names of partitions and brokers, back to topics, numbers and ids."""

import pytest

from replay.names import broker_name, broker_named, find_broker, is_broker

OTHER_NAMES = (
    "broker",
    "broker ",
    "broker x",
    "broker -1",
    "broker 1.5",
    f"broker {'9' * 5000}",
    "broker  3",
    "3",
    "stock 3",
    "a broker 3",
    "orders-3",
)


@pytest.mark.parametrize("id", [0, 3, 2**31 - 1])
def test_name_of_a_broker_leads_to_its_id(id: int) -> None:
    name = broker_name(id)
    assert is_broker(name)
    assert find_broker(name) == broker_named(name) == id


@pytest.mark.parametrize("name", OTHER_NAMES)
def test_name_of_no_broker_has_no_id(name: str) -> None:
    assert not is_broker(name)
    assert find_broker(name) is None
    with pytest.raises(ValueError, match="is not a broker"):
        broker_named(name)
