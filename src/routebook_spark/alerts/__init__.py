"""Alerts: what is going wrong by what nodes write down, raised once and resolved once.

facts.py        events as rows for the bucket that watches them (expressions of Spark)
processor.py    one bucket in Spark's state store
alert_rules.py  goes through the facts of a bucket in order; everything below is plain Python
bucket_state.py what a bucket knows of nodes and brokers
ledger.py       which alerts are open
nodes.py brokers.py folders.py                   what the facts say of them
waking.py skew.py    when a node was no witness, and when two clocks cannot be compared
flapping.py heartbeats.py divergence.py mass_loss.py size.py unknown_topics.py   a kind each
sinks.py        where alerts go
protobuf.py     what the state store needs
"""
