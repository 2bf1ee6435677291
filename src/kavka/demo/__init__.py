"""`kavka demo`: a broker, web traffic and a Spark pipeline in one command, with an audit at the end."""
