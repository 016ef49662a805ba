"""The demonstration of the 0.8 design: `python -m tools.demo.kafka_0_8`, or `make demo-0.8`.

`brokers.py` has the running brokers and what a scene can see of them, `traffic.py` the producers,
`scenes.py` the incidents.
"""
