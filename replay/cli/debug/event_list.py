"""The list of events: a window of the log around the cursor."""

from typing import ClassVar, Final

from textual.binding import Binding, BindingType
from textual.widgets import OptionList

_NEIGHBOURS: Final = 2
"""This many events before and after the one at the cursor stay visible."""


class EventList(OptionList, inherit_bindings=False):
    """The events around the cursor. An OptionList whose keys up, down, home and end are those of
    the program: they move in the whole log, not in the part that the list shows."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("pageup", "page_up", show=False),
        Binding("pagedown", "page_down", show=False),
    ]

    def show_neighbours(self) -> None:
        """If the highlighted event is near the edge or outside, scroll it to the middle."""
        row, top, height = self.highlighted or 0, round(self.scroll_y), self.size.height
        if not top + _NEIGHBOURS <= row < top + height - _NEIGHBOURS:
            self._scroll_to_middle()

    def on_resize(self) -> None:
        """Another size shows other events: keep the highlighted one in the middle."""
        self.call_after_refresh(self._scroll_to_middle)

    def _scroll_to_middle(self) -> None:
        row = self.highlighted or 0
        self.scroll_to(y=row - self.size.height // 2, animate=False, immediate=True)
