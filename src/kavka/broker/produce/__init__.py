"""The parts of Produce: the append engine, checks of batches, outcomes, and waiting for the disk and the replicas."""
