"""Metrics of clients in Kafka's names, and reporters of them.

The clients count per request, batch and poll, never per record; values are put together when they are asked for.
"""
