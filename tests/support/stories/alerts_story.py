"""Runs a scenario of the rules of alerts over one source: samples in, events out.

    rules YAML...                              begin again with these rules, one line: {alert: A, metric: m, above: 1}
    change YAML...                             go on with other rules, as after a restart of the pipeline
    at TIME NAME[{LABEL=VALUE,...}]=VALUE...   samples of one time (2m30s), which arrive at once; TIME/TIME: then
    pass TIME                                  the pipeline's clock reaches a time at which nothing has come
    state                                      phases, in short

The state goes through JSON after each command, as through Spark's state store.
"""

from __future__ import annotations

import json
import re
from typing import Any

import yaml

from kavka.pipelines.operations.evaluation import Evaluation, Sample, Source
from kavka.pipelines.operations.rules import _duration, parse_rules

SERIES = re.compile(r"([^{=]+)(?:\{([^}]*)\})?=(\S+)")


class Story:
    """One source and what is known of it."""

    def __init__(self) -> None:
        self.rules = parse_rules({"rules": [{"alert": "A", "metric": "m", "above": 10}]})
        self.state: Any = None

    def command(self, line: str) -> str:
        name, _, rest = line.partition(" ")
        output: str = getattr(self, f"do_{name}")(rest)
        return output or "ok"

    def do_rules(self, text: str) -> str:
        self.state = None
        return self.do_change(text)

    def do_change(self, text: str) -> str:
        self.rules = parse_rules(yaml.safe_load(text))
        return ""

    def do_at(self, text: str) -> str:
        times, *words = text.split()
        time, _, arrival = times.partition("/")
        at_ms = _duration(time, "the time")
        samples = []
        for word in words:
            match = SERIES.fullmatch(word)
            assert match is not None, word
            labels = dict(pair.split("=") for pair in (match[2] or "").split(",") if pair)
            samples.append(Sample(at_ms, match[1], float(match[3]), labels))
        evaluation = self.evaluation()
        evaluation.evaluate(samples, _duration(arrival or time, "the arrival"))
        return self.end(evaluation)

    def do_pass(self, text: str) -> str:
        evaluation = self.evaluation()
        evaluation.handle_timer(_duration(text, "the time"))
        return self.end(evaluation)

    def do_state(self, _: str) -> str:
        if self.state is None:
            return "nothing"
        lines = [
            f"{rule} {labels} {found[0]}"
            for rule, known in self.state["rules"].items()
            for labels, found in known.items()
        ]
        lines += [f"{rule} silent" for rule in self.state["silent"]]
        deadline_ms = self.evaluation().deadline_ms()
        assert deadline_ms is not None
        return "\n".join([*lines, f"looks again at {short(deadline_ms)}"])

    def evaluation(self) -> Evaluation:
        return Evaluation(self.rules, Source("a", "s"), self.state)

    def end(self, evaluation: Evaluation) -> str:
        text = json.dumps(evaluation.state)
        self.state = None if evaluation.deadline_ms() is None else json.loads(text)
        lines = []
        for event in evaluation.events:
            facts = {
                name: f"{value:.4g}" if isinstance(value, float) else value
                for name, value in event.facts.items()
                if name not in ("metric", "threshold", "clear")
            }
            shown = " ".join(f"{name}={value}" for name, value in facts.items())
            since, time = short(event.since_ms), short(event.time_ms)
            labels = event.key.split(" ", 2)[2]
            lines.append(f"{event.event} {event.alert} {labels} since={since} time={time} {shown}")
        return "\n".join(lines)


def short(time_ms: int) -> str:
    """Return a time as 2m30s."""
    parts = []
    for size, unit in ((86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1000, "s"), (1, "ms")):
        count, time_ms = divmod(time_ms, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"
