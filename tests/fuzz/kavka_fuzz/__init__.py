"""A fuzzer that maximises what one request costs the broker: time of the loop in one go, and memory.

`python -m kavka_fuzz --help`; docs/how-to/fuzz.md says how to read what it prints.
"""
