"""Metrics: timings, families of samples, Prometheus' text, facts of the process.

Owners count in plain integers of their own; this package runs only during a scrape.
"""
