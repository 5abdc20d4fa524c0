"""What torch was built as."""

__version__ = "2.6.0+stub"
cuda = None
hip = None
