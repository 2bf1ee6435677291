"""Replication: fetching from leaders, serving followers, and the in-sync set."""
