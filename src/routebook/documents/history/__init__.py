"""What is told of the past."""
