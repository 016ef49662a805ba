"""The names in a log by their kind, and the stand-in of each."""

import re
from typing import Final, Literal, get_args

from controller.core.znodes.brokers import SECURITY_PROTOCOLS
from replay.redaction.topic_names import prefix_stand_ins, topic_stand_ins

Kind = Literal["topic", "prefix", "host", "rack", "principal", "value", "foreign"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
_FOUND_IN_TEXTS: Final[tuple[Kind, ...]] = ("topic", "host", "rack", "principal")
"""A prefix of ACLs or a configuration value that equals a word of a text is not that word."""
_LONGEST_FOREIGN: Final = 200
"""Longer foreign content is not searched for in texts."""
_COMMON: Final = re.compile(r"[a-z]+|[\d.:-]+", re.ASCII)
"""A foreign word that may be a word of the language: it is replaced in texts only as a part of a
path or in quotes."""

_INTERNAL: Final = ("__consumer_offsets", "__transaction_state", "__cluster_metadata")
"""Kafka's internal topics: their names are public, and Kafka treats them differently."""
_NO_NAMES: Final = ("", "*", "<default>", "ANONYMOUS", "User:ANONYMOUS", "User:*")
_WORDS: Final = frozenset(
    (
        *(*SECURITY_PROTOCOLS, "INTERNAL", "EXTERNAL", "controller"),
        *("broker", "brokers", "topic", "topics", "partition", "partitions", "leader", "isr"),
        *("version", "replicas", "config", "host", "port", "endpoints", "rack", "features", "id"),
        *("timestamp", "ids", "state", "changes", "users", "clients", "ips", "type", "true"),
        *("false", "null"),
    )
)
"""Words of formats. They may remain in a log even if a topic or host has such a name."""
_SHORTEST: Final = 3
"""A shorter text that equals a name may be something else, where no name is expected."""
_PLAIN_VALUE: Final = re.compile(
    r"\*?|[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|\d+:\d+|\d+(?:\.\d+){1,2}(?:-IV\d+)?"
    r"|(?i:true|false)|compact|delete|CreateTime|LogAppendTime"
    r"|uncompressed|zstd|lz4|snappy|gzip|producer"
)
"""An entry of a configuration value that is no secret, and that decisions may depend on: numbers,
booleans, replicas, releases, and the words that configurations of topics may have."""
_PARTITION: Final = r"(?=-\d+(?![\w.-])|\.?(?![\w.-]))"


class Names:
    """Collects the names of a log; their stand-ins are the names themselves."""

    chroot = ""
    """The chroot of the Kafka cluster."""

    def __init__(self) -> None:
        self.found: dict[Kind, set[str]] = {kind: set() for kind in KINDS}

    def stand_in_of(self, kind: Kind, name: str) -> str:
        """Collect a name and return it."""
        if not _is_kept(kind, name):
            self.found[kind].add(name)
        return name

    def known(self, kind: Kind, name: str) -> str:
        """Return a text that is a name only if it is collected elsewhere."""
        return name

    def of_any_kind(self, name: str) -> str:
        """Collect a name whose kind is not known, unless it is collected elsewhere."""
        return self.stand_in_of("foreign", name)

    def text(self, text: str) -> str:
        """Return a text. Names in it are collected elsewhere, or not at all."""
        return text


class StandIns(Names):
    """Assigns a stand-in to each collected name."""

    def __init__(self, names: Names) -> None:
        super().__init__()
        self.found = names.found
        topics = names.found["topic"]
        kept = [one for one in _INTERNAL if one in topics]
        self.of: dict[Kind, dict[str, str]] = {
            "topic": topic_stand_ins(topics, kept, names.found["prefix"]),
            "prefix": prefix_stand_ins(names.found["prefix"], topics, kept),
            "host": _numbered_stand_ins("host", names.found["host"]),
            "rack": _numbered_stand_ins("rack", names.found["rack"]),
            "principal": _numbered_stand_ins("name", names.found["principal"]),
            "value": _numbered_stand_ins("value", names.found["value"]),
            "foreign": _numbered_stand_ins("word", names.found["foreign"]),
        }
        self._by_name = {
            name: stand_in
            for kind in reversed(_FOUND_IN_TEXTS)
            for name, stand_in in self.of[kind].items()
            if name
        }
        # The longest first, so that a part of a name does not match as another name.
        longest = sorted(self._by_name, key=len, reverse=True)
        choices = "|".join(map(re.escape, longest))
        self._pattern = re.compile(rf"(?<![\w.-])(?:{choices}){_PARTITION}") if longest else None
        self._foreign = _foreign_words(names.found["foreign"])

    def stand_in_of(self, kind: Kind, name: str) -> str:
        """The stand-in of a name; the name itself if it was not collected."""
        return self.of[kind].get(name, name)

    known = stand_in_of

    def text(self, text: str) -> str:
        """The text with every name in it replaced, if the name is a whole word."""
        if self._pattern is not None:
            text = self._pattern.sub(lambda found: self._by_name[found[0]], text)
        if self._foreign is not None:
            text = self._foreign.sub(lambda found: self.of["foreign"][found[0]], text)
        return text

    def of_any_kind(self, name: str) -> str:
        """The stand-in of a name of any kind."""
        return self._by_name.get(name) or self.stand_in_of("foreign", name)

    def remaining_names(self, text: str) -> list[str]:
        """The names that are still in a text, without words that may remain."""
        if self._pattern is None:
            return []
        found = {one[0] for one in self._pattern.finditer(text)}
        kept = {name for name in found if self._by_name[name] == name}
        short = {name for name in found if len(name) < _SHORTEST}
        return sorted(found - kept - short - self.stand_ins - _WORDS)

    @property
    def stand_ins(self) -> set[str]:
        """All stand-ins."""
        return set(self._by_name.values())


def _foreign_words(words: set[str]) -> re.Pattern[str] | None:
    """Finds foreign words in texts."""
    found = [one for one in words if _SHORTEST <= len(one) <= _LONGEST_FOREIGN]
    choices = [
        rf"(?<=[/\"']){re.escape(one)}" if _COMMON.fullmatch(one) else re.escape(one)
        for one in sorted(set(found) - _WORDS, key=len, reverse=True)
    ]
    return re.compile(rf"(?<![\w.-])(?:{'|'.join(choices)})(?![\w-])") if choices else None


def _is_kept(kind: Kind, name: str) -> bool:
    match kind:
        case "principal":
            # Brokers use their ids as client names.
            return name in _NO_NAMES or name.isdigit()
        case "value":
            return all(_PLAIN_VALUE.fullmatch(one.strip()) for one in name.split(","))
        case _:
            return name in _NO_NAMES


def _numbered_stand_ins(word: str, names: set[str]) -> dict[str, str]:
    """Stand-ins numbered in the order of the names, so that sorted lists stay sorted."""
    digits = len(str(len(names)))
    return {
        name: f"{word}-{number:0{digits}}" for number, name in enumerate(sorted(names), 1) if name
    }
