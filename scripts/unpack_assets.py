"""Check the packages that ``scripts/assets.sh`` fetched, and unpack what the page needs of them.

python scripts/unpack_assets.py FOLDER-WITH-PACKAGES assets.lock vendor
"""

import hashlib
import sys
import tarfile
from pathlib import Path

LICENSES = ("LICENSE", "LICENSE.md", "LICENSE.txt")


def unpack(fetched: Path, line: str, vendor: Path) -> str:
    """Put the files of one line of the lock into ``vendor``; what its licence says.

    Raises SystemExit for a package that is not the one of the line.
    """
    name, version, sha512, *files = line.split()
    package = fetched / f"{name.removeprefix('@').replace('/', '-')}-{version}.tgz"
    found = hashlib.sha512(package.read_bytes()).hexdigest()
    if found != sha512:
        raise SystemExit(
            f"{name} {version} is not what assets.lock says: sha512 {found}; do not use it, and ask"
            " who published it"
        )
    with tarfile.open(package) as archive:
        for pair in files:
            inside, _, outside = pair.partition("=")
            (vendor / outside).write_bytes(content(archive, inside))
        names = set(archive.getnames())
        [license_file] = [each for each in LICENSES if f"package/{each}" in names]
        text = content(archive, license_file).decode()
    head = f"{name} {version}\n{'=' * len(f'{name} {version}')}\n"
    outsides = ", ".join(pair.partition("=")[2] for pair in files)
    return f"{head}\nFiles: {outsides}\n\n{text.strip()}\n"


def content(archive: tarfile.TarFile, name: str) -> bytes:
    file = archive.extractfile(f"package/{name}")
    assert file is not None, name
    return file.read()


def main() -> None:
    fetched, lock, vendor = map(Path, sys.argv[1:])
    vendor.mkdir(exist_ok=True)
    lines = [line for line in lock.read_text().splitlines() if not line.startswith("#")]
    licences = [unpack(fetched, line, vendor) for line in lines]
    (vendor / "THIRD-PARTY.txt").write_text(
        "The live page is made with these libraries, unchanged.\n\n" + "\n\n".join(licences)
    )


if __name__ == "__main__":
    main()
