-- Refreshed at each run, and every few seconds by `kavka pipelines run --continuous`.
CREATE MATERIALIZED VIEW requests_by_page AS
SELECT page, count(*) AS requests, count_if(status >= 500) AS failed
FROM events
GROUP BY page;
