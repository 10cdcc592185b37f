import base64
import hashlib
import hmac
import json
from pathlib import Path

import pytest

from routebook.wire.command import Command
from routebook.wire.signature import Credentials, signed_fields

GOLDEN = Path(__file__).resolve().parents[2] / "golden"

CREDENTIALS = Credentials("rocketmq2", "12345678")
FIELDS: dict[str, str | None] = {"topic": "TopicTest", "queueId": "0"}


def by_hand(secret: str, content: bytes) -> str:
    return base64.b64encode(hmac.digest(secret.encode(), content, hashlib.sha1)).decode()


@pytest.mark.parametrize(
    ("body", "signature"),
    [
        pytest.param(b"", "WcNHAIxSTdP81yH0rSPg25keg+g=", id="no-body"),
        pytest.param(b"hello", "av6ifRlR0Kuh217rwHVyMZt8mg4=", id="body"),
    ],
)
def test_the_known_vectors_come_out(body: bytes, signature: str) -> None:
    fields = signed_fields(Command(code=105, ext_fields=dict(FIELDS), body=body), CREDENTIALS)

    assert fields == {**FIELDS, "AccessKey": "rocketmq2", "Signature": signature}


def test_a_request_signed_by_a_java_client_has_the_same_signature() -> None:
    path = GOLDEN / "java-client-5.5.0" / "get-route-signed.json"
    sent = json.loads(path.read_text())["decoded"]["extFields"]

    command = Command(code=105, ext_fields={"topic": sent["topic"]})

    assert signed_fields(command, Credentials(sent["AccessKey"], "not-so-secret")) == sent


def test_the_token_is_sent_and_covered() -> None:
    credentials = Credentials("key", "secret", "token")

    fields = signed_fields(Command(ext_fields={"topic": "T"}), credentials)

    assert fields["SecurityToken"] == "token"
    # AccessKey, SecurityToken, topic: upper case sorts before lower case.
    assert fields["Signature"] == by_hand("secret", b"keytokenT")


def test_values_are_joined_in_the_order_of_the_names_code_units() -> None:
    # U+10000 sorts after U+FF5E by code point and before it by UTF-16 code unit, as Java sorts.
    given: dict[str, str | None] = {"\uff5e": "1", "\U00010000": "2", "b": "3", "B": "4", "_": "5"}

    fields = signed_fields(Command(ext_fields=given), Credentials("k", "s"))

    assert fields["Signature"] == by_hand("s", b"k45321")


def test_fields_that_are_not_sent_are_not_covered() -> None:
    given: dict[str, str | None] = {"topic": "T", "cluster": None}

    fields = signed_fields(Command(ext_fields=given), Credentials("k", "s"))

    assert fields == {"topic": "T", "AccessKey": "k", "Signature": by_hand("s", b"kT")}


def test_signing_again_gives_the_same_signature() -> None:
    once = signed_fields(Command(ext_fields=dict(FIELDS), body=b"hello"), CREDENTIALS)
    twice = signed_fields(Command(ext_fields=dict(once), body=b"hello"), CREDENTIALS)

    assert twice == once


def test_the_command_itself_stays_as_it_is() -> None:
    command = Command(ext_fields=dict(FIELDS))

    signed_fields(command, CREDENTIALS)

    assert command == Command(ext_fields=dict(FIELDS))


@pytest.mark.parametrize(
    ("value", "on_the_wire"),
    [
        pytest.param("主题", "主题".encode(), id="beyond-ascii"),
        pytest.param("a\ud800b", b"a?b", id="half-a-surrogate-pair"),
        pytest.param("", b"", id="empty"),
    ],
)
def test_what_is_signed_is_what_is_sent(value: str, on_the_wire: bytes) -> None:
    fields = signed_fields(Command(ext_fields={"value": value}), Credentials("k", "s"))

    assert fields["Signature"] == by_hand("s", b"k" + on_the_wire)


def test_neither_secret_nor_token_is_shown() -> None:
    shown = repr(Credentials("key", "hush", "psst"))

    assert "key" in shown
    assert "hush" not in shown
    assert "psst" not in shown
