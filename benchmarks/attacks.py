"""What strangers can do to a NameServer: each attack on a fresh Routebook and a fresh Java one.

    python -m benchmarks.attacks [--quick] [--attacks 217,closing] [--servers routebook,java]

A bystander asks for the route of one topic, the next question as soon as the answer is there, while
others, of another address, attack. Told of each: the bystander's longest wait, how often it was
cut off, the most memory the server took, what it wrote to files, and how the attack ended.

Routebook is told a ``memoryLimit`` of 3 GiB, the default where there are 4; Java has a heap of
1 GiB, and as much outside of it at most. A server that takes 6 GB is ended.
"""

import argparse
import signal
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from benchmarks.attack_cases import BYSTANDER_TOPIC, Attack, attacks, register
from benchmarks.attackers import (
    Attacker,
    ServerGone,
    Witness,
    last_remark,
    outcome,
    play,
    written_bytes,
)
from benchmarks.frames import UnexpectedAnswer, ask, connect
from benchmarks.records import add_places, note, save
from benchmarks.rows import REAL_SERVERS
from benchmarks.servers import JAVA_HEAP, CannotRun, Launcher, two_cores
from benchmarks.wait_cases import Scale, body

MEMORY_LIMIT = 3 << 30
ADDRESS_SPACE_KB = 8 << 20
WARM_S, QUIET_S, AFTER_S = 1.0, 0.5, 0.5
SETTINGS = {"MEMORY_LIMIT": str(MEMORY_LIMIT), "JOURNAL_RETAIN_MEGABYTES": "50"}


@dataclass(slots=True)
class Result:
    """Of one attack on one server; ``ended`` says how, in words."""

    wait_ms: float = 0.0
    loop_cpu_ms: float | None = None  # Routebook's loop, between question and answer
    noise_ms: float = 0.0
    cut_off: int = 0
    peak_mb: float = 0.0
    written_mb: float = 0.0
    stage: str = ""  # how what came before it ended
    ended: str = ""
    remark: str = ""  # what those were told who were refused


def begun_by(name: str, attack: Attack) -> list[str]:
    """The bounds a server starts in.

    A JVM reserves more addresses than it ever uses: its heap is its bound.
    """
    limits = [f"ulimit -n {attack.files}"] if attack.files is not None else []
    limits += [f"ulimit -v {ADDRESS_SPACE_KB}"] if name != "java" else []
    return ["sh", "-c", "; ".join([*limits, 'exec "$@"']), "sh"]


def attacked(launcher: Launcher, name: str, attack: Attack) -> Result:
    """Play ``attack`` to a fresh server; whatever goes wrong is how it ended."""
    result = Result()
    waves = attack.waves()
    try:
        server = launcher.start(
            name,
            settings=SETTINGS,
            pairs=attack.pairs() if attack.pairs is not None else None,
            begun_by=begun_by(name, attack),
        )
    except CannotRun as error:
        result.ended = f"failed: {str(error).splitlines()[0]}"
        return result
    try:
        broker = connect(server.port)
        # Two topics: a broker that begins with a single one is refused.
        ask(broker, register(BYSTANDER_TOPIC, body([BYSTANDER_TOPIC, "another"])))
        witness = Witness(server)
        witness.watch_for(WARM_S)
        witness.begin_anew()
        witness.watch_for(QUIET_S)
        result.noise_ms = witness.waits.longest_ns / 1e6
        witness.begin_anew()
        written = written_bytes(server)
        open_still: list[Attacker] = []
        try:
            for wave in waves:
                attackers = play(server, wave, witness)
                open_still += attackers
                if not wave.counts:
                    result.stage = outcome(attackers)
                    witness.begin_anew()
                else:
                    result.ended = outcome(attackers, reads=wave.reads)
                    result.remark = last_remark(attackers)
                if wave.then_closes:
                    for attacker in attackers:
                        attacker.connection.close()
            witness.watch_for(AFTER_S)  # what is done when the answers are given counts too
            result.written_mb = (written_bytes(server) - written) / 1e6
        finally:
            result.wait_ms = witness.waits.longest_ns / 1e6
            if name != "java":
                result.loop_cpu_ms = witness.waits.longest_cpu_ns / 1e6
            result.cut_off = witness.cut_off
            result.peak_mb = witness.peak_mb
            for attacker in open_still:
                attacker.connection.close()
            witness.connection.close()
        broker.close()
    except (ServerGone, UnexpectedAnswer, OSError, LookupError, ValueError) as error:
        result.ended = "; ".join(filter(None, [result.ended, f"failed: {error}"]))
    finally:
        server.kill()  # how long it takes to stop is no question here
    return result


TITLES = (
    "longest wait, ms",
    "noise",
    "loop's CPU",
    "cut off",
    "memory, MB",
    "written, MB",
    "ended",
)


def cells(result: Result) -> Iterator[str]:
    yield f"{result.wait_ms:,.1f}"
    yield f"{result.noise_ms:,.1f}"
    yield "-" if result.loop_cpu_ms is None else f"{result.loop_cpu_ms:,.1f}"
    yield str(result.cut_off or "no")
    yield f"{result.peak_mb:,.0f}"
    yield f"{result.written_mb:,.1f}"
    yield result.ended


def markdown(results: dict[str, dict[str, Result]]) -> Iterator[str]:
    """A line for each attack and server."""
    yield f"| attack | server | {' | '.join(TITLES)} |"
    yield "|---" * (2 + len(TITLES)) + "|"
    for title, by_server in results.items():
        for number, (name, result) in enumerate(by_server.items()):
            yield f"| {'' if number else title} | {name} | {' | '.join(cells(result))} |"


def main(arguments: Sequence[str] | None = None) -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # servers are stopped on the way out
    parser = argparse.ArgumentParser(description="Attack a NameServer, and time a bystander.")
    parser.add_argument("--quick", action="store_true", help="a fiftieth of everything")
    parser.add_argument(
        "--attacks", default="", help="only those whose titles contain one of these"
    )
    parser.add_argument("--servers", default=",".join(REAL_SERVERS), help="default: %(default)s")
    add_places(parser)
    options = parser.parse_args(arguments)
    words = [word for word in options.attacks.split(",") if word]
    results: dict[str, dict[str, Result]] = {}
    try:
        launcher = Launcher(two_cores(), options.python, options.java_jars, options.before)
    except CannotRun as error:
        note(str(error))
        return 2
    for attack in attacks(Scale(50 if options.quick else 1)):
        if words and not any(word in attack.title for word in words):
            continue
        for name in options.servers.split(","):
            result = attacked(launcher, name, attack)
            results.setdefault(attack.title, {})[name] = result
            note(
                f"{attack.title}, {name}: {result.wait_ms:,.1f} ms (noise {result.noise_ms:,.1f}),"
                f" {result.peak_mb:,.0f} MB, written {result.written_mb:,.1f} MB,"
                f" {result.ended} {result.remark}"
            )
    print("\n".join(markdown(results)))
    if not options.quick:
        told = {
            title: {name: asdict(result) for name, result in by_server.items()}
            for title, by_server in results.items()
        }
        conditions = {"java_heap": " ".join(JAVA_HEAP), "memory_limit": MEMORY_LIMIT}
        note(f"every figure: {save('attacks', conditions, told)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
