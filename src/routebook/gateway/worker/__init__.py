"""Work that takes long, in a process of its own: questions about the past, looks at all nodes."""
