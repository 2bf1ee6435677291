"""Three brokers of Apache Kafka 3.9 and three of kavka on one ZooKeeper, driven in turns (`make bench-cluster`).

`workloads` says what is run, `trio` starts three brokers and counts what they use, `drive` runs one workload, `run`
all of them. The tools, the report and the way of single records are those of `bench/apache`.
"""
