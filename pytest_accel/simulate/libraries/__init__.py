"""The vendors' management libraries, as a simulated node answers for them."""
