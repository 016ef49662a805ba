"""All planted defects, by id."""

from typing import Final

from tests.races import isr, kip_236, reassignment, restarts, roles, sessions, topics, watches
from tests.races.defect import Defect

DEFECTS: Final[dict[str, Defect]] = {
    one.id: one
    for family in (sessions, roles, isr, restarts, watches, reassignment, topics, kip_236)
    for one in family.DEFECTS
}
