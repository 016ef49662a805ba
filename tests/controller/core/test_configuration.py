"""Values that follow from several settings of a controller."""

from typing import Literal

import pytest

from controller.core.configuration import Configuration


@pytest.mark.parametrize(
    ("is_enabled", "rules", "has_kip_236"),
    [
        (True, "refold", True),
        (True, "kafka", False),
        (False, "refold", False),
    ],
)
def test_kip_236_needs_its_setting_and_the_rules_of_refold(
    is_enabled: bool, rules: Literal["refold", "kafka"], has_kip_236: bool
) -> None:
    configuration = Configuration(broker_id=1, kip_236_enable=is_enabled, rules=rules)
    assert configuration.has_kip_236 == has_kip_236
