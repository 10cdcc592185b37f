"""What is told of the guard of a node."""

from routebook.audit.health import Guard
from routebook.words import span


def why_held(guard: Guard) -> str:
    return (
        f"{guard.silent} of {guard.live} brokers silent within {span(guard.window_ms)},"
        f" more than {guard.limit}"
    )
