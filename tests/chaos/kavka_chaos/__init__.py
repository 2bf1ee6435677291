"""Chaos on a cluster of real processes: faults drawn from a seed, under a recorded load, judged by the history checker.

`python -m kavka_chaos --help`; docs/reference/testing.md says how to read what it prints.
"""
