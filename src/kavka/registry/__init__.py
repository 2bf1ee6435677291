"""The cluster's registry: a tree of znodes behind one interface."""
