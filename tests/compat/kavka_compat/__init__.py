"""Other people's brokers, tools and clients as real processes, for tests and benchmarks.

`apache` runs Apache Kafka's brokers and tools, `ours` runs our broker, both as a `Broker`; `fixtures` hands
them to pytest. `bench/` imports the same modules, so that both sides are started the same way.
"""
