"""What journals tell, made for people: timelines, sessions, versions, sentences."""
