"""Reads JAAS configurations: files with sections for Java's login, and Kafka's `sasl.jaas.config`.

A login entry is `class flag key=value key="value" ...;`. A file has sections: `Client { entry };`.
The grammar is that of javax.security.auth.login.Configuration.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from controller.security.errors import SecurityError

_TOKEN: Final = re.compile(
    r"""\s+ | //[^\n]* | \#[^\n]* | /\*.*?\*/
    | (?P<quote>["'])(?P<quoted>(?:\\.|(?!(?P=quote))[^\\])*)(?P=quote)
    | (?P<mark>[{};=]) | (?P<word>[^\s{};="']+)""",
    re.VERBOSE | re.DOTALL,
)
_FLAGS: Final = ("required", "requisite", "sufficient", "optional")


class LoginEntry(NamedTuple):
    """One login module with its options. `module` is the full name of its class."""

    module: str
    options: dict[str, str]

    def __repr__(self) -> str:
        """Without the options, which have passwords."""
        return f"LoginEntry({self.module})"

    def credentials(self, setting: str) -> tuple[str, str]:
        """The user and the password. Raises SecurityError, which names `setting`."""
        if not {"username", "password"} <= self.options.keys():
            raise SecurityError(f"{setting}: {self.module} needs a username and a password")
        return self.options["username"], self.options["password"]


def entry_of(entries: Sequence[LoginEntry], module: str) -> LoginEntry:
    """The entry of a section with this login module, or the first entry if no other has the module.
    Of several, the first that has an option counts (JaasContext.configEntryOption)."""
    options: dict[str, str] = {}
    found = [one for one in entries if one.module == module]
    for one in reversed(found):
        options |= one.options
    return LoginEntry(module, options) if found else entries[0]


class _Token(NamedTuple):
    text: str
    is_mark: bool


def parse_entry(text: str, setting: str) -> LoginEntry:
    """The single entry of a `sasl.jaas.config`. Raises SecurityError, which names `setting`."""
    tokens = _Tokens(text, setting)
    entry = tokens.entry()
    if not tokens.at_end:
        raise SecurityError(f"{setting}: must have exactly one login module")
    return entry


def read_sections(file: Path, setting: str) -> dict[str, list[LoginEntry]]:
    """The entries of each section of a JAAS file. Raises SecurityError, which names `setting`."""
    where = f"{setting} {file}"
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise SecurityError(f"{where} cannot be read: {reason}") from None
    tokens = _Tokens(text, where)
    found: dict[str, list[LoginEntry]] = {}
    while not tokens.at_end:
        name = tokens.word("the name of a section")
        tokens.mark("{")
        entries = [tokens.entry()]
        while not tokens.skip("}"):
            entries.append(tokens.entry())
        found[name] = entries
        tokens.mark(";")
    return found


class _Tokens:
    """Walks the tokens of a text. Errors name what was expected, never the text, which has
    passwords."""

    def __init__(self, text: str, where: str) -> None:
        self._where = where
        self._tokens = list(self._split_into_tokens(text))
        self._next = 0

    @property
    def at_end(self) -> bool:
        return self._next == len(self._tokens)

    def entry(self) -> LoginEntry:
        """Parse `class flag options;`."""
        module = self.word("the class of a login module")
        flag = self.word("required, requisite, sufficient or optional")
        if flag.lower() not in _FLAGS:
            raise self._syntax_error("required, requisite, sufficient or optional after the class")
        options = {}
        while not self.skip(";"):
            key = self.word("an option or ;")
            self.mark("=")
            options[key] = self.word(f"a value of the option {key}")
        return LoginEntry(module, options)

    def word(self, what: str) -> str:
        if self.at_end or self._tokens[self._next].is_mark:
            raise self._syntax_error(what)
        self._next += 1
        return self._tokens[self._next - 1].text

    def mark(self, mark: str) -> None:
        if not self.skip(mark):
            raise self._syntax_error(mark)

    def skip(self, mark: str) -> bool:
        """Consume the next token if it is this mark. Returns whether it is."""
        found = not self.at_end and self._tokens[self._next] == _Token(mark, True)
        self._next += found
        return found

    def _split_into_tokens(self, text: str) -> Iterator[_Token]:
        place = 0
        while place < len(text):
            match = _TOKEN.match(text, place)
            if match is None:
                raise SecurityError(f"{self._where}: a quotation mark is not closed")
            if match["mark"]:
                yield _Token(match["mark"], True)
            elif match["quoted"] is not None:
                yield _Token(re.sub(r"\\(.)", r"\1", match["quoted"]), False)
            elif match["word"]:
                yield _Token(match["word"], False)
            place = match.end()

    def _syntax_error(self, what: str) -> SecurityError:
        return SecurityError(
            f"{self._where} is not a JAAS configuration: expected {what} at token {self._next + 1}"
        )
