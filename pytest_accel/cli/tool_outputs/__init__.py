"""Readers of the output of other tools, one module for each tool. `judge` judges the figures that they return."""
