"""Reads the settings again at SIGHUP, and applies those that a running daemon can change safely.

None of these affects decisions, so a reload is no event of the log. The one deciding setting that
Kafka changes at run time, unclean.leader.election.enable, is read from ZooKeeper, as events.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from controller import structured_log
from controller.daemon.service_manager import ServiceManager
from controller.settings.errors import SettingsError
from controller.settings.settings import Settings, SettingSources
from controller.settings.table import RELOADED

logger = logging.getLogger(__name__)


@contextmanager
def _more_verbose_level(settings: Settings) -> Iterator[None]:
    """Set the level of messages. Of the earlier and the new one, the more verbose one holds in the
    block, so that a change to `warning` is confirmed."""
    is_quieter = structured_log.LEVELS[settings.messages_level] > logger.getEffectiveLevel()
    if not is_quieter:
        structured_log.configure(settings.messages, level=settings.messages_level)
    yield
    if is_quieter:
        structured_log.configure(settings.messages, level=settings.messages_level)


class SettingsReloader:
    """Reads the settings again at SIGHUP. Raises SettingsError if the file was deleted since the
    start."""

    def __init__(self, sources: SettingSources, service_manager: ServiceManager) -> None:
        self._sources = sources
        self._texts = sources.texts()
        self._service_manager = service_manager
        self.apply: Callable[[Settings], None] | None = None
        """Applies the reloaded settings in the running parts. None while there are none."""

    def reload(self) -> None:
        """Reload. If a setting is invalid, nothing changes and each problem is logged."""
        if self.apply is None:
            self._reload()
            return
        self._service_manager.reloading()
        self._reload()
        self._service_manager.ready()

    def _reload(self) -> None:
        try:
            settings, warnings = self._sources.load()
            texts = self._sources.texts()
        except SettingsError as error:
            for problem in error.problems:
                logger.error("SIGHUP: no setting was changed: %s", problem)
        else:
            with _more_verbose_level(settings):
                for warning in warnings:
                    logger.warning("%s", warning)
                if self.apply is not None:
                    self.apply(settings)
                self._report(texts)

    def _report(self, texts: dict[str, str]) -> None:
        keys = {*self._texts, *texts}
        changed = sorted(one for one in keys if self._texts.get(one) != texts.get(one))
        applied = [one for one in changed if one in RELOADED]
        logger.info("SIGHUP: settings reloaded; changed: %s", ", ".join(applied) or "none")
        # These are named at each reload until the restart.
        if waiting := [one for one in changed if one not in RELOADED]:
            logger.warning("SIGHUP: these changes need a restart: %s", ", ".join(waiting))
        for key in RELOADED:
            self._texts.pop(key, None)
            if key in texts:
                self._texts[key] = texts[key]
