"""For tests: the simulation of whole brokers, and fixtures for users. Nothing in the product imports this package."""
