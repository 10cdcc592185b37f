"""What the gateway answers under /v1: what nodes know now, what happens, and what was."""
