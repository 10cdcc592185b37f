"""ETags of documents: another one for another content, the same one as time passes."""

import pytest

from routebook.gateway.api.content import encode_document, etag_of


@pytest.mark.parametrize(
    ("before", "after", "same"),
    [
        pytest.param({"age_ms": 1, "topics": 3}, {"age_ms": 999, "topics": 3}, True, id="age"),
        pytest.param({"left_ms": 1}, {"left_ms": 2}, True, id="countdown"),
        pytest.param({"ping_ms": 0.5}, {"ping_ms": 1e-05}, True, id="fraction"),
        pytest.param({"age_ms": None}, {"age_ms": 5}, False, id="unknown-becomes-known"),
        pytest.param({"heard_ms": 1}, {"heard_ms": 2}, False, id="a-heartbeat-tells-something"),
        pytest.param({"text": '"age_ms":1'}, {"text": '"age_ms":2'}, False, id="only-in-a-text"),
        pytest.param({"topics": 3}, {"topics": 4}, False, id="content"),
    ],
)
def test_an_etag_stands_for_what_is_said(
    before: dict[str, object], after: dict[str, object], same: bool
) -> None:
    tags = [etag_of(encode_document(document)) for document in (before, after)]
    assert (tags[0] == tags[1]) is same
