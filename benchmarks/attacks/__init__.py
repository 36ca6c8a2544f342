"""Measures the answer times of a healthy trainer while a client attacks the collector."""
