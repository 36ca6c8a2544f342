"""The spool: the part of the sending queue that is on disk and survives the process that wrote it.

    <spool>/<run id>/<attempt>-<rank>-<pid>-<random>/<number>-<records>.msgpack

A file is one encoded batch, byte for byte the body of a request. When the process that fills a folder has died, the
next process of the run, or `trainer_hooks.sync`, may claim the folder. Sending a file twice does no harm, because the
collector identifies a record by run, attempt, rank and sequence number. This package sends nothing and does not read
the contents of a batch.
"""

from trainer_hooks.delivery.spool.folder import BatchOnDisk, SpoolFolder
from trainer_hooks.delivery.spool.spool import Spool, make_spool

__all__ = ["BatchOnDisk", "Spool", "SpoolFolder", "make_spool"]
