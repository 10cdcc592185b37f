"""What can be wrong with a run of the pipeline, each a sentence that says what to do.

PipelineError
  NoSuchFolder      a folder of journals is not there
  NotAFolder        it is a file
  TablesInUse       another ingest writes the same tables
  SegmentVanished   a segment went away while it was read
  SparkNotStarted   Java, memory or jars are not as Spark needs them
    BadMemory
    NoMaster        nobody is there to run it
  NoTables          nothing was ever ingested where the tables are looked for
"""

__all__ = ["PipelineError"]


class PipelineError(Exception):
    """One sentence about a run that cannot go on."""


class NoSuchFolder(PipelineError):
    """A folder of journals that is not there, or a pattern that fits none."""

    def __init__(self, folder: str) -> None:
        super().__init__(
            f"there is no folder {folder}; name the journal folder of a node, a folder with such"
            " folders in it, or a pattern like '/data/*/journal'"
        )
        self.folder = folder


class NotAFolder(PipelineError):
    """A file where a folder of journals was expected."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} is a file; name the folder it is in")
        self.path = path


class TablesInUse(PipelineError):
    """Two runs of the ingest write the same tables."""

    def __init__(self, tables: str) -> None:
        super().__init__(
            f"another ingest writes into {tables}; wait until it is done, or give it these folders"
            " as well"
        )
        self.tables = tables


class SegmentVanished(PipelineError):
    """A file that was there a moment ago."""

    def __init__(self) -> None:
        super().__init__(
            "a file went away while it was read: run the ingest again, it goes on where it was"
        )


class NoTables(PipelineError):
    """A folder in which no ingest has ever written a table."""

    def __init__(self, tables: str) -> None:
        super().__init__(
            f"there are no tables in {tables}; name the folder that `routebook spark ingest`"
            " wrote into, or ingest journals first"
        )
        self.tables = tables


class SparkNotStarted(PipelineError):
    """There is no Spark to work with."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"Spark did not start: {reason}")
        self.reason = reason


class BadMemory(SparkNotStarted):
    """A size that Spark cannot begin with."""

    def __init__(self, memory: str, least_mb: int) -> None:
        super().__init__(
            f"{memory} is no memory it can work with; give it {least_mb}m or more, such as"
            " --memory 2g"
        )
        self.memory = memory


class NoMaster(SparkNotStarted):
    """A master that does not answer, or is none."""

    def __init__(self, master: str, reason: str) -> None:
        super().__init__(
            f"no master answers at {master} ({reason}); without --master it runs on this machine"
        )
        self.master = master
