-- Refreshed at each run, and every few seconds by `kavka pipelines run --continuous`.
CREATE MATERIALIZED VIEW orders_by_country AS
SELECT country, count(*) AS orders, sum(amount) AS amount
FROM enriched
WHERE is_known
GROUP BY country;
