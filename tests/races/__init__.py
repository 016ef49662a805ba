"""Races of Kafka's controller, planted as defects (docs/races.md).

Each defect replaces code of the core, of the ZooKeeper session or of the simulation while a run
takes place. `python -m tools.races` measures how fast the race explorer finds each of them.
"""
