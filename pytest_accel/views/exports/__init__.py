"""Results in the formats of other tools: a record in Markdown, the metrics of a fleet for Prometheus."""
