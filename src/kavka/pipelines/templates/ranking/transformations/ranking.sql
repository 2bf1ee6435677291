-- The best items. Refreshed at each run, and every few seconds by `kavka pipelines run --continuous`.
CREATE MATERIALIZED VIEW ranking AS
SELECT rank() OVER (ORDER BY last.score DESC) AS rank, item, last.*
FROM (
  SELECT item, max_by(struct(score, up, down, clicked, shown), events) AS last
  FROM scores
  GROUP BY item
)
ORDER BY rank, item;
