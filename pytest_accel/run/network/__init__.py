"""The network run: one agent on every node, which meet in a store of torch.distributed; rank 0 plans and concludes."""
