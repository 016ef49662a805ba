"""All planted defects, by id."""

from typing import Final

from tests.races import roles, sessions, watches
from tests.races.defect import Defect

DEFECTS: Final[dict[str, Defect]] = {
    one.id: one for family in (sessions, roles, watches) for one in family.DEFECTS
}
