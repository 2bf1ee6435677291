"""Storage: the directories, file names and bytes of Apache Kafka 3.9.

`disk` is the real door. A `Log` (`log`) is one partition's directory: segments (`segment`) with their sparse
indexes, the leader epochs, the producers' state. `log_loading` opens it and recovers it after a crash. A
`LogDirectory` is one entry of `log.dirs` and the unit of failure; a `LogStore` knows all of them.
"""
