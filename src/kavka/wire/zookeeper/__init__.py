"""ZooKeeper's own protocol: what clients and servers of a registry say to each other.

`jute` has the types and the codec, `messages` the records, which serve both sides.
"""
