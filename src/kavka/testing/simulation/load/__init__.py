"""Who uses the broker of a run: programs on client nodes that tell the checker what they see."""
