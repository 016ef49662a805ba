"""Makes docs/settings.md: `python -m tools.pages --write`."""

from controller.settings.table import (
    IGNORED,
    IGNORED_FOR_ONE_LISTENER,
    REFUSED,
    SETTINGS,
    TOPIC_KEYS,
    Setting,
)

_HEAD = """\
# Settings

Made from `controller/settings/table.py` by `python -m tools.pages --write`.

`refold run` and `refold check` take the same settings from four places; the first that gives one
counts:

1. the command line,
2. the environment: `REFOLD_` and the key in capitals, `_` for each dot, without the prefix
   `refold.` (`zookeeper.connect` is `REFOLD_ZOOKEEPER_CONNECT`, `refold.log.dir` is
   `REFOLD_LOG_DIR`),
3. the file named by `--config`: TOML if its name ends in `.toml`, else Java properties, such as the
   `server.properties` of one of the brokers as it is,
4. the default.

Keys are Kafka's where Kafka has one. A file may hold any of them with `refold.` before it: that one
is for the daemon alone and goes before the plain one. So a broker's file, with that broker's
`broker.id` and `listeners`, serves with `refold.broker.id` and `refold.listeners` added, or with
`--broker-id` and `--listeners`. In TOML dotted keys and nested tables mean the same:

```toml
[zookeeper]
connect = "zk1:2181,zk2:2181/kafka"

[refold]
broker.id = 1000
log.dir = "/var/lib/refold"
```

A key that neither refold nor Kafka 3.9 has is an error in TOML, and a warning in a
`server.properties`. Keys that Kafka has and refold has no use for are passed over in silence.
"""

_ABOUT_TOPICS = """\
## Keys of Kafka that say what holds for topics

The configuration of a new topic is judged by them, and told to the tool that creates it. They have
Kafka's defaults and are read as a broker reads them; brokers go by their own, so give the daemon
the same. Only a file gives them, and only under these names: `refold.log.segment.bytes`, for
example, is another setting.
"""


def page() -> str:
    """The whole page."""
    return "\n".join(
        [
            _HEAD,
            "| key | command line, environment | default | what it is for |",
            "|---|---|---|---|",
            *map(_row, SETTINGS),
            "",
            _ABOUT_TOPICS,
            *(f"- `{key}`" for key in TOPIC_KEYS),
            "",
            "## Keys of Kafka that refold refuses",
            "",
            "The start is refused where one of them is set (to anything but `false`):",
            "",
            *(f"- `{key}`: {why}." for key, why in REFUSED.items()),
            "",
            "## Keys of Kafka that are told of",
            "",
            *(f"- `{key}`: {why}." for key, why in IGNORED.items()),
            *(
                f"- `listener.name.<listener>.{key}`: {why}."
                for key, why in IGNORED_FOR_ONE_LISTENER.items()
            ),
            "",
        ]
    )


def _row(setting: Setting) -> str:
    ways = ", ".join(f"`{way}`" for way in (setting.flag, setting.variable) if way)
    missing = "must be given" if setting.required else ""
    default = missing if setting.default is None else f"`{setting.default}`"
    return f"| `{setting.key}` | {ways} | {default} | {setting.about} |"
