"""What can be wrong with a cluster, each a function from a survey to findings."""
