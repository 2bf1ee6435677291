"""Who is there: a tree of znodes behind one interface."""
