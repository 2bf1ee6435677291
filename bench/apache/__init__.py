"""Apache Kafka 4.1 and kavka side by side, driven by Apache Kafka's own performance tools (`make bench`).

`workloads` says what is run, `drive` runs one of them, `lifecycle` measures starts, idling and memory, `latency` single
records, `report` prints medians and ratios. `perf_tools`, `report`, `results` and `latency` serve `bench/cluster`
as well.
"""
