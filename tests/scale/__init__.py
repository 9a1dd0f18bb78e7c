"""A simulated fleet on the real code for claims, purse and rate: hundreds of machines, lost ones, cut-off ones."""
