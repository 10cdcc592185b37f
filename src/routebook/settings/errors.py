"""What is raised for settings a node cannot start with."""


class SettingsError(Exception):
    """One sentence about a value, or a combination, that a node cannot start with."""
