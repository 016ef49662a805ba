"""The names in a log by what they name, and what stands for each."""

import re
from typing import Final, Literal, get_args

from replay.redaction.topic_names import topic_stand_ins

Kind = Literal["topic", "host", "rack", "principal"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)

_INTERNAL: Final = ("__consumer_offsets", "__transaction_state", "__cluster_metadata")
"""Kafka's own topics are nobody's secret, and it decides otherwise on them."""
_NOBODY: Final = ("", "*", "<default>", "ANONYMOUS", "User:ANONYMOUS", "User:*")
_WORDS: Final = frozenset(
    (
        *("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL", "INTERNAL", "EXTERNAL", "controller"),
        *("broker", "brokers", "topic", "topics", "partition", "partitions", "leader", "isr"),
        *("version", "replicas", "config", "host", "port", "endpoints", "rack", "features", "id"),
        *("timestamp", "ids", "state", "changes", "users", "clients", "ips", "type", "true"),
        *("false", "null"),
    )
)
"""Where one of these is somebody's name, too, it may still stand elsewhere for itself."""
_SHORTEST: Final = 3
"""What is shorter may be anything, where no name is expected."""
_PARTITION: Final = r"(?=-\d+(?![\w.-])|\.?(?![\w.-]))"


class Names:
    """Collects the names that it is asked for, which stay what they are."""

    chroot = ""
    """What the paths of the Kafka cluster begin with."""

    def __init__(self) -> None:
        self.found: dict[Kind, set[str]] = {kind: set() for kind in KINDS}

    def say(self, kind: Kind, name: str) -> str:
        """The name itself."""
        # Brokers call themselves by their ids.
        if name not in _NOBODY and not (kind == "principal" and name.isdigit()):
            self.found[kind].add(name)
        return name

    def known(self, kind: Kind, name: str) -> str:
        """The same for what may be something else: it is a name if it is one elsewhere, too."""
        return name

    def text(self, text: str) -> str:
        """Names in a text are found elsewhere, or nowhere."""
        return text


class StandIns(Names):
    """Says what stands for each of the names that were collected."""

    def __init__(self, names: Names) -> None:
        super().__init__()
        self.found = names.found
        topics = names.found["topic"]
        kept = [one for one in _INTERNAL if one in topics]
        self.of: dict[Kind, dict[str, str]] = {
            "topic": topic_stand_ins(topics, kept),
            "host": _numbered("host", names.found["host"]),
            "rack": _numbered("rack", names.found["rack"]),
            "principal": _numbered("name", names.found["principal"]),
        }
        self._by_name = {
            name: stand_in
            for kind in reversed(KINDS)
            for name, stand_in in self.of[kind].items()
            if name
        }
        # The longest first, else a part of a name would be taken for another name.
        longest = sorted(self._by_name, key=len, reverse=True)
        spelt = "|".join(map(re.escape, longest))
        self._pattern = re.compile(rf"(?<![\w.-])(?:{spelt}){_PARTITION}") if longest else None

    def say(self, kind: Kind, name: str) -> str:
        """What stands for it; the name itself where it is none of those that were collected."""
        return self.of[kind].get(name, name)

    known = say

    def text(self, text: str) -> str:
        """A text with every name in it replaced, where it stands for itself."""
        if self._pattern is None:
            return text
        return self._pattern.sub(lambda found: self._by_name[found[0]], text)

    def secrets_in(self, text: str) -> list[str]:
        """The names that stand in a text, but for words that are there for themselves."""
        if self._pattern is None:
            return []
        found = {one[0] for one in self._pattern.finditer(text)}
        stay = {name for name in found if self._by_name[name] == name}
        short = {name for name in found if len(name) < _SHORTEST}
        return sorted(found - stay - short - self.stand_ins - _WORDS)

    @property
    def stand_ins(self) -> set[str]:
        """All that stands for a name."""
        return set(self._by_name.values())


def _numbered(word: str, names: set[str]) -> dict[str, str]:
    """In the order of the names: what is sorted by them stays sorted."""
    digits = len(str(len(names)))
    return {
        name: f"{word}-{number:0{digits}}" for number, name in enumerate(sorted(names), 1) if name
    }
