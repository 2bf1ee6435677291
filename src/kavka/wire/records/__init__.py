"""Record batches of magic 2: headers, compression, records one by one and as columns, a leader's checks.

Pure: bytes in, values or bytes out. Work per record is done by `kernel`, compiled or in Python.
Source: protocol guide, "Record batch"; KIP-98.
"""
