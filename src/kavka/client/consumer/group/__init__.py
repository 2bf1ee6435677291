"""The consumer as a member of a group: its coordinator, assignors, and the listener of rebalances."""
