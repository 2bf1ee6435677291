"""SQL over topics: topics as tables of an in-process engine, DuckDB, over Arrow; needs the extra `sql`."""
