"""Shared parts of commands that use the admin client: connection, failures, elections, replicas, tables."""
