"""Decisions of the operations pipeline: rules, moving baselines, incidents; and the way of alerts to a webhook.

    samples ── rules ──► values of instances ── baseline ──► z-scores
                              └──── incidents: pending, firing, resolved ──► events, two for each incident

Rules, baselines, incidents and the evaluation are pure: they are given samples and a state, and return a state and
events. Spark keeps the state (`kavka.pipelines.operations.stateful`), the template `operations` has the graph around.
"""
