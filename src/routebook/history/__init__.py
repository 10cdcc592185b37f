"""Questions about the past, answered from journals."""
