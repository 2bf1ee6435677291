"""Load kafka-python once, with the deprecation warning that its import gives on this Python put aside."""

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka  # noqa: F401
