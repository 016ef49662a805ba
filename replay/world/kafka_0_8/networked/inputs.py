"""Inputs that only the 0.8 design has: the commands for its brokers' queues."""

from replay.world.inputs import AdminAct, Input, TimedInput


class AddBrokers(TimedInput, frozen=True):
    """An administrator runs add-brokers (C-01)."""

    brokers: tuple[int, ...]


class RemoveBrokers(TimedInput, frozen=True):
    """An administrator runs remove-brokers (C-02)."""

    brokers: tuple[int, ...]


BrokerListAct = AddBrokers | RemoveBrokers
AdminAct08 = AdminAct | BrokerListAct
Input08 = Input | BrokerListAct
