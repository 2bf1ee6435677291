"""Pipelines: pure PySpark functions from data frames to data frames, the same on a laptop and on a cluster.

They name no topic, no path and no trigger: the caller reads, writes and starts.
"""
