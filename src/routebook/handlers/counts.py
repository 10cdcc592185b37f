"""RequestCounts: how many requests there were of each code, and how they ended.

Plain numbers in lists: they are counted in the path of every request that is not answered from
memory. Those are counted with their topics (``QueryTally``).
"""

from routebook.wire.codes import RequestCode, ResponseCode

SUCCESS, REJECTED, ERROR = 0, 1, 2
RESULTS = ("success", "rejected", "error")
OTHER = 0  # stands for all codes nobody knows

_ANSWERED = frozenset(
    {ResponseCode.SUCCESS, ResponseCode.TOPIC_NOT_EXIST, ResponseCode.QUERY_NOT_FOUND}
)
_KNOWN = frozenset(RequestCode)

Cell = list[int]


class RequestCounts(dict[int, Cell]):
    """A cell for each code that was asked for."""

    def __missing__(self, code: int) -> Cell:
        if code not in _KNOWN:
            if code == OTHER:
                self[code] = [0, 0, 0]
            return self[OTHER]
        cell = self[code] = [0, 0, 0]
        return cell

    def answered(self, code: int, answer: int) -> None:
        """``answer`` is the code of a reply. That there is no such topic is an answer too."""
        self[code][SUCCESS if answer in _ANSWERED else REJECTED] += 1
