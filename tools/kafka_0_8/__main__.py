"""Play a story of the 0.8 design in a simulated cluster and write the log of each broker's runs:

python -m tools.kafka_0_8 leader_failure logs
"""

import argparse
from pathlib import Path

from replay.explore.kafka_0_8.saved import write_logs
from replay.world.kafka_0_8.scenarios import SCENARIOS


def main() -> None:
    """The command line."""
    stories = {one.__name__: one for one in SCENARIOS}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("story", choices=stories)
    parser.add_argument("folder", type=Path, help="a folder that does not exist yet")
    options = parser.parse_args()
    for log in write_logs(stories[options.story]().cluster, options.folder):
        print(log)  # noqa: T201


if __name__ == "__main__":
    main()
