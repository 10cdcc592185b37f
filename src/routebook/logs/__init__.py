"""Log lines of long-running programs: how one looks, how many there may be, and who writes them."""
