"""Collectors: log files, host metrics, Prometheus pages and lag of groups as records of a topic.

`record` has their schema, `delivery` sends records in transactions, `files` tails log files,
`parsers` parse events, `sampler` sends samples of `host`, `pages` and `groups`.
"""
