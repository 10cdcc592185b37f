"""What a node knows. Synchronous, owned by one caller, told the time."""
