"""Whose journal a folder holds: the node, its fleet, and which life of the folder this is.

    {"v":1,"node":"ns-1","fleet":"shop","incarnation":"9f86d081884c7d65"}

A fleet is a set of NameServers that brokers know together. An incarnation begins with an empty
folder: a node whose disk was replaced counts from 1 again, under the same name, and is another
witness. A journal from before there were incarnations has the incarnation "".
"""

import secrets
from pathlib import Path

import msgspec

from routebook.journal.errors import JournalError
from routebook.journal.folder import IDENTITY, list_folder, write_whole

VERSION = 1


class Identity(msgspec.Struct, frozen=True):
    v: int = VERSION
    node: str = ""
    fleet: str = ""
    incarnation: str = ""


UNKNOWN = Identity()


def new_identity(node: str, fleet: str) -> Identity:
    return Identity(VERSION, node, fleet, secrets.token_hex(8))


def take_identity(folder: Path, node: str, fleet: str) -> Identity:
    """The identity of the journal in ``folder`` from now on, written down there.

    Its incarnation stays. Raises OSError, and JournalError when there is one that nobody can read.
    """
    found = find_identity(folder)
    if found is not None:
        identity = msgspec.structs.replace(found, node=node, fleet=fleet)
    elif list_folder(folder).holds_records:
        identity = Identity(VERSION, node, fleet)
    else:
        identity = new_identity(node, fleet)
    if identity != found:
        write_identity(folder, identity)
    return identity


def write_identity(folder: Path, identity: Identity) -> None:
    write_whole(folder / IDENTITY, msgspec.json.encode(identity) + b"\n")


def find_identity(folder: Path) -> Identity | None:
    """None where nobody wrote one. Raises JournalError."""
    path = folder / IDENTITY
    try:
        return msgspec.json.decode(path.read_bytes(), type=Identity)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise JournalError(f"cannot read {path}: {error.strerror}") from error
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise JournalError(f"{path} does not say whose journal it is; remove it") from error
