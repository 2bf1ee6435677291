"""The part of Fetch that consumers use: reading partitions within the limits of a request."""
