"""Decisions as pure machines and tables: no I/O, no clock, no random numbers."""
