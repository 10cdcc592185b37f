"""Tables of intervals: what was true, on which node, from when to when."""
