"""The terminal program: the list of events, the state after the event at the cursor, dialogs."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, ClassVar, Final

from rich.text import Text
from textual.app import App, ComposeResult, SystemCommand
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.screen import Screen
from textual.widgets import OptionList, Static, TabbedContent, TabPane
from textual.widgets.option_list import Option
from typer import BadParameter

from eventstore.errors import LogError
from replay.cli.debug import panels
from replay.cli.debug.keys import KEYS, KeyLine, bindings, help_lines
from replay.cli.debug.screens import AskScreen, ChooseScreen, SubjectScreen, TextScreen
from replay.cli.debug.session import CancelledError, DebugSession, DebugView
from replay.cli.options import log_position
from replay.debug.conditions import FORMS, EventCondition, condition_named
from replay.debug.cursor import Unit
from replay.debug.event_view import EventView
from replay.debug.questions import subject_named, subjects_to_explain
from replay.errors import ReplayError
from replay.logs.open_log import seq_at
from replay.progress import Progress

REPORTED_EVERY: Final = 1_000
_CONDITIONS: Final = "\n".join(f"{name} {form}".replace(" :", ":") for name, form in FORMS.items())
_WIDE: Final = 140
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


class DebugApp(App[None]):
    """Debugs one log."""

    TITLE = "refold debug"
    ENABLE_COMMAND_PALETTE = True
    CSS = """
    #position { height: 1; background: $primary-background;
                text-wrap: nowrap; text-overflow: ellipsis; }
    #body { height: 1fr; layout: vertical; }
    #events { height: 1fr; border: none; padding: 0; scrollbar-size-vertical: 1;
              text-wrap: nowrap; text-overflow: ellipsis; }
    #details { height: 2fr; }
    .wide #body { layout: horizontal; }
    .wide #events { width: 1fr; height: 100%; border-right: solid $primary-background; }
    .wide #details { width: 1fr; height: 100%; }
    TabPane { padding: 0; }
    #answers { height: auto; max-height: 100%; border: none; padding: 0; }
    #status { height: auto; min-height: 1; max-height: 5; color: $text-muted; }
    AskScreen, ChooseScreen, SubjectScreen, TextScreen { align: center middle; }
    .dialog { width: 90%; max-width: 120; height: auto; max-height: 90%;
              border: round $primary; padding: 0 1; background: $surface; }
    .dialog VerticalScroll { height: auto; max-height: 16; }
    .dialog OptionList { height: auto; max-height: 16; border: none; }
    .narrow .of-wide-line { display: none; }
    .large { height: 90%; max-width: 180; }
    .large VerticalScroll { height: 1fr; max-height: 100%; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [*bindings()]

    def __init__(self, session: DebugSession) -> None:
        super().__init__()
        self.HORIZONTAL_BREAKPOINTS = [(0, "narrow"), (_WIDE, "wide")]
        self._session = session
        self._cursor = session.cursor
        self._busy = asyncio.Lock()
        self._last: EventCondition | None = None
        self._view: DebugView | None = None
        self._shown: list[int] = []
        self._links: list[int] = []
        self._message = Text("")

    # Widgets

    def compose(self) -> ComposeResult:
        yield Static(id="position")
        with Horizontal(id="body"):
            yield EventList(id="events", markup=False)
            with TabbedContent(id="details"):
                for title, name in (("State", "state"), ("Changes", "changes"), ("Event", "event")):
                    with TabPane(title, id=name), VerticalScroll():
                        yield Static(id=f"{name}-text")
                with TabPane("Why", id="why"), VerticalScroll():
                    yield Static("Press w to explain the state.", id="why-text")
                    yield OptionList(id="answers", markup=False)
        yield Static(id="status")
        yield KeyLine(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        """Show the first event."""
        self.query_one("#events").focus()
        self._begin(self._refresh)

    def on_unmount(self) -> None:
        """End the thread of the session."""
        self._session.close()

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        """The commands of the palette: every key, and Textual's."""
        for _, action, _, help in KEYS:
            yield SystemCommand(
                help, "", lambda action=action: self.call_later(self.run_action, action)
            )
        yield from super().get_system_commands(screen)

    def on_option_list_option_highlighted(self, chosen: OptionList.OptionHighlighted) -> None:
        """Pages and clicks move in the list of events."""
        if chosen.option_list.id != "events" or chosen.option_index >= len(self._shown):
            return
        seq = self._shown[chosen.option_index]
        if (
            seq != self._cursor.seq
            and self.focused is chosen.option_list
            and not self._busy.locked()
        ):
            self._move(lambda _: self._cursor.go(seq))

    def on_option_list_option_selected(self, chosen: OptionList.OptionSelected) -> None:
        """Enter or a click on a cause goes there."""
        if chosen.option_list.id == "answers":
            seq = self._links[chosen.option_index]
            self._move(lambda _: self._cursor.go(seq))

    # Work

    def _begin(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Do some work after what was asked before."""
        self.run_worker(self._one_after_another(work))

    async def _one_after_another(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        async with self._busy:
            try:
                await work()
            except (ReplayError, LogError) as error:
                self._say(str(error), is_error=True)
            except CancelledError:
                self._say("cancelled")
            # In place of the progress.
            self._show_status(self._message)

    def _move(self, move: Callable[[Progress], object], missing: str = "") -> None:
        """Move the cursor; if `move` returns False, say what is missing."""

        async def work() -> None:
            self._say("")
            if await self._session.run_in_thread(move, self._report) is False:
                self._say(missing)
            else:
                await self._refresh()

        self._begin(work)

    def _report(self, what: str, done: int, total: int | None) -> None:
        if done % REPORTED_EVERY == 0:
            progress = Text(f"{what}: event {done} (Escape: cancel)")
            self.call_from_thread(self._show_status, progress)

    def _say(self, text: str, *, is_error: bool = False) -> None:
        self._message = Text(text, style="bold red" if is_error else "")
        self._show_status(self._message)

    def _show_status(self, text: Text) -> None:
        self.query_one("#status", Static).update(text)

    async def _refresh(self) -> None:
        try:
            view = await self._session.run_in_thread(lambda _: self._session.view(), self._report)
        except LogError:
            # Keys work on from the event that is shown.
            if self._view is not None:
                self._cursor.go(self._view.event.seq)
            raise
        if view.damage and (self._view is None or view.damage != self._view.damage):
            self._say(view.damage, is_error=True)
        self._view = view
        self.query_one("#position", Static).update(
            panels.position_line(self._session.path, view, self._cursor)
        )
        self._show_events(view)
        self._show_panel(view)

    def _show_panel(self, view: DebugView) -> None:
        """Fill the panel that is open; the others are filled when they are opened."""
        name = self.query_one(TabbedContent).active
        if name == "state":
            panel = panels.state_panel(view, self._cursor.filter)
        elif name == "changes":
            panel = panels.changes_panel(view)
        elif name == "event":
            panel = panels.event_panel(view)
        else:
            return
        self.query_one(f"#{name}-text", Static).update(panel)

    def on_tabbed_content_tab_activated(self, _: TabbedContent.TabActivated) -> None:
        """Another panel is opened."""
        if self._view is not None:
            self._show_panel(self._view)

    def _show_events(self, view: DebugView) -> None:
        events = self.query_one(EventList)
        numbers = [one.seq for one in view.around]
        with self.prevent(OptionList.OptionHighlighted):
            if numbers != self._shown or self._cursor.breakpoints:
                self._shown = numbers
                events.clear_options()
                events.add_options([Option(self._event_line(one)) for one in view.around])
            if self._cursor.seq in numbers:
                events.highlighted = numbers.index(self._cursor.seq)
        self.call_after_refresh(events.show_neighbours)

    def _event_line(self, one: EventView) -> Text:
        return panels.event_line(one, self._session.start, self._cursor.breakpoints)

    # Steps and searches

    def action_step(self, unit: str, is_forward: bool) -> None:
        """Step to the next or previous event of a kind."""
        where = "after" if is_forward else "before"
        self._move(
            lambda progress: self._cursor.step(
                Unit(unit), is_forward=is_forward, progress=progress
            ),
            f"no {unit} {where} event {self._cursor.seq}",
        )

    def action_search(self, is_forward: bool) -> None:
        """Ask for a condition and search it."""
        where = "forward" if is_forward else "backward"

        def search(text: str | None) -> None:
            if text is None:
                return
            try:
                self._last = condition_named(text)
            except ReplayError as error:
                self._say(str(error), is_error=True)
                return
            self.action_again(is_forward)

        last = str(self._last) if self._last is not None else ""
        self.push_screen(AskScreen(f"Search {where} for", _CONDITIONS, last), search)

    def action_again(self, is_forward: bool) -> None:
        """Search the last condition again."""
        condition = self._last
        if condition is None:
            self._say("nothing was searched yet: press / or r", is_error=True)
            return
        where = "after" if is_forward else "before"
        self._move(
            lambda progress: self._cursor.search(
                condition, is_forward=is_forward, progress=progress
            ),
            f"{condition}: no such event {where} event {self._cursor.seq}",
        )

    def action_breakpoint(self) -> None:
        """Set a breakpoint, or remove it if it is set."""

        async def change(text: str) -> None:
            condition = condition_named(text)
            stops = self._cursor.breakpoints
            if condition in stops:
                stops.remove(condition)
            else:
                stops.append(condition)
            self._shown = []
            self._say(f"breakpoints: {', '.join(map(str, stops)) or 'none'}")
            await self._refresh()

        self._ask("Set a breakpoint, or remove it", _CONDITIONS, change)

    def action_run(self, is_forward: bool) -> None:
        """Run to the next or previous breakpoint."""
        where = "after" if is_forward else "before"

        async def work() -> None:
            seq = self._cursor.seq
            found = await self._session.run_in_thread(
                lambda progress: self._cursor.run(is_forward=is_forward, progress=progress),
                self._report,
            )
            self._say(f"stopped at {found.condition}" if found else f"no stop {where} event {seq}")
            await self._refresh()

        self._begin(work)

    def action_filter(self) -> None:
        """Set the filter."""

        async def change(text: str) -> None:
            name = self._cursor.filter = text.strip()
            self._say("")
            await self._refresh()
            if name and len(self._shown) == 1:
                self._say(f"no event nearby is about {name}: t changes the filter", is_error=True)

        hint = "a topic, a partition (orders-1) or `broker 3`; empty: all events"
        self._ask("Show only events about", hint, change, self._cursor.filter)

    def action_go(self) -> None:
        """Go to an event."""

        async def go(text: str) -> None:
            try:
                position = log_position(text.strip(), "event")
            except BadParameter as error:
                raise ReplayError(error.message) from None
            seq = seq_at(self._session.log.reader, *position)
            self._cursor.go(seq)
            self._say("")
            await self._refresh()

        hint = f"a number up to {self._cursor.last_seq}, or a time such as 2026-11-21T23:21:11"
        self._ask("Go to event", hint, go)

    def action_edge(self, is_end: bool) -> None:
        """Go to the first or the last event."""
        self._move(
            lambda _: self._cursor.go(self._cursor.last_seq if is_end else self._cursor.first_seq)
        )

    def _ask(
        self,
        title: str,
        hint: str,
        use: Callable[[str], Coroutine[Any, Any, None]],
        text: str = "",
    ) -> None:
        def begin(given: str | None) -> None:
            if given is not None:
                self._begin(lambda: use(given))

        self.push_screen(AskScreen(title, hint, text), begin)

    # Causes, effects, questions

    def action_cause(self) -> None:
        """Go to the cause of the event."""
        self._jump(lambda _: self._cursor.causes(), "cause", "nothing in the log caused it")

    def action_effect(self) -> None:
        """Go to an effect of the event."""
        self._jump(lambda _: self._cursor.effects(), "effect", "it caused no later event")

    def _jump(self, find: Callable[[Progress], list[EventView]], what: str, missing: str) -> None:
        async def work() -> None:
            seq = self._cursor.seq
            found = await self._session.run_in_thread(find, self._report)
            if not found:
                self._say(f"event {seq}: {missing}")
                return
            lines = [self._event_line(one) for one in found]
            if len(found) == 1:
                self._cursor.go(found[0].seq)
                self._say(f"event {seq} has no other {what}")
                await self._refresh()
                return

            def go(place: int | None) -> None:
                if place is not None:
                    self._move(lambda _: self._cursor.go(found[place].seq))

            self.push_screen(ChooseScreen(f"The {what}s of event {seq}", lines), go)

        self._begin(work)

    def action_why(self) -> None:
        """Choose a subject and explain it."""
        view = self._view
        if view is None:
            return
        names = subjects_to_explain(view.event, view.changes, view.after)

        def explain(name: str | None) -> None:
            if name is not None:
                self._begin(lambda: self._explain(name, view))

        self.push_screen(
            SubjectScreen(f"Explain the state after event {view.after.seq}", names), explain
        )

    async def _explain(self, name: str, view: DebugView) -> None:
        self._say("")
        subject = subject_named(name, view.after)
        found = await self._session.run_in_thread(
            lambda progress: self._session.why(subject, progress), self._report
        )
        lines = [Text(found.answer, style="bold"), *(Text(f"note: {one}") for one in found.notes)]
        self.query_one("#why-text", Static).update(Text("\n").join(lines))
        answers = self.query_one("#answers", OptionList)
        self._links = [one.seq for one in found.chain]
        answers.clear_options()
        answers.add_options(
            [Option(panels.link_line(found, place)) for place in range(len(found.chain))]
        )
        self.action_tab("why")
        # The answer, which is above the causes, stays visible.
        answers.focus(scroll_visible=False)

    def action_what_if(self) -> None:
        """Ask for options of `refold what-if` and show its answer."""
        seq = self._cursor.seq

        async def ask(text: str) -> None:
            self._say("continuing in the simulated cluster")
            parts = await self._session.run_in_thread(
                lambda progress: self._session.what_if(text, progress), self._report
            )
            self._say("")
            self.push_screen(TextScreen(f"what if {text}", parts))

        hint = (
            f"--crash broker=2@{seq}, --restart broker=2@{seq}, --crash controller@{seq}, "
            f"--cancel-reassignment @{seq}, --set unclean.leader.election.enable=true; for an "
            f"event that came from outside --drop {seq}, --delay {seq}=2s (docs/what-if.md)"
        )
        self._ask("What if", hint, ask, f"--crash controller@{seq}")

    # The rest

    def action_tab(self, name: str) -> None:
        """Show a panel."""
        self.query_one("#details", TabbedContent).active = name

    def action_cancel(self) -> None:
        """End the work that is running; the keys work on the events again."""
        self._session.cancel()
        self.query_one("#events").focus()

    def action_help(self) -> None:
        """Show all keys and conditions."""
        marks = "Marks of events: ● breakpoint, ▶ a procedure begins, ◆ a decision."
        parts = [*help_lines(), "", marks, "", "Conditions:", _CONDITIONS]
        self.push_screen(TextScreen("Keys", parts))
