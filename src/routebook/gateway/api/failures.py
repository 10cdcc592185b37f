"""Failures of the API: a status, a word for programs and a sentence for people."""

from starlette.responses import Response

from routebook.gateway.answers import error_answer


class Failure(Exception):
    """What is answered instead; ``retry_after_s`` is when it may be asked again."""

    def __init__(
        self, status: int, code: str, sentence: str, *, retry_after_s: int | None = None
    ) -> None:
        super().__init__(sentence)
        self.status = status
        self.code = code
        self.retry_after_s = retry_after_s

    def answer(self) -> Response:
        return error_answer(
            self.status, str(self), code=self.code, retry_after_s=self.retry_after_s
        )


def bad_parameter(sentence: str) -> Failure:
    return Failure(400, "bad_parameter", sentence)


def not_found(code: str, sentence: str) -> Failure:
    return Failure(404, code, sentence)
