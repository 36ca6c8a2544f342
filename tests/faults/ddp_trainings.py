"""One rank of every training, watched by every kind of collector that fails. Arguments: a folder.

Below the folder is ``disk``, on which each rank mounts a few kilobytes of its own and fills them.
"""

import contextlib
import os
import sys
from pathlib import Path

import torch
from torch import distributed

from tests.bad_collectors import BAD_COLLECTORS, nobody_listens
from tests.faults.trainings import TRAININGS, be_brief
from tests.namespaces import mount_own_disk
from tests.trainer_hooks.callbacks import tiny_trl
from trainer_hooks.reference.distributed import SINGLE_PROCESS

FAILURES = ("dead", "slow", "500", "garbage", "full disk")


def fill(disk: Path) -> None:
    """Fill the disk until no byte is free."""
    with contextlib.suppress(OSError), (disk / "ballast").open("wb", buffering=0) as ballast:
        while True:
            ballast.write(bytes(4096))


def is_full(disk: Path) -> bool:
    """Return whether the disk has no room for one more byte."""
    try:
        (disk / "straw").write_bytes(b"x")
    except OSError:
        return True
    return False


def main(folder: Path) -> None:
    """Train, and compare."""
    disk = folder / "disk"
    mount_own_disk(disk, kilobytes=16)  # before anything starts a thread
    torch.set_num_threads(1)
    be_brief(dict.__setitem__)
    here = folder / f"rank{os.environ['RANK']}"
    ranks = {name: os.environ[name] for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE")}
    for name in TRAININGS:
        tiny_trl.model(here / name / "model")  # each rank its own, as long as it is alone
    distributed.init_process_group("gloo")
    fill(disk)
    for name, training in TRAININGS.items():
        alone = training(here / name, is_watched=False)
        for failure in FAILURES:
            spool = disk if failure == "full disk" else here / "spool"
            with BAD_COLLECTORS.get(failure, nobody_listens)() as url:
                os.environ |= ranks  # Lightning removes WORLD_SIZE at its end, and the next training would be alone
                os.environ |= {"RLVITALS_URL": url, "RLVITALS_RUN": "r", "RLVITALS_SPOOL_DIR": str(spool)}
                watched = training(here / name, is_watched=True)
            differing = [part for part in alone if watched[part] != alone[part]]
            assert not differing, (name, failure, differing)
            for variable in ("RLVITALS_URL", "RLVITALS_SPOOL_DIR"):
                del os.environ[variable]
        assert is_full(disk)
    distributed.barrier()
    SINGLE_PROCESS.leave()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
