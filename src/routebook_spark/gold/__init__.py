"""Tables that answer questions: one module each."""
