"""The keys of the program: what they do, the line that names the most important ones, the help."""

from collections.abc import Iterator
from typing import Final

from textual.app import ComposeResult
from textual.binding import Binding
from textual.widgets import Footer

_IN_NARROW_LINE: Final = 9
"""At most this many keys fit into a line of 80 columns."""

KEYS: Final = [
    ("question_mark,h", "help", "All keys", "Show all keys and conditions"),
    ("right,down,n", "step('event', True)", "Next", "Next event"),
    ("left,up,p", "step('event', False)", "Back", "Previous event"),
    ("d", "step('decision', True)", "Decision", "Next decision"),
    ("slash", "search(True)", "Search", "Search forward for a condition"),
    ("t", "filter", "Filter", "Show only events about a topic, a partition or a broker"),
    ("u", "cause", "Cause", "Go to the cause of the event"),
    ("w", "why", "Why", "Explain a partition, a topic, a broker or the controller at this event"),
    ("q", "quit", "Quit", "Quit"),
    ("b", "breakpoint", "Break", "Set or remove a breakpoint"),
    ("r,backslash", "search(False)", "Backward", "Search backward for a condition"),
    ("c", "run(True)", "Run", "Run to the next breakpoint"),
    ("C", "run(False)", "", "Run back to the previous breakpoint"),
    ("e", "effect", "Effect", "Go to an effect of the event"),
    ("g", "go", "Go to", "Go to an event number or a time"),
    ("x", "what_if", "What-if", "Change something here and continue in a simulated cluster"),
    ("f", "step('failover', True)", "Failover", "Next failover: the controller epoch changes"),
    ("o", "step('procedure', True)", "", "Next beginning of a procedure"),
    ("D", "step('decision', False)", "", "Previous decision"),
    ("O", "step('procedure', False)", "", "Previous beginning of a procedure"),
    ("F", "step('failover', False)", "", "Previous failover"),
    ("full_stop", "again(True)", "", "Search the last condition forward again"),
    ("comma", "again(False)", "", "Search the last condition backward again"),
    ("home", "edge(False)", "", "First event"),
    ("end", "edge(True)", "", "Last event"),
    ("1", "tab('state')", "", "Show the state"),
    ("2", "tab('changes')", "", "Show the changes by the event"),
    ("3", "tab('event')", "", "Show the event and its decisions"),
    ("4", "tab('why')", "", "Show the last explanation"),
    ("escape", "cancel", "", "End a search that is running"),
]
"""The keys: names, action, the word in the last line ("": only in the help), the help."""

_SIGNS: Final = {
    "slash": "/",
    "backslash": "\\",
    "full_stop": ".",
    "comma": ",",
    "question_mark": "?",
}


def bindings() -> list[Binding]:
    """The keys for Textual."""
    return [
        Binding(keys, action, word or help, show=bool(word), tooltip=help)
        for keys, action, word, help in KEYS
    ]


def help_lines() -> Iterator[str]:
    """All keys, each with what it does."""
    for keys, _, _, help in KEYS:
        yield f"{', '.join(_SIGNS.get(one, one) for one in keys.split(',')):<16}{help}"
    yield f"{'ctrl+p':<16}Command palette"


class KeyLine(Footer):
    """The last line. On a narrow terminal it has fewer keys, so that none of them is cut off."""

    def compose(self) -> ComposeResult:
        for place, key in enumerate(super().compose()):
            key.set_class(place >= _IN_NARROW_LINE, "of-wide-line")
            yield key
