"""At the limit of connections, one connection is closed: these tests show which one."""

from controller.api.front.admission import Admission, ConnectionPriority


def test_every_client_is_accepted_below_the_limit() -> None:
    admission = Admission(3, 2)
    assert [admission.admit(1, "a"), admission.admit(2, "a"), admission.admit(3, "b")] == [None] * 3


def test_idle_connections_are_closed_first_then_clients_then_brokers() -> None:
    admission = Admission(4, 4)
    for number in (1, 2, 3, 4):
        admission.admit(number, "a")
    admission.request_received(1, ConnectionPriority.BROKER)
    admission.request_received(2, ConnectionPriority.CLIENT)
    admission.request_received(4, ConnectionPriority.CLIENT)
    admission.request_received(2, ConnectionPriority.CLIENT)
    gone = []
    for number in (5, 6, 7, 8):
        gone.append(admission.admit(number, "b"))
        admission.request_received(number, ConnectionPriority.BROKER)
    assert gone == [3, 4, 2, 1]


def test_broker_that_also_sends_client_requests_is_a_broker() -> None:
    admission = Admission(2, 2)
    admission.admit(1, "a")
    admission.request_received(1, ConnectionPriority.BROKER)
    admission.request_received(1, ConnectionPriority.CLIENT)
    admission.admit(2, "a")
    admission.request_received(2, ConnectionPriority.CLIENT)
    assert admission.admit(3, "b") == 2


def test_address_at_its_limit_closes_one_of_its_connections() -> None:
    admission = Admission(10, 2)
    admission.admit(1, "a")
    admission.admit(2, "b")
    admission.admit(3, "b")
    assert admission.admit(4, "b") == 2
    admission.connection_closed(3)
    assert admission.admit(5, "b") is None


def test_calls_for_a_closed_connection_have_no_effect() -> None:
    admission = Admission(1, 1)
    admission.admit(1, "a")
    assert admission.admit(2, "b") == 1
    admission.request_received(1, ConnectionPriority.BROKER)
    admission.connection_closed(1)
    assert admission.admit(3, "c") == 2


def test_limit_of_one_address_is_its_own() -> None:
    admission = Admission(10, 2, of_addresses={"a": 1, "c": 3})
    assert [admission.admit(1, "a"), admission.admit(2, "b"), admission.admit(3, "b")] == [None] * 3
    assert admission.admit(4, "a") == 1
    assert admission.admit(5, "b") == 2
    assert [admission.admit(number, "c") for number in (6, 7, 8, 9)] == [None, None, None, 6]


def test_address_that_may_have_no_connection_is_refused() -> None:
    admission = Admission(10, 0, of_addresses={"a": 1})
    assert admission.admit(1, "a") is None
    assert admission.admit(2, "b") == 2
    admission.connection_closed(2)
    assert admission.admit(3, "a") == 1


def test_limit_of_one_listener_closes_a_connection_of_that_listener() -> None:
    admission = Admission(10, 10, of_listeners={"CLIENTS": 2})
    admission.admit(1, "a", "INTERNAL")
    admission.admit(2, "b", "CLIENTS")
    admission.admit(3, "b", "CLIENTS")
    admission.request_received(2, ConnectionPriority.CLIENT)
    assert admission.admit(4, "a", "CLIENTS") == 3
    assert admission.admit(5, "a", "INTERNAL") is None
    admission.connection_closed(4)
    assert admission.admit(6, "a", "CLIENTS") is None


def test_connection_that_is_no_brokers_any_more_is_closed_as_a_clients() -> None:
    admission = Admission(2, 2)
    admission.admit(1, "a")
    admission.request_received(1, ConnectionPriority.BROKER)
    admission.admit(2, "a")
    admission.request_received(2, ConnectionPriority.CLIENT)
    admission.rank_as_client(1)
    admission.request_received(1, ConnectionPriority.CLIENT)
    assert [admission.admit(3, "b"), admission.admit(4, "b")] == [2, 3]
    admission.rank_as_client(2)
    admission.request_received(4, ConnectionPriority.CLIENT)
    assert admission.admit(5, "b") == 1
