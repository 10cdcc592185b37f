"""Finding NameServers, four ways.

    1. the program       find_source("10.0.0.1:9876;10.0.0.2:9876")
    2. a process option  find_source(option="10.0.0.1:9876"), what the command line calls -n
    3. NAMESRV_ADDR      in the environment
    4. HTTP              http://<domain>:8080/rocketmq/<subgroup>, asked again and again

The first of them that is set decides, also when it is set to an empty text: then there is no list
and the ones after it are not asked (reference: getNameServerAddresses
of NameServerAddressUtils).
"""

import asyncio
import logging
import os
import re
import threading
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from ipaddress import IPv6Address
from pathlib import Path
from typing import Protocol
from urllib.parse import quote, urlencode

from routebook.client.errors import NoNameServers
from routebook.disk import write_file
from routebook.wire.address import Address

logger = logging.getLogger(__name__)

FIRST_REFRESH_S = 10.0  # after the start; later ones are refresh_s apart
REFRESH_S = 120.0
TIMEOUT_S = 2.5  # of a look-up; less than a call has, so that its failure can still be told
# A look-up ends itself at its timeout and says why. Only the resolver can make it take longer.
GRACE_S = 0.2

DEFAULT_DOMAIN = "jmenv.tbsite.net"
DEFAULT_SUBGROUP = "nsaddr"

# Narrower than what resolvers take: each label has a size they can encode, so that asking for a
# name can only end in an address or an OSError.
_NAME = re.compile(r"(?=.{1,253}$)[A-Za-z0-9_-]{1,63}(\.[A-Za-z0-9_-]{1,63})*\.?")
_SCOPE = re.compile(r"[A-Za-z0-9_.-]+")


class AddressSource(Protocol):
    """Where a list of NameServers comes from; whatever has these three can be one."""

    @property
    def description(self) -> str:
        """Where the list comes from, for people."""

    @property
    def refresh_s(self) -> float | None:
        """How often to ask again; None: the list never changes by itself."""

    async def find(self) -> tuple[Address, ...]:
        """The list, never empty; raises NoNameServers when there has never been a usable one."""


def parse_addresses(text: str) -> tuple[Address, ...]:
    """Addresses of ``host:port;host:port``, each once, in order; none for a blank text.

    Of an element ``http://…/host:port`` only what follows the last slash counts. Raises ValueError
    naming the first element that is not an address.
    """
    return tuple(dict.fromkeys(_address(element) for element in _elements(text)))


def _elements(text: str) -> list[str]:
    return [element for part in text.split(";") if (element := part.strip())]


def _address(element: str) -> Address:
    text = element.rpartition("/")[2] if element.startswith("http://") else element
    try:
        address = Address.parse(text)
        if address.port == 0 or text.startswith("[") != ("]:" in text):
            raise ValueError(text)
        _check_host(address.host)
    except ValueError as error:
        raise ValueError(
            f"{element[:100]!r} is not a NameServer address: expected host:port, several separated"
            " by semicolons"
        ) from error
    return address


def _check_host(host: str) -> None:
    numeric, scoped, scope = host.partition("%")
    if ":" in host:
        IPv6Address(numeric)
        if scoped and not _SCOPE.fullmatch(scope):
            raise ValueError(host)
    elif not _NAME.fullmatch(host):
        raise ValueError(host)


class FixedAddresses(AddressSource):
    """A list that never changes."""

    def __init__(self, addresses: Iterable[Address], description: str = "the program") -> None:
        self._addresses = tuple(addresses)
        self._description = description

    @property
    def description(self) -> str:
        return self._description

    @property
    def refresh_s(self) -> None:
        return None

    async def find(self) -> tuple[Address, ...]:
        if not self._addresses:
            raise _no_nameservers(
                "the HTTP address service", f"the list given by {self._description} is empty"
            )
        return self._addresses


