-- The last hour of each service. Refreshed at each run, and every few seconds by `kavka pipelines run --continuous`.
CREATE MATERIALIZED VIEW services AS
SELECT service, host, sum(events) AS events, sum(errors) AS errors, sum(errors) / sum(events) AS error_ratio,
  sum(requests) AS requests, sum(failed_requests) AS failed_requests, max(p99_seconds) AS worst_p99_seconds,
  max(window_end) AS until
FROM error_rates
WHERE window_end > (SELECT max(window_end) FROM error_rates) - INTERVAL 1 HOUR
GROUP BY service, host;
