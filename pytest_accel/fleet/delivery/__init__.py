"""A delivery: the records of all its nodes against the packing list, and the document that says what is accepted."""
