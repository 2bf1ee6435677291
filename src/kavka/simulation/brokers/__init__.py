"""A whole cluster from one seed: three to five brokers, their registry and controller, their clients, a nemesis.

Brokers, clients and registry are the product's own code, unchanged. `docs/explanation/simulation.md` says what may fail
and what must hold.
"""
