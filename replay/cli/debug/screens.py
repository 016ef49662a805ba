"""The dialogs of the debugger: a line to fill in, a choice, a subject, a text."""

from collections.abc import Sequence
from typing import ClassVar

from rich.console import Group, RenderableType
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

_CANCEL: list[BindingType] = [Binding("escape", "cancel", "Cancel")]


class AskScreen(ModalScreen[str | None]):
    """Asks for a line of text. None: cancelled."""

    BINDINGS: ClassVar[list[BindingType]] = _CANCEL

    def __init__(self, title: str, hint: str, text: str = "") -> None:
        super().__init__()
        self._title, self._hint, self._text = title, hint, text

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(Text(self._title, style="bold"))
            yield Input(self._text)
            with VerticalScroll(can_focus=False):
                yield Static(Text(self._hint))

    def on_input_submitted(self, submitted: Input.Submitted) -> None:
        """Close the screen with the text."""
        self.dismiss(submitted.value)

    def action_cancel(self) -> None:
        """Close the screen without a result."""
        self.dismiss(None)


class ChooseScreen(ModalScreen[int | None]):
    """Asks for one of several lines. The result is its place; None: cancelled."""

    BINDINGS: ClassVar[list[BindingType]] = _CANCEL

    def __init__(self, title: str, lines: Sequence[Text]) -> None:
        super().__init__()
        self._title, self._lines = title, lines

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(Text(self._title, style="bold"))
            yield OptionList(*(Option(one) for one in self._lines))

    def on_option_list_option_selected(self, chosen: OptionList.OptionSelected) -> None:
        """Enter or a click."""
        self.dismiss(chosen.option_index)

    def action_cancel(self) -> None:
        """Close the screen without a result."""
        self.dismiss(None)


class _SubjectList(OptionList, can_focus=False):
    """The subjects of an event. The keys go to the line above."""


class SubjectScreen(ModalScreen[str | None]):
    """Asks for one of several subjects, or for another one that is typed. None: cancelled."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *_CANCEL,
        Binding("down", "move(True)", "Next", show=False),
        Binding("up", "move(False)", "Back", show=False),
    ]

    def __init__(self, title: str, names: Sequence[str]) -> None:
        super().__init__()
        self._title, self._names = title, names

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(Text(self._title, style="bold"))
            yield Input(placeholder="another partition (orders-1), a topic or `broker 3`")
            yield _SubjectList(*self._names, markup=False)

    def on_mount(self) -> None:
        """Enter without a text chooses the first subject."""
        self.query_one(OptionList).highlighted = 0

    def action_move(self, is_down: bool) -> None:
        """Highlight another subject."""
        chosen = self.query_one(OptionList)
        (chosen.action_cursor_down if is_down else chosen.action_cursor_up)()

    def on_input_submitted(self, submitted: Input.Submitted) -> None:
        """Enter: the typed subject, else the highlighted one."""
        highlighted = self._names[self.query_one(OptionList).highlighted or 0]
        self.dismiss(submitted.value.strip() or highlighted)

    def on_option_list_option_selected(self, chosen: OptionList.OptionSelected) -> None:
        """A click."""
        self.dismiss(self._names[chosen.option_index])

    def action_cancel(self) -> None:
        """Close the screen without a result."""
        self.dismiss(None)


class TextScreen(ModalScreen[None]):
    """Shows a text until a key is pressed."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *_CANCEL,
        Binding("q,enter", "cancel", "Close", show=False),
    ]

    def __init__(self, title: str, parts: Sequence[RenderableType]) -> None:
        super().__init__()
        self._title, self._parts = title, parts

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog large"):
            yield Static(Text(f"{self._title} (Escape: back)", style="bold"))
            with VerticalScroll():
                yield Static(
                    Group(*(Text(one) if isinstance(one, str) else one for one in self._parts))
                )

    def action_cancel(self) -> None:
        """Close the screen without a result."""
        self.dismiss(None)
