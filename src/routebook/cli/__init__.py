"""The program ``routebook``."""
