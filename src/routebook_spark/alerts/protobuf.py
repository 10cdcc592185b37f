"""Protobuf: what Spark's Python workers speak with the state store, and PySpark does not require.

Without it, or with one older than Spark's messages, a worker ends and Spark says that it crashed.
"""

import importlib

from routebook_spark.errors import PipelineError

_VERSIONS = "google.protobuf.runtime_version"
_MESSAGES = "pyspark.sql.streaming.proto.StateMessage_pb2"


class NoProtobuf(PipelineError):
    """Python's protobuf is missing, or too old for this version of Spark."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"protobuf {reason}; `pip install --upgrade 'routebook[spark]'` brings the right one"
        )


def check_protobuf() -> None:
    """Raises NoProtobuf; says nothing of a PySpark that is missing itself."""
    try:
        too_old = importlib.import_module(_VERSIONS).VersionError
    except ImportError as error:
        raise NoProtobuf("is not installed, or too old for Spark's state store") from error
    try:
        importlib.import_module(_MESSAGES)
    except too_old as error:
        raise NoProtobuf("is too old for Spark's state store") from error
    except ModuleNotFoundError as error:
        if error.name != "pyspark":
            raise
