"""Several nodes side by side: one clock, and when they told clients different things."""
