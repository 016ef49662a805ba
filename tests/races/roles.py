from typing import Final

from tests.races.defect import Defect

DEFECTS: Final[tuple[Defect, ...]] = ()
