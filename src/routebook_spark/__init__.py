"""What the journals of all nodes tell together: tables, questions, alerts and reports on Spark.

As in ``routebook``, each name is loaded when it is first used.
"""

from typing import TYPE_CHECKING

from routebook.lazy import attribute_of

if TYPE_CHECKING:
    from routebook_spark.errors import *
    from routebook_spark.questions import *
    from routebook_spark.session import *
    from routebook_spark.source.datasource import *
    from routebook_spark.tables import *

__all__ = ["Lake", "PipelineError", "Routebook", "build_session", "register"]

if not TYPE_CHECKING:  # to a type checker, any name would be one of ours
    _HOMES = ("errors", "session", "tables", "source.datasource", "questions")
    __getattr__ = attribute_of(__name__, [f"{__name__}.{home}" for home in _HOMES], __all__)


def __dir__() -> list[str]:
    return __all__
