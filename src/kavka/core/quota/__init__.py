"""Quotas of clients (KIP-13, KIP-55, KIP-124, KIP-599, KIP-612): rates, token buckets, and whose limit holds."""
