"""PageFiles: the live page and its libraries, as bytes in memory.

No path of a request reaches the disk: a name is looked up among the files there are. Libraries come
from ``scripts/assets.sh`` and are part of every wheel. All files but the page itself are under a
name made from their content, so a browser keeps them for ever and never mixes two versions.
"""

import re
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable

from starlette.requests import Request
from starlette.responses import Response

from routebook.gateway.access import Access
from routebook.gateway.answers import error_answer
from routebook.gateway.endpoints import Endpoint
from routebook.gateway.gateway import Gateway

_TYPES = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "mjs": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_INDEX = "index.html"
_PLACE = b"@ASSETS@"  # in the page: the folder its files are in
_IMPORT_MAP = re.compile(rb'<script type="importmap">(.*?)</script>', re.DOTALL)


@dataclass(frozen=True, slots=True)
class PageFile:
    body: bytes
    media_type: str
    headers: Mapping[str, str]

    def answer(self, request: Request) -> Response:
        if request.headers.get("if-none-match") == self.headers["ETag"]:
            return Response(status_code=304, headers=dict(self.headers))
        return Response(self.body, headers=dict(self.headers), media_type=self.media_type)


@dataclass(frozen=True, slots=True)
class PageFiles:
    """``version`` names the content of all ``assets`` together."""

    index: PageFile
    assets: Mapping[str, PageFile]
    version: str


@cache
def page_files() -> PageFiles:
    """Raises FileNotFoundError when the libraries of the page were never fetched."""
    folder = files("routebook.gateway") / "page"
    found = {**_read(folder), **_read(folder / "vendor")}
    version = sha256(repr(sorted(found.items())).encode()).hexdigest()[:16]
    page = found.pop(_INDEX).replace(_PLACE, f"assets/{version}".encode())
    for_ever = {"Cache-Control": "public, max-age=31536000, immutable"}
    return PageFiles(
        _file(_INDEX, page, {"Cache-Control": "no-cache", **_defences(page)}),
        {name: _file(name, body, for_ever) for name, body in found.items()},
        version,
    )


def _read(folder: Traversable) -> dict[str, bytes]:
    if not folder.is_dir():
        raise FileNotFoundError(folder.name)
    named = ((file.name, file) for file in folder.iterdir())
    return {
        name: file.read_bytes()
        for name, file in named
        if name.rpartition(".")[2] in _TYPES and file.is_file()
    }


def _file(name: str, body: bytes, headers: Mapping[str, str]) -> PageFile:
    etag = {"ETag": f'"{sha256(body).hexdigest()[:16]}"', "X-Content-Type-Options": "nosniff"}
    return PageFile(body, _TYPES[name.rpartition(".")[2]], {**etag, **headers})


def _defences(page: bytes) -> dict[str, str]:
    """Names come from brokers nobody checked: nothing in the page runs but its own files."""
    [import_map] = _IMPORT_MAP.findall(page)
    allowed = b64encode(sha256(import_map).digest()).decode()
    policy = (
        "default-src 'none'",
        f"script-src 'self' 'sha256-{allowed}'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
    )
    return {
        "Content-Security-Policy": "; ".join(policy),
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Referrer-Policy": "no-referrer",
    }


def _not_fetched() -> Response:
    return error_answer(
        503,
        "the libraries of the page are not here; run `sh scripts/assets.sh`, then start again",
        code="no_page",
    )


async def index(request: Request, gateway: Gateway) -> Response:
    try:
        return page_files().index.answer(request)
    except FileNotFoundError:
        return _not_fetched()


async def asset(request: Request, gateway: Gateway) -> Response:
    try:
        found = page_files()
    except FileNotFoundError:
        return _not_fetched()
    file = found.assets.get(request.path_params["name"])
    if file is None or request.path_params["version"] != found.version:
        sentence = "no such file of the page; it may be of an older one: load / anew"
        return error_answer(404, sentence, code="no_such_path")
    return file.answer(request)


ENDPOINTS = (
    Endpoint("GET", "/", Access.READ, index, "The live page."),
    Endpoint("GET", "/assets/{version}/{name}", Access.READ, asset, "A file of the live page."),
)
