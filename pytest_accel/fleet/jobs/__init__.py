"""Runs on many nodes as jobs of Slurm, and the state of every node by the files that they leave."""
