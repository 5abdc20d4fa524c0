"""Readers of the output of other tools, one module for each tool, and the verdicts on the figures that they return."""
