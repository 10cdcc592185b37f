"""The commands of ``routebook spark``."""
