"""The changes by people that involve more than the database, one use case in each file.

They also involve detection, the silences, a trainer or retention. Each function writes its change in one transaction,
in the name of its author, and then informs the other parts. The route itself writes a change that involves only the
database, with `Collector.write`.
"""
