"""The format ``routebook`` of Spark: running nodes, and journals as they are written."""
