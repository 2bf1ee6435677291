"""Wire formats: messages, frames, record batches, records of internal topics. Pure: no I/O, clock or randomness."""
