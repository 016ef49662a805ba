"""Generates docs/settings.md: `python -m tools.pages --write`."""

from collections.abc import Mapping

from controller.settings.endpoint_limits import OF_ONE_LISTENER
from controller.settings.security_keys import (
    OF_BROKERS,
    OF_ENDPOINT,
    OF_TOKENS,
    OF_ZOOKEEPER,
    PLUGINS,
)
from controller.settings.setting import Setting
from controller.settings.table import (
    DECIDING,
    REFUSED,
    RELOADED,
    SETTINGS,
    TOPIC_KEYS,
)

_HEAD = """\
# Settings

`refold run` and `refold check` need three settings; the others have defaults:

    refold run --zookeeper zk1:2181/kafka --broker-id 1000 --log-dir /var/lib/refold

A setting can be in four places. The first of these that has it counts:

1. the command line;
2. the environment: `REFOLD_` and the key in capitals, with `_` for each dot and without the
   prefix `refold.` (`zookeeper.connect` is `REFOLD_ZOOKEEPER_CONNECT`, `refold.log.dir` is
   `REFOLD_LOG_DIR`);
3. the file of `--config`: TOML if its name ends in `.toml`, otherwise Java properties, such as
   the `server.properties` of one of the brokers;
4. the default.

Keys are Kafka's if Kafka has one. In a file, a key with the prefix `refold.` is for the daemon
alone and takes precedence. So you can use a broker's `server.properties`: add `refold.broker.id`
and `refold.listeners`, or use `--broker-id` and `--listeners`. In TOML, dotted keys and nested
tables mean the same:

```toml
[zookeeper]
connect = "zk1:2181,zk2:2181/kafka"

[refold]
broker.id = 1000
log.dir = "/var/lib/refold"
```

A key that neither refold nor Kafka 3.9 has is an error in TOML, and a warning in a
`server.properties`. Keys of Kafka that refold does not need are ignored.

Generated from `controller/settings/table.py` by `python -m tools.pages --write`.

## All settings
"""

_RELOADED = """\
## Settings that can be reloaded

At SIGHUP (`systemctl reload refold`) the daemon reads its file again and applies changes of the
following settings. It logs the keys of other changed settings, which need a restart. If a setting
is invalid, nothing changes. Files of certificates and keys are read again without a signal, when
they change. The environment and the command line of a process cannot change.
"""

_DECIDING = """\
## Settings that must be the brokers'

refold decides by its own values of the following settings, because it does not see the brokers'
files. `refold check` and `refold run` warn about brokers with other values
([administrators.md](administrators.md#the-daemons-settings)).
"""

_ABOUT_TOPICS = """\
## Kafka's defaults for topics

refold validates the configuration of new topics with the following keys and reports them to the
tool that creates the topic. They have Kafka's defaults. Brokers apply their own values, so set
the same values here. These keys can only be in a file, and only with these names:
`refold.log.segment.bytes`, for example, is a different setting.
"""

_SECURITY = """\
## Security keys of Kafka

These keys can only be in a file ([security.md](security.md)). refold connects to the listener of
the brokers that `control.plane.listener.name`, `inter.broker.listener.name` or
`security.inter.broker.protocol` selects, with the protocol that `listener.security.protocol.map`
has for it.
"""

_OF_ONE_LISTENER = """\
In the following table, keys that begin with `ssl.` may have the prefix
`listener.name.<listener>.`, which takes precedence.
"""

_OF_ENDPOINT = """\
The listeners of refold's endpoint have the protocol that `listener.security.protocol.map` has for
them, the keys of the last table, and these. Those of TLS and SASL may have the prefix, too.
"""


_OF_TOKENS = """\
refold has no delegation tokens. Clients with tokens use the brokers.
"""

_LIMITS_OF_LISTENER = """\
Two limits can be set for single listeners of the endpoint, in a file only:
"""


def page() -> str:
    """The whole page."""
    return "\n".join(
        [
            _HEAD,
            "| key | command line, environment | default | meaning |",
            "|---|---|---|---|",
            *map(_row, SETTINGS),
            "",
            _RELOADED,
            *(f"- `{key}`" for key in RELOADED),
            "",
            _DECIDING,
            *(f"- `{key}`" for key in DECIDING),
            "",
            _ABOUT_TOPICS,
            *(f"- `{key}`" for key in TOPIC_KEYS),
            "",
            _SECURITY,
            *_meanings(OF_ZOOKEEPER),
            _OF_ONE_LISTENER,
            *_meanings(OF_BROKERS),
            _OF_ENDPOINT,
            *_meanings(OF_ENDPOINT),
            _LIMITS_OF_LISTENER,
            *_meanings(
                {f"listener.name.<listener>.{key}": it for key, it in OF_ONE_LISTENER.items()}
            ),
            _OF_TOKENS,
            *_meanings(OF_TOKENS),
            "## Kafka's keys that refold refuses",
            "",
            "The daemon does not start if one of these is set, unless the value is `false`:",
            "",
            "| key | why |",
            "|---|---|",
            *(f"| `{key}` | {why}. |" for key, why in REFUSED.items()),
            "",
            "Neither does it start if one of these selects another class than Kafka's own, also "
            "for single listeners and mechanisms:",
            "",
            "| key | why |",
            "|---|---|",
            *(f"| `{key}` | {why}. |" for key, why in PLUGINS.items()),
            "",
        ]
    )


def _meanings(keys: Mapping[str, str]) -> list[str]:
    rows = (f"| `{key}` | {meaning}. |" for key, meaning in keys.items())
    return ["| key | meaning |", "|---|---|", *rows, ""]


def _row(setting: Setting) -> str:
    ways = ", ".join(f"`{way}`" for way in (setting.flag, setting.variable) if way)
    missing = "required" if setting.required else ""
    default = missing if setting.default is None else f"`{setting.default}`"
    return f"| `{setting.key}` | {ways} | {default} | {setting.about} |"
