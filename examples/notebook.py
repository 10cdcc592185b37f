"""The past of a cluster, cell by cell.

Open it as a notebook (VS Code, PyCharm and Jupytext know ``# %%``), or run it:

    ROUTEBOOK_TABLES=/data/tables python examples/notebook.py

The tables are those of ``routebook spark ingest`` and ``routebook spark build``. The last two cells
ask running nodes (``NAMESRV_ADDR``) and follow journals (``ROUTEBOOK_JOURNALS``), if these are set.
"""

# %% Spark, and the tables
import os
from datetime import timedelta

from pyspark.sql import functions as F

from routebook_spark import Lake, Routebook, build_session, register

spark = build_session("notebook")
book = Routebook(Lake(spark, os.environ["ROUTEBOOK_TABLES"]))

# %% Of which time do the nodes tell?
coverage = book.table("node_coverage")
coverage.groupBy("node").agg(
    F.min("from_at").alias("from_at"), F.max("to_at").alias("to_at"), F.count("*").alias("runs")
).orderBy("node").show(truncate=False)

# %% A topic, and a time at which it was there: the one most brokers have had
versions = book.table("route_versions")
by_topic = versions.groupBy("topic").agg(
    F.count_distinct("broker").alias("brokers"), F.max("valid_from").alias("at")
)
asked = by_topic.orderBy(F.desc("brokers"), "topic").first()
assert asked is not None, "no node ever had a route"
topic, at = asked.topic, asked.at

# %% What did each node tell its clients then?
book.route(topic, at).select(
    "node", "told", "broker", "addrs", "read_queues", "write_queues", "perm", "since"
).orderBy("node", "broker").show(truncate=False)

# %% The same for many topics and times at once: every topic, when it last changed
moments = by_topic.select("topic", "at")
answers = book.routes_at(moments).cache()  # for this cell and the next
answers.groupBy("told").count().show()

# %% Where did nodes tell different things at the same time?
told = (
    answers.where("known")
    .groupBy("topic", "at", "node")
    .agg(F.sort_array(F.collect_set(F.struct("broker", "write_queues", "perm"))).alias("route"))
)
told.groupBy("topic", "at").agg(F.count_distinct("route").alias("routes")).where("routes > 1").show(
    truncate=False
)

# %% What was different an hour later?
book.diff(at, at + timedelta(hours=1)).select(
    "node", "cluster", "broker", "topic", "change", "what"
).orderBy("node", "broker", "topic").show(truncate=False)

# %% What happened to one of its brokers?
broker = versions.where(F.col("topic") == topic).agg(F.min("broker")).first()
assert broker is not None
book.explain_broker(broker[0]).select("at", "node", "sentence").show(truncate=False)

# %% What do running nodes say now?
if "NAMESRV_ADDR" in os.environ:
    register(spark)
    nodes = os.environ["NAMESRV_ADDR"]
    live = spark.read.format("routebook").option("nameservers", nodes).load()
    live.select("node", "topic", "broker", "addrs", "write_queues").show(truncate=False)

# %% And what are they writing down?
if "ROUTEBOOK_JOURNALS" in os.environ:
    register(spark)
    events = spark.readStream.format("routebook").load(os.environ["ROUTEBOOK_JOURNALS"])
    counts = events.groupBy("node", "type").count()
    query = (
        counts.writeStream.format("memory")
        .queryName("counts")
        .outputMode("complete")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.table("counts").orderBy("node", "type").show(truncate=False)
