"""Pipelines as code: projects of Spark's declarative pipelines, checked, run once, kept running, and watched.

A project is a folder with `spark-pipeline.yml` and transformations in Python and SQL, as Spark defines it: the stock
`spark-pipelines run` runs it, too. Here is what Spark's open source lacks: flows that stay live, checks against the
brokers, progress and lag.

Transformations use its expectations: `from kavka.pipelines import expect, expect_or_drop, expect_or_fail, quarantine`,
and `dead_letter`.
"""

from kavka.pipelines.dead_letters import dead_letter
from kavka.pipelines.expectations import (
    expect,
    expect_all,
    expect_all_or_drop,
    expect_all_or_fail,
    expect_or_drop,
    expect_or_fail,
    quarantine,
    quarantine_all,
)

__all__ = [
    "dead_letter",
    "expect",
    "expect_all",
    "expect_all_or_drop",
    "expect_all_or_fail",
    "expect_or_drop",
    "expect_or_fail",
    "quarantine",
    "quarantine_all",
]
