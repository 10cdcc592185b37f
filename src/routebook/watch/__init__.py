"""Who wants to hear about which topic, and what each has not been told yet. No I/O, no clock."""
