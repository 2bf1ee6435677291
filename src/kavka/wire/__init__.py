"""What bytes mean: messages, frames, record batches, records of internal topics. Pure: no I/O, no clock, no chance."""
