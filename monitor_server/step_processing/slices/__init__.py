"""Slices: what one transaction of the projector does on one run, computed on a snapshot of the store and then saved."""
