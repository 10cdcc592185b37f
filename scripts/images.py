"""The pictures of the README: a terminal, and the report of ``make demo``.

    .venv/bin/python scripts/images.py [--report report.html]

The terminal shows what the program prints now. The report is photographed by Chromium; without
``--report`` that picture stays as it is.
"""

import argparse
import io
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROUTEBOOK = str(Path(sys.executable).with_name("routebook"))
IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
WIDTH, HEIGHT = 1200, 1180
SHORTENED = "#quality, #witnesses, #availability { display: none }"
COLUMNS = 100
SHOWN = (
    "routebook route topic-0001 -n 127.0.0.1:9876",
    "routebook drain broker-1 -n 127.0.0.1:9876",
    "routebook history explain broker-1 -n 127.0.0.1:9876",
)


def started(*words: str, folder: Path, ready: str) -> tuple[subprocess.Popen[bytes], str]:
    """A program that runs on, and what it has printed when it was ready."""
    output = folder / f"{words[0]}.log"
    with output.open("wb") as file:
        program = subprocess.Popen(
            [ROUTEBOOK, *words], stdout=file, stderr=subprocess.DEVNULL, cwd=folder
        )
    while ready not in output.read_text():
        if program.poll() is not None:
            raise SystemExit(f"routebook {words[0]} ended: {output.read_text()}")
        time.sleep(0.1)
    return program, output.read_text()


def ended(program: subprocess.Popen[bytes]) -> None:
    if program.poll() is None:
        program.send_signal(signal.SIGINT)
    program.wait(30)


def printed(command: str, port: str) -> str:
    words = command.replace(":9876", f":{port}").split()[1:]
    environment = {**os.environ, "COLUMNS": str(COLUMNS), "FORCE_COLOR": "1"}
    ran = subprocess.run(
        [ROUTEBOOK, *words], capture_output=True, text=True, env=environment, check=True
    )
    return ran.stdout.replace(f":{port}", ":9876")


def take_terminal(folder: Path) -> None:
    """A node, three brokers that are killed, and what is asked about them."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    files = ("--data-dir", str(folder), "--node-id", "ns-1")
    options = ("--listen-port", "0", "--gateway-port", "0", *files)
    node, said = started("serve", *options, folder=folder, ready="ready on")
    try:
        port = said.partition("0.0.0.0:")[2].split()[0]
        nodes = ("-n", f"127.0.0.1:{port}")
        faults = ("--brokers", "3", "--topics", "5", "--kill")
        brokers, _ = started("simulate", *nodes, *faults, folder=folder, ready="broker-2 up")
        try:
            for command in SHOWN:
                if "history" in command:
                    ended(brokers)
                console.print(Text("$ ", style="bold green") + Text(command, style="bold"))
                console.print(Text.from_ansi(printed(command, port)))
        finally:
            ended(brokers)
    finally:
        ended(node)
    picture = console.export_svg(title="routebook")
    # The fonts of the reader's machine do, and nobody is asked for others.
    picture = re.sub(r"@font-face \{.*?\}\n", "", picture, flags=re.DOTALL)
    (IMAGES / "terminal.svg").write_text(picture)


def take_report(page: Path) -> None:
    found = [path for name in BROWSERS if (path := shutil.which(name))]
    if not found:
        raise SystemExit("no Chromium to take a picture of the report with")
    picture = IMAGES / "report.png"
    # The head of the page and its worst incidents fit on one screen, without what is between them.
    shortened = page.with_name("shortened.html")
    shortened.write_text(page.read_text().replace("</head>", f"<style>{SHORTENED}</style></head>"))
    options = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars")
    size = f"--window-size={WIDTH},{HEIGHT}"
    subprocess.run(
        [found[0], *options, size, f"--screenshot={picture}", shortened.resolve().as_uri()],
        check=True,
        capture_output=True,
    )
    shortened.unlink()


def main() -> None:
    parser = argparse.ArgumentParser(description="Make the pictures of the README.")
    parser.add_argument("--report", type=Path, help="the page that `make demo` wrote")
    report = parser.parse_args().report
    IMAGES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        take_terminal(Path(folder))
    if report is not None:
        take_report(report)


if __name__ == "__main__":
    main()
