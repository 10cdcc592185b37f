"""Journals of nodes, taken into typed tables."""
