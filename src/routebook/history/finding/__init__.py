"""Journals: which there are, the lines a question needs, and the views they begin with."""
