"""Kafka's 0.8 replication design, without a controller (docs/design-0.8.md): one broker, one fold.

It uses the ZooKeeper session, outcomes and log format of controller.core, and is as pure. `fold.py`
has `apply(event)`, `events.py` and `commands.py` what a broker observes and decides, `rules.py` the
reasons of decisions, `admin.py` the admin commands.
"""
