"""End text files with one newline, and their lines without blanks; exit 1 when one had to change.

.venv/bin/python scripts/file_ends.py FILE...
"""

import re
import sys
from pathlib import Path


def mended(text: str) -> str:
    stripped = re.sub(r"[ \t\r]+$", "", text, flags=re.MULTILINE).rstrip("\n")
    return stripped + "\n" if stripped else ""


def main() -> None:
    changed = 0
    for path in map(Path, sys.argv[1:]):
        text = path.read_bytes().decode()
        if text != mended(text):
            path.write_bytes(mended(text).encode())
            print(f"{path}: mended its ends")
            changed += 1
    sys.exit(changed > 0)


if __name__ == "__main__":
    main()
