"""Real brokers and clients in one process, over simulated I/O that is determined by a seed.

The product's own shells, handlers, codec and storage run unchanged; only clock, random, disk and network are others.
Time is virtual, so hours pass in seconds, and everything that happens follows from one number.
`docs/explanation/simulation.md` says what may fail, and how a failing seed is replayed.
"""
