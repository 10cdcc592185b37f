"""What Spark says of itself is left out, and nothing else."""

import subprocess
import sys

SCRIPT = """
import subprocess
from routebook_spark.commands.spark_noise import without_spark_noise

with without_spark_noise():
    child = subprocess.Popen(["sh", "-c", '''
        echo "WARNING: Using incubator modules: jdk.incubator.vector" >&2
        printf "\\\\r[Stage 1:==>  ]" >&2
        read go
        printf "\\\\rWARN" >&2
        echo "ING: the disk is full" >&2
    '''], stdin=subprocess.PIPE)
print("started", flush=True)
input()
child.communicate(b"go\\n")
input()
"""


def test_a_warning_about_java_is_left_out_and_a_bar_is_shown_at_once() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"started\n"
        bar = process.stderr.read(16)
        process.stdin.write(b"\n")
        rest = process.stderr.readline()
        process.stdin.write(b"\n")
        last = process.stderr.read()
    assert bar == b"\r[Stage 1:==>  ]"
    assert rest == b"\rWARNING: the disk is full\n"
    assert last == b""
