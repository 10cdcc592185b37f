"""What can be wrong with a journal, each a sentence.

JournalError
  BadRecord       a line is no record
  NewerSchema     written by a newer Routebook, in a way this one would misread
  BadSegment      a sealed segment or its manifest cannot be read
  FolderInUse     another process writes there
"""


class JournalError(Exception):
    """One sentence about a journal that cannot be used."""


class BadRecord(JournalError):
    """A line that is no record."""


class NewerSchema(JournalError):
    """A record of a schema this version would misread."""

    def __init__(self, found: int, known: int) -> None:
        super().__init__(
            f"schema version {found} was written by a newer Routebook; this one reads up to {known}"
        )
        self.found = found
        self.known = known


class BadSegment(JournalError):
    """A sealed segment, or its manifest, that cannot be read."""


class FolderInUse(JournalError):
    """Another process writes the journal; ``pid`` 0 when it did not say."""

    def __init__(self, folder: str, pid: int) -> None:
        who = f"process {pid}" if pid else "another process"
        super().__init__(f"the journal {folder} is written by {who}; one folder serves one node")
        self.folder = folder
        self.pid = pid
