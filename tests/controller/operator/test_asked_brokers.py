"""Answers of running brokers about themselves."""

from kio.schema.errors import ErrorCode

from controller.core.values import Broker, Endpoint
from controller.operator.asked_brokers import ask_brokers
from tests.scripted_broker import ScriptedBroker, with_settings


async def test_any_broker_is_asked_for_settings_and_versions() -> None:
    broker = ScriptedBroker(with_settings({"log.dirs": "/a"}))
    secured = Endpoint("SSL", "SSL", "127.0.0.1", 1)
    async with broker.listening():
        answers = await ask_brokers(
            [
                Broker(1, 1, (secured, broker.endpoint)),
                Broker(2, 1, (secured,)),
                Broker(3, 1, ()),
            ],
            ["log.dirs", "broker.rack"],
        )
    assert [one.settings for one in answers] == [{"log.dirs": "/a"}, {}, {}]
    assert dict(answers[0].highest_versions) == {
        key: highest for key, (_, highest) in broker.offered.items()
    }
    assert answers[0].fault == ""
    assert answers[1].fault.startswith("has no listener without TLS and SASL")
    assert answers[2].fault == answers[1].fault


async def test_release_of_a_broker_that_keeps_its_settings_is_known() -> None:
    broker = ScriptedBroker(with_settings({}, ErrorCode.cluster_authorization_failed))
    async with broker.listening():
        [answer] = await ask_brokers([broker.registered()], ["log.dirs"])
    assert "not authorized" in answer.fault
    assert answer.highest_versions
    assert answer.settings == {}
