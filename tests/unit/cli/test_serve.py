import re

from click.testing import CliRunner

from routebook.cli.serve import serve
from routebook.settings import KEYS


def test_help_shows_every_setting_that_does_something_with_its_default() -> None:
    text = " ".join(CliRunner().invoke(serve, ["--help"]).output.split())
    shown = [key for key in KEYS.values() if not key.ignored]
    for key in shown:
        found = re.search(rf"\({re.escape(key.name)}\)( \[default: (\S+)\])?", text)
        assert found is not None, key.name
        assert (found[2] or "") == key.default
        assert key.flags[0] in text
    assert len(shown) > 60
