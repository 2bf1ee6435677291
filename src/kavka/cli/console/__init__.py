"""Parts of the console producer and consumer: lines to records, records to lines."""
