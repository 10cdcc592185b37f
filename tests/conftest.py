"""Set up for all tests."""

import signal

# A shell that runs the tests in the background has SIGINT ignored, and programs started from here
# would inherit that: those told to stop by Ctrl-C would not.
signal.signal(signal.SIGINT, signal.default_int_handler)
