"""A producer's transactions: their state, what is sent for them, and what each error leads to. Pure.

Its twin is `kavka.core.transaction`, the coordinator's side.
"""
