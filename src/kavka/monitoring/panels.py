"""Dashboards as values, and the JSON that Grafana imports.

Source: Grafana's documentation, "JSON model", and its schema of dashboards (version 39, Grafana 10).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from kavka.values import frozen

_SCHEMA_VERSION: Final = 39
_COLUMNS: Final = 24
_STAT_WIDTH: Final = 4
_STAT_HEIGHT: Final = 4
_CHART_WIDTH: Final = 12
_CHART_HEIGHT: Final = 8
_DATASOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
_STAT_OPTIONS: Final = {
    "colorMode": "value",
    "graphMode": "none",
    "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
}
_TIME_SERIES_OPTIONS: Final = {
    "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
    "tooltip": {"mode": "multi", "sort": "desc"},
}


@frozen
class Query:
    """A query of a panel; `legend` names its series by labels, as `{{topic}}`."""

    promql: str
    legend: str = ""
    needs: str = ""
    """The event without which it finds nothing, such as a refused request; empty where a healthy cluster has data."""


@frozen
class Panel:
    """A chart over time, or, as a `stat`, one number."""

    title: str
    queries: tuple[Query, ...]
    unit: str = "short"
    """Grafana's name of the unit: short, Bps, bytes, ms, s, percentunit, reqps …"""
    help: str = ""
    is_stat: bool = False
    bad_from: float | None = None
    """The value from which a stat is red."""
    bad_below: float | None = None
    """The value below which a stat is red."""
    is_stacked: bool = False


def stat(
    title: str,
    promql: str,
    help: str = "",
    *,
    unit: str = "short",
    bad_from: float | None = None,
    bad_below: float | None = None,
) -> Panel:
    """Return a panel of one number, red from `bad_from`, and below `bad_below`."""
    return Panel(title, (Query(promql),), unit, help, True, bad_from, bad_below)


def chart(
    title: str,
    *queries: tuple[str, str] | tuple[str, str, str],
    unit: str = "short",
    help: str = "",
    is_stacked: bool = False,
) -> Panel:
    """Return a chart; a query is PromQL, the legend of its series, and perhaps the event that it needs."""
    return Panel(
        title, tuple(Query(*query) for query in queries), unit, help, is_stacked=is_stacked
    )


@frozen
class Variable:
    """A variable that the reader of a dashboard chooses: all values of a label, or some."""

    name: str
    label: str
    metric: str
    """The metric, with a selector if need be, that has the label."""
    shown: str


@frozen
class Row:
    """Panels under one title."""

    title: str
    panels: tuple[Panel, ...]


@frozen
class Dashboard:
    """A dashboard; `uid` never changes, so that an import replaces the one before."""

    uid: str
    title: str
    help: str
    variables: tuple[Variable, ...]
    rows: tuple[Row, ...]

    @property
    def queries(self) -> Iterator[tuple[Panel, Query]]:
        """Iterate over all queries, with their panels."""
        for row in self.rows:
            for panel in row.panels:
                for query in panel.queries:
                    yield panel, query


def dashboard_json(dashboard: Dashboard) -> dict[str, Any]:
    """Return what Grafana imports: the data source is chosen by a variable, so none is built in."""
    return {
        "uid": dashboard.uid,
        "title": dashboard.title,
        "description": dashboard.help,
        "tags": ["kavka", "kafka"],
        "schemaVersion": _SCHEMA_VERSION,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "timezone": "browser",
        "links": [
            {
                "type": "dashboards",
                "title": "kavka",
                "tags": ["kavka"],
                "asDropdown": True,
                "keepTime": True,
                "includeVars": True,
            }
        ],
        "templating": {"list": [_datasource(), *map(_variable, dashboard.variables)]},
        "panels": list(_placed(dashboard.rows)),
    }


def _datasource() -> dict[str, Any]:
    return {
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
        "hide": 0,
    }


def _variable(variable: Variable) -> dict[str, Any]:
    return {
        "name": variable.name,
        "label": variable.shown,
        "type": "query",
        "datasource": _DATASOURCE,
        "query": {
            "query": f"label_values({variable.metric}, {variable.label})",
            "refId": "values",
        },
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
        "hide": 0,
    }


def _placed(rows: Sequence[Row]) -> Iterator[dict[str, Any]]:
    """Yield rows and panels, each with its place in the grid of 24 columns."""
    y, number = 0, 0
    for row in rows:
        number += 1
        yield {
            "id": number,
            "type": "row",
            "title": row.title,
            "collapsed": False,
            "panels": [],
            "gridPos": {"x": 0, "y": y, "w": _COLUMNS, "h": 1},
        }
        y += 1
        x = height = 0
        for panel in row.panels:
            size = (_STAT_WIDTH, _STAT_HEIGHT) if panel.is_stat else (_CHART_WIDTH, _CHART_HEIGHT)
            if x + size[0] > _COLUMNS or (x and size[1] != height):
                x, y = 0, y + height
            number, height = number + 1, size[1]
            place = {"x": x, "y": y, "w": size[0], "h": size[1]}
            yield {"id": number, **_panel(panel), "gridPos": place}
            x += size[0]
        y += height


def _panel(panel: Panel) -> dict[str, Any]:
    return {
        "type": "stat" if panel.is_stat else "timeseries",
        "title": panel.title,
        "description": panel.help,
        "datasource": _DATASOURCE,
        "targets": [_target(panel, place) for place in range(len(panel.queries))],
        "fieldConfig": {"defaults": _defaults(panel), "overrides": []},
        "options": _STAT_OPTIONS if panel.is_stat else _TIME_SERIES_OPTIONS,
    }


def _target(panel: Panel, place: int) -> dict[str, Any]:
    query = panel.queries[place]
    return {
        "refId": chr(ord("A") + place),
        "datasource": _DATASOURCE,
        "editorMode": "code",
        "expr": query.promql,
        "legendFormat": query.legend or "__auto",
        "range": not panel.is_stat,
        "instant": panel.is_stat,
    }


def _defaults(panel: Panel) -> dict[str, Any]:
    defaults: dict[str, Any] = {"unit": panel.unit, "thresholds": _thresholds(panel)}
    if panel.is_stat:
        return defaults | {"color": {"mode": "thresholds"}}
    stacking = {"mode": "normal" if panel.is_stacked else "none", "group": "A"}
    custom = {
        "fillOpacity": 15 if panel.is_stacked else 0,
        "showPoints": "never",
        "stacking": stacking,
    }
    return defaults | {"min": 0, "custom": custom}


def _thresholds(panel: Panel) -> dict[str, Any]:
    steps: list[dict[str, Any]] = [{"color": "green", "value": None}]
    if panel.bad_below is not None:
        steps = [{"color": "red", "value": None}, {"color": "green", "value": panel.bad_below}]
    if panel.bad_from is not None:
        steps.append({"color": "red", "value": panel.bad_from})
    return {"mode": "absolute", "steps": steps}
