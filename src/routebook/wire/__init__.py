"""Bytes to commands and back, without sockets, clocks or logs."""
