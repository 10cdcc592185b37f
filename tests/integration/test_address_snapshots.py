"""The last good NameServer list on disk, for a start while the address service is away."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from routebook.client.errors import NoNameServers
from routebook.client.sources import HttpAddresses
from routebook.wire.address import Address
from support.address_service import AddressService, address_service, nobody, text

ONE, TWO, THREE = (Address("10.0.0.1", 9876), Address("10.0.0.2", 9876), Address("::1", 9877))


@pytest.fixture
def service() -> Iterator[AddressService]:
    with address_service(text("10.0.0.1:9876;10.0.0.2:9876")) as service:
        yield service


async def test_a_snapshot_carries_the_list_over_a_restart(
    service: AddressService, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    snapshot = tmp_path / "made" / "list"
    before = HttpAddresses(service.url, snapshot=snapshot)
    await before.find()
    service.answer = text("[::1]:9877;10.0.0.1:9876")
    await before.find()
    service.stop()

    after = HttpAddresses(service.url, snapshot=snapshot)

    assert await after.find() == (THREE, ONE)
    assert f"connection refused; using the list in {snapshot}" in caplog.text
    assert list(snapshot.parent.iterdir()) == [snapshot]


async def test_a_snapshot_is_not_read_once_the_service_has_answered(
    service: AddressService, tmp_path: Path
) -> None:
    snapshot = tmp_path / "list"
    snapshot.write_text("[::1]:9877\n")
    source = HttpAddresses(service.url, snapshot=snapshot)
    assert await source.find() == (ONE, TWO)
    assert snapshot.read_text() == "10.0.0.1:9876;10.0.0.2:9876\n"
    snapshot.write_text("[::1]:9877\n")
    service.stop()

    assert await source.find() == (ONE, TWO)


async def test_an_unchanged_list_is_not_written_again(
    service: AddressService, tmp_path: Path
) -> None:
    snapshot = tmp_path / "list"
    source = HttpAddresses(service.url, snapshot=snapshot)
    await source.find()
    snapshot.unlink()
    await source.find()

    assert not snapshot.exists()


@pytest.mark.parametrize(
    "content", [b"", b" \n", b"10.0.0.1:9876;half", b"\xff\xfe\0", None], ids=repr
)
async def test_a_damaged_snapshot_is_ignored_with_a_warning(
    content: bytes | None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    snapshot = tmp_path / "list"
    if content is None:
        snapshot.mkdir()
    else:
        snapshot.write_bytes(content)

    with pytest.raises(NoNameServers, match="connection refused"):
        await HttpAddresses(nobody(), snapshot=snapshot).find()

    assert f"NameServer list {snapshot} is ignored" in caplog.text


async def test_a_missing_snapshot_is_no_news(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(NoNameServers):
        await HttpAddresses(nobody(), snapshot=tmp_path / "list").find()

    assert caplog.text == ""


async def test_a_list_that_cannot_be_written_is_still_used_and_written_later(
    service: AddressService, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "folder"
    folder.touch()
    source = HttpAddresses(service.url, snapshot=folder / "list")

    assert await source.find() == (ONE, TWO)
    assert f"{folder / 'list'} cannot be written" in caplog.text

    folder.unlink()
    await source.find()
    assert (folder / "list").read_text() == "10.0.0.1:9876;10.0.0.2:9876\n"
