"""The suites of runs, each with its scores as tables: A authored, B recorded, C real logs, D induced failures.

`real_logs` is suite C: the logs with their labels, the rule for their events, and the weights of their repositories.
"""
