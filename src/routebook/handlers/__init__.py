"""One function per request code: wire in, state called, wire out."""
