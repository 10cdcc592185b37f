"""What pyproject.toml cannot say: nothing is built without the libraries of the live page."""

from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist
from setuptools.errors import SetupError

PAGE = Path(__file__).parent / "src" / "routebook" / "gateway" / "page"


def refuse_without_assets() -> None:
    """Raises SetupError when a library of the page, or the licences, are not there."""
    lock = (PAGE / "assets.lock").read_text().splitlines()
    lines = [line.split() for line in lock if not line.startswith("#")]
    needed = {pair.partition("=")[2] for line in lines for pair in line[3:]} | {"THIRD-PARTY.txt"}
    missing = sorted(name for name in needed if not (PAGE / "vendor" / name).is_file())
    if missing:
        raise SetupError(
            f"the live page lacks {', '.join(missing)}; run `sh scripts/assets.sh` and build again"
        )


class BuildWithAssets(build_py):
    def run(self) -> None:
        if not self.editable_mode:  # `make install` fetches them itself
            refuse_without_assets()
        super().run()


class SourceWithAssets(sdist):
    def run(self) -> None:
        refuse_without_assets()
        super().run()


setup(cmdclass={"build_py": BuildWithAssets, "sdist": SourceWithAssets})
