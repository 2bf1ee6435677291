"""Storage: the directories, file names and bytes of Apache Kafka 3.9.

Imports go downward only:

store | compaction    all logs of a broker; the cleaner's pass over one log
log                   one partition's directory: segments, leader epochs, the producers' state
directory             one entry of `log.dirs`, the unit of failure
segment               a log file with its sparse indexes, and its recovery
checkpoint | disk     small files that are replaced whole; `io.Disk` of the operating system
"""
