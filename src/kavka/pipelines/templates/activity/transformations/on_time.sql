-- What sessions and alerts count: events that are not late. A window stays open for twelve minutes of event time:
-- the ten minutes after which a line is late, and a margin for the disorder between partitions.
CREATE TEMPORARY VIEW on_time AS
SELECT * FROM STREAM(events) WATERMARK event_time DELAY OF INTERVAL 12 MINUTES
WHERE NOT late;
