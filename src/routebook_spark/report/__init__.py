"""One page of what the tables say."""
