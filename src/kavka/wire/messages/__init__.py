"""The messages of the protocol: one module per API, each with its request and its response.

A class stands for all versions of its message; every field says in which versions it exists. `kavka.wire.apis` imports
a module when its API is first used. Source of all of them: the protocol guide, as of Apache Kafka 3.9.
"""
