"""What is told of the past, of routes and of nodes, as JSON: the same on every way out."""
