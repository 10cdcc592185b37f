"""UPDATE_NAMESRV_CONFIG and GET_NAMESRV_CONFIG, with nothing a stranger could break.

Updates are off unless ``allowRemoteConfig`` is set. Then only live settings can be changed, and
they are kept in a file of their own, ``remote.properties`` in the data folder, never in the
file the operator wrote.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import javaproperties

from routebook.events import Cause, ConfigChanged, Event
from routebook.handlers.errors import NoPermission
from routebook.handlers.services import Caller
from routebook.server.durable import replace_file
from routebook.settings import LIVE_KEYS, LiveSettings, Settings, SettingsError, parse_live
from routebook.state.errors import NotDurable
from routebook.state.revision import Revision
from routebook.wire.errors import BadRequest
from routebook.wire.text import whole

logger = logging.getLogger(__name__)

FILE_NAME = "remote.properties"


def load(data_dir: Path) -> dict[str, str]:
    """Settings changed by earlier updates; raises SettingsError for a file not ours."""
    path = data_dir / FILE_NAME
    try:
        with path.open("rb") as file:
            values = javaproperties.load(file)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise SettingsError(f"{path} cannot be read: {error}; repair or remove it") from error
    return {name: text for name, text in values.items() if name in LIVE_KEYS}


class RemoteConfig:
    def __init__(
        self,
        settings: Settings,
        revision: Revision,
        use: Callable[[LiveSettings], None],
        record: Callable[[Iterable[Event]], None],
    ) -> None:
        self._allowed = settings.allow_remote_config
        self._path = settings.data_dir / FILE_NAME
        self._values = dict(settings.values)
        self._revision = revision
        self._use = use
        self._record = record
        self._updating = asyncio.Lock()  # two updates must not write the file out of order

    def set_shown(self, name: str, text: str) -> None:
        """Show another value than the configured one, such as the port that was free."""
        self._values[name] = text

    def text(self) -> str:
        """All settings, ``name=value``, sorted."""
        return "".join(f"{name}={self._values[name]}\n" for name in sorted(self._values))

    async def update(self, text: str, caller: Caller) -> None:
        """Raises NoPermission, BadRequest or NotDurable, with nothing changed."""
        if not self._allowed:
            raise NoPermission(
                "this node takes no configuration from the network; change its own file, or start"
                " it with allowRemoteConfig=true"
            )
        async with self._updating:
            wanted = self._checked(text)
            before = {name: self._values[name] for name in wanted}
            if before == wanted:
                return
            values = {**self._values, **wanted}
            live = self._parsed(values)
            try:
                kept = {**await asyncio.to_thread(load, self._path.parent), **wanted}
                await asyncio.to_thread(replace_file, self._path, _encoded(kept))
            except (OSError, SettingsError) as error:
                raise NotDurable(str(self._path), str(error)) from error
            self._values = values
            self._use(live)
            self._record(
                [
                    ConfigChanged(
                        revision=self._revision.next(),
                        cause=Cause.ADMIN,
                        peer=caller.peer,
                        before=before,
                        after=wanted,
                    )
                ]
            )

    def _checked(self, text: str) -> dict[str, str]:
        try:
            properties = javaproperties.loads(text)
            wanted = {whole(name): whole(value.strip()) for name, value in properties.items()}
        except ValueError as error:
            raise BadRequest("string2Properties error") from error
        refused = sorted(set(wanted) - set(LIVE_KEYS))
        if refused:
            raise NoPermission(
                f"Can not update config in black list. Not {', '.join(refused)[:200]};"
                f" only {', '.join(LIVE_KEYS)}"
            )
        return wanted

    def _parsed(self, values: Mapping[str, str]) -> LiveSettings:
        try:
            return parse_live(values)
        except ValueError as error:
            raise BadRequest(str(error)) from error


def _encoded(values: Mapping[str, str]) -> bytes:
    return javaproperties.dumps(values, timestamp=False).encode("latin-1")
