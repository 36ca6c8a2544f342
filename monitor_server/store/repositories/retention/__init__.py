"""Removes old and deleted data, a limited number of rows in each transaction.

These modules do not decide which data is old; `monitor_server.retention` does. Each method does a bounded amount of
work and states whether there is more.
"""
