"""Sizes of records, growing logs and backlogs, the floor of processor time, and a cold reader (`make bench-load`).

`sizes` produces and consumes records of 10 bytes to 1 MB, `backlog` is LinkedIn's scenario, `floor` compares brokers
with a loop in C that makes the same system calls (`floor.c`), `cold` measures latency beside a reader of 4 GB.
"""
