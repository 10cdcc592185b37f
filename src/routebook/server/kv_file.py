"""The key-value file: RocketMQ's own ``kvConfig.json``.

One line, ``{"configTable":{"NAMESPACE":{"key":"value"}}}``. A change is written to a temporary
file, forced to disk and renamed over the old one before it is applied and acknowledged; changes
that arrive while a write is under way share the next one.
"""

import asyncio
import json
import logging
import os
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from pathlib import Path

from routebook.events import Event
from routebook.handlers.turns import in_turns
from routebook.printable import escaped, shortened
from routebook.server.background import Upkeep, is_ending
from routebook.server.durable import replace_file
from routebook.server.kv_claim import Found, KvClaim, claim_kv_file, file_at
from routebook.settings import SettingsError
from routebook.slices import Slices
from routebook.state.errors import NotDurable
from routebook.state.kv import KvChange, KvStore, Reserved, Tables
from routebook.wire import fastjson
from routebook.wire.errors import DialectError
from routebook.wire.header_json import as_text
from routebook.wire.text import grown

logger = logging.getLogger(__name__)

WRITING = "writing the key-value file"
APPLIED_A_SLICE = 50  # changes, with a record each
MOST_LOGGED = 1000  # pairs
LONGEST_LOGGED = 200  # characters of a name or a value
LOGGED_A_SLICE = 50
_KEEPING = "keeping the key-value file"
_WRITTEN_AGAIN = "written again with the next change; put it back, or set one of them anew"
_NOT_READ = "its pairs are not served before a restart, and the next change writes over it"


def load(path: Path) -> Tables:
    """The pairs in the file, none when there is no file; raises SettingsError."""
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}") from error
    if not text.strip():
        return {}
    try:
        text.decode()
        document = fastjson.loads(text)
    except (DialectError, UnicodeDecodeError) as error:
        line = _line_of_damage(text)
        raise SettingsError(
            f"{path} line {line} is damaged ({error}); repair it or move it away,"
            " it was not changed"
        ) from error
    tables = document.get("configTable", {}) if isinstance(document, dict) else None
    if not isinstance(tables, dict) or not all(
        table is None or isinstance(table, dict) for table in tables.values()
    ):
        raise SettingsError(
            f"{path} line 1 is damaged (no configTable of tables); repair it or move it away,"
            " it was not changed"
        )
    return {
        namespace: {k: as_text(v) for k, v in (table or {}).items() if v is not None}
        for namespace, table in tables.items()
    }


def _line_of_damage(text: bytes) -> int:
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        return error.lineno
    except UnicodeDecodeError as error:
        return text.count(b"\n", 0, error.start) + 1
    except RecursionError:
        pass
    return 1


def encode(tables: Iterable[tuple[str, Iterable[tuple[str, str]]]]) -> Slices[bytes]:
    """The text of the file, in slices: there may be a hundred thousand pairs."""
    text = bytearray(b'{"configTable":{')
    for number, (namespace, pairs) in enumerate(tables):
        name = (b"," if number else b"") + fastjson.quoted(namespace) + b":"
        text += yield from fastjson.quoted_pairs_slices(pairs, name)
        yield
    text += b"}}"
    return grown(text)


