"""Routebook: a NameServer for Apache RocketMQ.

``routebook.app`` builds a node, ``routebook.wire`` speaks the remoting protocol
without doing any input or output, ``routebook.state`` is what a node knows.
"""

__version__ = "0.1.0"
