-- Views over all events, late ones too. Refreshed at each run, and every few seconds by `kavka pipelines run --continuous`.
CREATE MATERIALIZED VIEW requests_by_minute AS
SELECT
  date_trunc('MINUTE', event_time) AS minute,
  count(*) AS requests,
  count_if(crawler) AS crawler_requests,
  count_if(status >= 400) AS errors,
  count_if(late) AS late,
  coalesce(sum(bytes), 0) AS bytes
FROM events
GROUP BY 1;

CREATE MATERIALIZED VIEW top_searches AS
SELECT date, rank, search, searches, visitors
FROM (
  SELECT *, row_number() OVER (PARTITION BY date ORDER BY searches DESC, search) AS rank
  FROM (
    SELECT date, lower(trim(search)) AS search, count(*) AS searches, count(DISTINCT visitor) AS visitors
    FROM events
    WHERE search IS NOT NULL AND NOT crawler
    GROUP BY 1, 2
  )
)
WHERE rank <= 20;

CREATE MATERIALIZED VIEW daily_report AS
SELECT
  date,
  count(*) AS requests,
  count_if(crawler) AS crawler_requests,
  count(DISTINCT visitor) AS visitors,
  count(DISTINCT page) AS pages,
  count(search) AS searches,
  count_if(status BETWEEN 400 AND 499) AS client_errors,
  count_if(status >= 500) AS server_errors,
  coalesce(sum(bytes), 0) AS bytes,
  count_if(late) AS late
FROM events
GROUP BY 1;
