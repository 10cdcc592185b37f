"""Asking NameServers."""
