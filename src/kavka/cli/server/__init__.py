"""Processes of servers: start, signals, daemons, workers and their supervisor."""
