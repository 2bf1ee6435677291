"""The table at the end."""

from __future__ import annotations

from collections.abc import Mapping

from kavka_chaos.rounds import Outcome

_LOST = ("lost-write", "vanished-read")
_DUPLICATED = ("duplicate",)
_OUT_OF_ORDER = ("nonmonotonic-send", "int-nonmonotonic-send")


def table(outcomes: Mapping[str, Outcome]) -> str:
    """Return the outcomes, by registry, as a table with a column for each."""
    total = Outcome()
    for outcome in outcomes.values():
        total.add(outcome)
    columns = {**outcomes, "together": total} if len(outcomes) > 1 else dict(outcomes)
    lines = [["", *columns], ["rounds", *(str(o.rounds) for o in columns.values())]]
    for name in sorted(total.faults):
        lines.append([name, *(_fault(o, name) for o in columns.values())])
    lines.append(["faults", *(str(o.faults.total()) for o in columns.values())])
    lines += [
        ["records acknowledged", *(f"{o.sends['ok']:,}" for o in columns.values())],
        ["sends without an answer", *(str(o.sends["info"]) for o in columns.values())],
        ["sends refused", *(str(o.sends["fail"]) for o in columns.values())],
        ["records read", *(f"{o.reads:,}" for o in columns.values())],
        ["lost", *(_count(o, _LOST) for o in columns.values())],
        ["duplicated", *(_count(o, _DUPLICATED) for o in columns.values())],
        ["doubled by librdkafka itself", *(str(o.renumbered) for o in columns.values())],
        ["out of order", *(_count(o, _OUT_OF_ORDER) for o in columns.values())],
        ["other anomalies", *(_rest(o) for o in columns.values())],
        ["other failures", *(str(len(o.others)) for o in columns.values())],
        ["worst silence of a partition", *(f"{o.worst_silence:.1f} s" for o in columns.values())],
    ]
    widths = [max(len(line[place]) for line in lines) for place in range(len(columns) + 1)]
    rows = [
        "  ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])])
        for line in lines
    ]
    return "\n".join([*rows, *total.others])


def _fault(outcome: Outcome, name: str) -> str:
    """Return how often a fault came, and the worst silence where it was alone."""
    alone = outcome.silence.get(name)
    return str(outcome.faults[name]) + ("" if alone is None else f" ({alone:.1f} s)")


def _count(outcome: Outcome, names: tuple[str, ...]) -> str:
    return str(sum(outcome.anomalies[name] for name in names))


def _rest(outcome: Outcome) -> str:
    known = {*_LOST, *_DUPLICATED, *_OUT_OF_ORDER}
    return str(sum(count for name, count in outcome.anomalies.items() if name not in known))