class HttpAddresses(AddressSource):
    """What an HTTP address service says, or said when it was last of use.

    Each ``find`` asks; callers that come while a look-up is under way share it. With ``snapshot``
    the last good list survives a restart: it is read from that file while the service has not
    answered since the start. May be shared by event loops in several threads.
    """

    def __init__(
        self, url: str, *, snapshot: Path | None = None, timeout_s: float = TIMEOUT_S
    ) -> None:
        """Raises ValueError for anything but an ``http://`` URL."""
        # Imported here because most programs are given a list, and http.client is slow to import.
        from routebook.client.address_service import host_and_port

        host_and_port(url)
        self._url = url
        self._snapshot = snapshot
        self._timeout_s = timeout_s
        self._known: tuple[Address, ...] = ()
        self._text = ""  # the answer that _known was read from
        self._saved: tuple[Address, ...] = ()  # what the snapshot holds
        self._failure: str | None = None
        self._lock = threading.Lock()  # around _under_way
        self._under_way: Future[None] | None = None

    @property
    def description(self) -> str:
        return self._url

    @property
    def refresh_s(self) -> float:
        return REFRESH_S

    @property
    def failure(self) -> str | None:
        """Why the last look-up failed; None when it did not."""
        return self._failure

    async def find(self) -> tuple[Address, ...]:
        """The list, old or new, after about ``timeout_s`` at most."""
        try:
            async with asyncio.timeout(self._timeout_s + GRACE_S):
                await asyncio.wrap_future(self._look_up())
        except TimeoutError:
            self._failed(f"no answer within {self._timeout_s:g} s")
        if not self._known and self._snapshot is not None:
            await self._recall(self._snapshot)
        if not self._known:
            raise _no_nameservers(self._url, self._failure or "it gave no address")
        return self._known

    def _look_up(self) -> Future[None]:
        """The look-up under way, or a new one: slow ones never pile up."""
        with self._lock:
            if self._under_way is None or self._under_way.done():
                done = Future[None]()
                done.set_running_or_notify_cancel()  # a caller who is cancelled ends it for nobody
                # A daemon, because a resolver may hang much longer than a program wants to exit.
                threading.Thread(
                    target=self._ask, args=(done,), name="nameserver-addresses", daemon=True
                ).start()
                self._under_way = done
            return self._under_way

    def _ask(self, done: Future[None]) -> None:
        from routebook.client.address_service import ServiceFailed, fetch_text

        try:
            text = fetch_text(self._url, timeout_s=self._timeout_s)
            if text != self._text:
                known = _readable(text, self._url)
                if not known:
                    raise ServiceFailed(f"the answer has no address: {text[:60]!r}")
                self._known, self._text = known, text
            self._failure = None
            self._save()
        except ServiceFailed as error:
            self._failed(str(error))
        finally:
            done.set_result(None)

    def _failed(self, reason: str) -> None:
        self._failure = reason
        if self._known:
            logger.warning("%s: %s; the last known list stays", self._url, reason)

    def _save(self) -> None:
        if self._snapshot is None or self._known == self._saved:
            return
        try:
            _write_snapshot(self._snapshot, self._known)
        except OSError as error:
            logger.warning("NameServer list %s cannot be written: %s", self._snapshot, error)
        else:
            self._saved = self._known

    async def _recall(self, snapshot: Path) -> None:
        recalled = await asyncio.to_thread(_read_snapshot, snapshot)
        if recalled and not self._known:  # the service may have answered meanwhile
            self._known = self._saved = recalled
            logger.warning("%s: %s; using the list in %s", self._url, self._failure, snapshot)


def _readable(text: str, url: str) -> tuple[Address, ...]:
    addresses: dict[Address, None] = {}
    skipped: list[str] = []
    for element in _elements(text):
        try:
            addresses[_address(element)] = None
        except ValueError:
            skipped.append(element)
    if addresses and skipped:  # one line for all: a bad answer may have thousands
        logger.warning("%s: skipped %d not host:port: %.300r", url, len(skipped), skipped)
    return tuple(addresses)


def _read_snapshot(path: Path) -> tuple[Address, ...]:
    """Nothing when there is no such file, or it is of no use."""
    try:
        addresses = parse_addresses(path.read_text(encoding="utf-8"))
        if not addresses:
            raise ValueError("it is empty")
    except FileNotFoundError:
        return ()
    except (OSError, ValueError) as error:
        logger.warning("NameServer list %s is ignored: %s", path, error)
        return ()
    return addresses


def _write_snapshot(path: Path, addresses: Iterable[Address]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, (";".join(map(str, addresses)) + "\n").encode())


def address_service_url(
    domain: str = DEFAULT_DOMAIN,
    subgroup: str = DEFAULT_SUBGROUP,
    unit: str | None = None,
    parameters: Mapping[str, str] | None = None,
) -> str:
    """Port 8080 is added to a domain without a colon."""
    host = domain if ":" in domain else f"{domain}:8080"
    path = quote(subgroup) + (f"-{quote(unit, safe='')}" if unit else "")
    query = {**({"nofix": "1"} if unit else {}), **(parameters or {})}
    return f"http://{host}/rocketmq/{path}" + (f"?{urlencode(query)}" if query else "")


def find_source(
    nameservers: str | Iterable[str] | AddressSource | None = None,
    *,
    option: str | None = None,
    environ: Mapping[str, str] = os.environ,
    unit: str | None = None,
    domain: str | None = None,
    subgroup: str | None = None,
    snapshot: Path | None = None,
) -> AddressSource:
    """The first that is set of ``nameservers``, ``option``, NAMESRV_ADDR and the HTTP service.

    ``nameservers`` may be a source already, and is returned then. ``unit``, ``domain``,
    ``subgroup`` and ``snapshot`` are for the HTTP service. Raises ValueError for a list with a
    malformed address, which says whose list it is.
    """
    if nameservers is not None and not isinstance(nameservers, str):
        if not isinstance(nameservers, Iterable):
            return nameservers
        nameservers = ";".join(nameservers)
    lists = {
        "the program": nameservers,
        "the option -n": option,
        "NAMESRV_ADDR": environ.get("NAMESRV_ADDR"),
    }
    for description, text in lists.items():
        if text is not None:
            try:
                return FixedAddresses(parse_addresses(text), description)
            except ValueError as error:
                raise ValueError(f"{description}: {error}") from error
    url = address_service_url(
        domain or environ.get("ROCKETMQ_NAMESRV_DOMAIN") or DEFAULT_DOMAIN,
        subgroup or environ.get("ROCKETMQ_NAMESRV_DOMAIN_SUBGROUP") or DEFAULT_SUBGROUP,
        unit,
    )
    return HttpAddresses(url, snapshot=snapshot)


def _no_nameservers(service: str, reason: str) -> NoNameServers:
    return NoNameServers(
        "no NameServer is known: pass addresses, give -n host:port;host:port, set NAMESRV_ADDR,"
        f" or make {service} answer ({reason})"
    )
