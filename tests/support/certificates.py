"""Certificates for tests, made by the ``openssl`` command."""

import ssl
import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Identity:
    """A certificate and its key, PEM files."""

    cert: Path
    key: Path

    @property
    def der(self) -> bytes:
        return ssl.PEM_cert_to_DER_cert(self.cert.read_text())


def authority(folder: Path, name: str) -> Identity:
    """A self-signed certificate authority."""
    made = Identity(folder / f"{name}.pem", folder / f"{name}.key")
    subject = ["-subj", f"/CN={name}", "-days", "2"]
    extensions = ["-addext", "basicConstraints=critical,CA:TRUE"]
    _openssl("req", "-x509", *_new_key(made.key), *subject, *extensions, "-out", made.cert)
    return made


def identity(folder: Path, name: str, signed_by: Identity) -> Identity:
    """A certificate for localhost, good for servers and clients."""
    made = Identity(folder / f"{name}.pem", folder / f"{name}.key")
    wish, extensions = folder / f"{name}.csr", folder / f"{name}.ext"
    extensions.write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    _openssl("req", *_new_key(made.key), "-subj", f"/CN={name}", "-out", wish)
    signer: list[str | Path] = ["-CA", signed_by.cert, "-CAkey", signed_by.key, "-CAcreateserial"]
    content: list[str | Path] = ["-days", "2", "-extfile", extensions]
    _openssl("x509", "-req", "-in", wish, *signer, *content, "-out", made.cert)
    return made


def _new_key(path: Path) -> list[str | Path]:
    return ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", path]


def _openssl(*words: str | Path) -> None:
    done = subprocess.run(
        ["openssl", *map(str, words)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
