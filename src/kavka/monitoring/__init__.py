"""Dashboards for Grafana and alert rules for Prometheus over the metrics of brokers, groups and pipelines."""
