"""report.html: a record as one file that opens in any browser, without a network."""
