"""All planted defects, by id."""

from typing import Final

from tests.races import (
    isr,
    kip_236,
    reassignment,
    restarts,
    roles,
    sessions,
    topics,
    two_writers,
    watches,
)
from tests.races.defect import Defect

DEFECTS: Final[dict[str, Defect]] = {
    one.id: one
    for family in (
        sessions,
        roles,
        isr,
        restarts,
        watches,
        reassignment,
        topics,
        kip_236,
        two_writers,
    )
    for one in family.DEFECTS
}
