"""The ACL signature: HMAC-SHA1 over the values of all ext fields, sorted by name, and the body."""

import base64
import hashlib
import hmac
from dataclasses import dataclass, field

from routebook.wire.command import Command


@dataclass(frozen=True, slots=True)
class Credentials:
    """What requests are signed with, for servers with access control."""

    access_key: str
    secret_key: str = field(repr=False)
    security_token: str | None = field(default=None, repr=False)


def signed_fields(command: Command, credentials: Credentials) -> dict[str, str | None]:
    """The ext fields of ``command``, signed. To be done last: the signature covers them all."""
    fields: dict[str, str | None] = {
        name: value for name, value in command.ext_fields.items() if value is not None
    }
    fields.pop("Signature", None)
    fields["AccessKey"] = credentials.access_key
    if credentials.security_token is not None:
        fields["SecurityToken"] = credentials.security_token
    # Java sorts by UTF-16 code units.
    names = sorted(fields, key=lambda name: name.encode("utf-16-be", "surrogatepass"))
    text = "".join(fields[name] or "" for name in names)
    content = text.encode("utf-8", "replace") + command.body  # as it is sent
    digest = hmac.new(credentials.secret_key.encode(), content, hashlib.sha1).digest()
    fields["Signature"] = base64.b64encode(digest).decode()
    return fields
