"""Transaction markers on their way to the leaders of partitions: which request takes which, and what follows. Pure."""
