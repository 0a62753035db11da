"""Records: the runs below a root, listed, selected, sorted and pruned."""
