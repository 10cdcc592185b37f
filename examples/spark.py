"""Ask the tables of the pipeline, and running nodes, from Spark.

python examples/spark.py /data/tables orders 2026-11-15T03:12:00Z 10.0.0.1:9876

The tables are those of ``routebook spark ingest`` and ``routebook spark build``.
"""

import sys

from routebook_spark import Lake, Routebook, build_session, register

tables, topic, at, nameservers = sys.argv[1:]
spark = build_session("example")
book = Routebook(Lake(spark, tables))

# What each node told its clients at that time, and what became of its brokers in all.
book.route(topic, at).select("node", "told", "broker", "addrs", "write_queues").show(truncate=False)
book.table("broker_sessions").groupBy("node", "broker", "cause").count().show()

# What running nodes say now: a query of Spark like any other.
register(spark)
live = spark.read.format("routebook").option("nameservers", nameservers).load()
live.where(live.topic == topic).select("node", "broker", "addrs").show(truncate=False)
