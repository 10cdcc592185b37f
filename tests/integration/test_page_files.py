"""The files of the live page over HTTP: from memory, for ever, and under a strict policy."""

import gzip
import re
from base64 import b64encode
from collections.abc import AsyncIterator
from hashlib import sha256
from pathlib import Path

import pytest

from support.gateways import RunningGateway, gateway_of
from support.nodes import local_node

PAGE = Path(__file__).parents[2] / "src" / "routebook" / "gateway" / "page"


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[RunningGateway]:
    async with local_node(tmp_path) as node, gateway_of(node.address) as running:
        yield running


async def test_everything_the_page_names_is_there_and_stays(gateway: RunningGateway) -> None:
    page = await gateway.get("/")
    assert page.status == 200
    assert page.headers["cache-control"] == "no-cache"
    named = set(re.findall(r"assets/[0-9a-f]{16}/[\w.-]+", page.text))
    assert len(named) > 8
    [version] = {name.split("/")[1] for name in named}
    modules = {path.name for path in PAGE.glob("*.mjs")}
    for name in named | {f"assets/{version}/{module}" for module in modules}:
        file = await gateway.get(f"/{name}")
        assert file.status == 200, name
        assert "immutable" in file.headers["cache-control"]
        assert file.headers["x-content-type-options"] == "nosniff"
        for imported in re.findall(r'from "\./([\w.]+)"', file.text):
            assert imported in modules, f"{imported} of {name}"


async def test_nothing_runs_but_the_pages_own_files(gateway: RunningGateway) -> None:
    page = await gateway.get("/")
    policy = page.headers["content-security-policy"]
    [import_map] = re.findall(r'<script type="importmap">(.*?)</script>', page.text, re.DOTALL)
    digest = b64encode(sha256(import_map.encode()).digest()).decode()
    assert f"script-src 'self' 'sha256-{digest}';" in policy
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert re.findall(r"<script(?! type=\"importmap\")[^>]*>[^<]", page.text) == []
    assert "http" not in re.sub(r"\s", "", page.text).replace("httpReadToken", "")


async def test_a_page_that_is_known_is_not_sent_again(gateway: RunningGateway) -> None:
    page = await gateway.get("/")
    again = await gateway.get("/", **{"If-None-Match": page.headers["etag"]})
    assert (again.status, again.body) == (304, b"")
    packed = await gateway.get("/", **{"Accept-Encoding": "gzip"})
    assert packed.headers["content-encoding"] == "gzip"
    assert gzip.decompress(packed.body) == page.body


@pytest.mark.parametrize(
    "path",
    [
        "/assets/0000000000000000/main.mjs",
        "/assets/{version}/assets.lock",
        "/assets/{version}/..%2f..%2fapp.py",
        "/assets/{version}/../../app.py",
        "/assets/{version}/vendor/preact.mjs",
        "/index.html",
    ],
)
async def test_no_path_reaches_the_disk(gateway: RunningGateway, path: str) -> None:
    page = await gateway.get("/")
    [version] = set(re.findall(r"assets/([0-9a-f]{16})/", page.text))
    answer = await gateway.get(path.format(version=version))
    assert answer.status == 404
