"""How hard property tests try: the same examples every time, unless asked for more.

``FUZZ_EXAMPLES=20000 pytest tests/property`` tries that many new ones.
"""

import os

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st


def examples(count: int) -> settings:
    wanted = os.environ.get("FUZZ_EXAMPLES")
    return settings(
        max_examples=int(wanted or count),
        derandomize=wanted is None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )


@st.composite
def overwritten(draw: st.DrawFn, valid: st.SearchStrategy[bytes]) -> bytes:
    """Valid bytes with one stretch overwritten: pure noise dies at the first check."""
    data = draw(valid)
    start, noise = draw(st.integers(0, len(data))), draw(st.binary(min_size=1, max_size=8))
    return data[:start] + noise + data[start + len(noise) :]


@st.composite
def cut(draw: st.DrawFn, data: bytes) -> list[bytes]:
    """``data`` in pieces, as a network might deliver it."""
    ends = sorted(draw(st.lists(st.integers(0, len(data)), max_size=12)))
    return [data[start:end] for start, end in zip([0, *ends], [*ends, len(data)], strict=True)]


def json_values(max_leaves: int = 20) -> st.SearchStrategy[object]:
    leaves: st.SearchStrategy[object] = (
        st.none()
        | st.booleans()
        | st.integers(-(2**63), 2**63 - 1)
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text()
    )
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=max_leaves,
    )
