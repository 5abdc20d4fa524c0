"""The vendors' management libraries with the answers of a simulated node."""
