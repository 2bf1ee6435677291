"""Collectors: log files, host metrics and Prometheus pages become records of a topic.

`record` has the one schema of all of them, `delivery` sends records in transactions, `files` follows log files,
`parsers` take lines apart, `host` and `pages` take samples.
"""
