"""What questions about the past are answered with."""
