"""Looking at a whole cluster through all of its NameServers: what differs, what is wrong."""
