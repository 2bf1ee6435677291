"""The parts of Produce: checks of batches, outcomes, and waiting for the disk and the replicas."""
