import pytest

from routebook.wire.address import split_address


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("10.0.0.1:9876", ("10.0.0.1", 9876)),
        ("name:0", ("name", 0)),
        ("[::1]:9876", ("::1", 9876)),
        ("fe80::1%eth0:65535", ("fe80::1%eth0", 65535)),
    ],
)
def test_an_address_is_host_and_port(text: str, address: tuple[str, int]) -> None:
    assert split_address(text) == address


@pytest.mark.parametrize("text", ["", "host", ":1", "host:", "host:x", "host:65536", "host:-1"])
def test_anything_else_is_none(text: str) -> None:
    with pytest.raises(ValueError, match="is not host:port"):
        split_address(text)