class KvFile:
    def __init__(
        self,
        path: Path,
        store: KvStore,
        record: Callable[[Iterable[Event]], None],
        upkeep: Upkeep | None = None,
    ) -> None:
        self._path = Path(os.path.realpath(path))
        self._store = store
        self._record = record
        self._upkeep = upkeep or Upkeep()
        self._waiting: list[tuple[KvChange, asyncio.Future[None]]] = []
        self._writer: asyncio.Task[None] | None = None
        self._claim: KvClaim | None = None
        self._loaded = file_at(self._path)
        self._found = Found.OURS
        self._may_write = asyncio.Event()
        self._may_write.set()
        self._reserved = Reserved()  # of changes not yet applied

    def open(self) -> None:
        """Take the file, which no other node may have; raises SettingsError."""
        self._claim = claim_kv_file(self._path)
        if file_at(self._path) != self._loaded:  # by a node that has stopped meanwhile
            self.close()
            raise SettingsError(f"{self._path} was written since it was read; start the node again")

    def close(self) -> None:
        if self._claim is not None:
            self._claim.release()
            self._claim = None

    def hold(self) -> None:
        """Let changes wait until ``go_on``."""
        self._may_write.clear()

    def go_on(self) -> None:
        self._may_write.set()

    async def look(self, upkeep: Upkeep) -> None:
        """Say so, once, when somebody removed or replaced the file; what was in it is served on."""
        if self._claim is None or self._is_writing():
            return
        found = await asyncio.to_thread(self._claim.look)
        if found is self._found or self._is_writing():
            return
        self._found = found
        if found is Found.NOTHING:
            pairs = sum(map(len, self._store.tables.values()))
            what = f"{self._path} was removed; {pairs} pairs are served on, and {_WRITTEN_AGAIN}"
            upkeep.failed(_KEEPING, what)
            logger.error("%s", what)
        elif found is Found.ANOTHER:
            logger.warning("%s was replaced; %s", self._path, _NOT_READ)
        if found is not Found.NOTHING and upkeep.works(_KEEPING):
            logger.warning("%s is there again", self._path)

    def _is_writing(self) -> bool:
        return self._writer is not None

    def _replace(self, text: bytes) -> None:
        if self._claim is None:
            replace_file(self._path, text)
        else:
            self._claim.write(text)

    @property
    def waiting_bytes(self) -> Mapping[str, int]:
        """What changes on their way to the disk take at most, by host."""
        widest = 4  # bytes of a character
        return {host: widest * size for host, size in self._reserved.by_host.items()}

    async def commit(self, change: KvChange) -> None:
        """Make ``change`` durable, then visible; raises StateError when it cannot be."""
        effective = self._store.check(change, self._reserved)
        if not effective and self._writer is None:
            return
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((change, done))
        self._reserved.add(change)
        if self._writer is None:
            self._writer = asyncio.create_task(self._write())
        try:
            await done
        finally:
            self._reserved.give_back(change)

    async def _write(self) -> None:
        try:
            await self._may_write.wait()
            while self._waiting:
                batch, self._waiting = self._waiting, []
                failure = await self._write_batch([change for change, _ in batch])
                for number, (_, done) in enumerate(batch, start=1):
                    if number % APPLIED_A_SLICE == 0:
                        await asyncio.sleep(0)  # who waited is answered, and that takes its time
                    if done.done():
                        continue
                    if failure is None:
                        done.set_result(None)
                    else:
                        done.set_exception(failure)
        finally:
            self._writer = None

    async def _write_batch(self, changes: list[KvChange]) -> Exception | None:
        """Why it could not be done, if so: whoever waits must be told, whatever it was."""
        in_file = False
        try:
            await self._replace_file(changes)
            in_file = True
            for start in range(0, len(changes), APPLIED_A_SLICE):
                self._record(self._store.apply(changes[start : start + APPLIED_A_SLICE]))
                await asyncio.sleep(0)
        except NotDurable as error:
            return error
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # whoever waits for the disk is to be answered
            if is_ending(error):
                raise
            logger.exception("%s failed", WRITING)
            self._upkeep.erred(WRITING, error)
            if in_file:
                return RuntimeError(f"{WRITING} is done, and not all of it is applied")
            return NotDurable(str(self._path), "internal error")
        return None

    async def _replace_file(self, changes: list[KvChange]) -> None:
        try:
            text = await in_turns(encode(self._store.preview(changes)))
            await asyncio.to_thread(self._replace, text)
        except OSError as error:
            logger.error("%s cannot be written: %s", self._path, error)  # noqa: TRY400
            self._upkeep.erred(WRITING, error)
            raise NotDurable(str(self._path), str(error.strerror)) from error

    async def flush(self) -> None:
        """Wait for writes under way."""
        if self._writer is not None:
            await asyncio.wait([self._writer])

    async def log_all(self) -> None:
        """The pairs, one line each, as RocketMQ prints them; cut, and no more than a log takes."""
        tables = self._store.tables
        pairs = ((n, key, value) for n, table in tables.items() for key, value in table.items())
        for number, pair in enumerate(list(islice(pairs, MOST_LOGGED))):
            text = (escaped(shortened(part, LONGEST_LOGGED)) for part in pair)
            logger.info("configTable NS: %s Key: %s Value: %s", *text)
            if number % LOGGED_A_SLICE == LOGGED_A_SLICE - 1:
                await asyncio.sleep(0)
        if (all_pairs := sum(map(len, tables.values()))) > MOST_LOGGED:
            logger.info("configTable: and %d more pairs", all_pairs - MOST_LOGGED)
