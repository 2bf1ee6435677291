"""Metrics: timings, families of samples, Prometheus' text, facts of the process.

Owners count in plain integers of their own; nothing here runs until somebody asks for the page.
"""
