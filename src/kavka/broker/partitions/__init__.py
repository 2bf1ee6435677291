"""The partitions that this broker has a replica of: roles, reads, high watermarks, traffic, cleaning."""
