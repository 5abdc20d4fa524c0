"""The acceptance of a whole delivery as a document: Markdown, HTML that prints well, and JSON."""
