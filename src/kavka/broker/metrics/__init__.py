"""The broker's counters as Prometheus' text, under the names that the JMX exporter gives Kafka's MBeans.

Imported only where `kavka.metrics.port` is set.
"""
