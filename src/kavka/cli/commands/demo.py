"""`kavka demo`: an embedded broker, web traffic and the activity pipeline on Spark, with an audit at the end."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from kavka.demo.broker import BrokerFailed
from kavka.demo.pipeline import PipelineFailed
from kavka.demo.run import REPORT, DemoOptions, run_demo
from kavka.pipelines.project import PipelineError
from kavka.spark.errors import sentence_of
from kavka.spark.session import SparkMissing


def main(arguments: list[str]) -> int:
    """Return 0 when the audit agrees, 1 when it does not or something failed, 130 after Ctrl-C."""
    given = _parser().parse_args(arguments)
    options = DemoOptions(
        access_log=given.access_log,
        duration_s=given.duration,
        seed=given.seed,
        keep=given.keep,
        report=given.report,
    )
    try:
        return run_demo(options)
    except KeyboardInterrupt:
        print("\ninterrupted: everything is stopped and removed", file=sys.stderr)
        return 130
    except (
        SparkMissing,
        PipelineError,
        PipelineFailed,
        BrokerFailed,
        OSError,
        ValueError,
    ) as error:
        print(f"kavka demo: {error}", file=sys.stderr)
        return 1
    except Exception as error:  # noqa: BLE001 - a query of Spark has failed: its sentence is in there somewhere
        print(f"kavka demo: {sentence_of(error) or _first_line(error)}", file=sys.stderr)
        return 1


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="kavka demo",
        description="Start a broker, play web traffic into it, and watch a pipeline on Spark work on it: "
        "the project that `kavka pipelines init --template activity` makes. It ends with an audit and a report.",
        epilog="The exit code is 0 only if records sent, stored, counted and refused agree at the end.",
    )
    parser.add_argument(
        "--access-log",
        type=Path,
        metavar="FILE",
        help="replay this access log (combined format) instead of a generated site",
    )
    parser.add_argument(
        "--duration",
        type=_seconds,
        default=40.0,
        metavar="SECONDS",
        help="play the traffic in this time (default 40)",
    )
    parser.add_argument(
        "--seed", type=int, default=1, help="seed of the generated site (default 1)"
    )
    parser.add_argument("--keep", action="store_true", help="leave the broker running until Ctrl-C")
    parser.add_argument(
        "--report",
        type=Path,
        default=REPORT,
        metavar="FILE",
        help=f"write the report into this file; one that is there is replaced (default {REPORT})",
    )
    return parser


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 86_400:
        raise argparse.ArgumentTypeError(f"{text!r} is no time between 0 and 86400 seconds")
    return seconds
