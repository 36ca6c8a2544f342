"""`connect` completes the settings, builds a monitor and starts it."""

import inspect
import sys
from collections.abc import Callable, Collection, Mapping
from typing import Final

from trainer_hooks.actions import ActionPolicy
from trainer_hooks.errors import ConfigurationError
from trainer_hooks.launch.run_config import plain_config
from trainer_hooks.monitor import Monitor, NullMonitor
from trainer_hooks.settings import ConnectionSettings
from trainer_hooks.text_safety import describe_object, printable
from trainer_hooks.wire import LONGEST_NAME_CHARS, AlertNotice

__all__ = ["connect"]

IMPORTED: Final = (
    "NOTHING IS RECORDED: connect was called while a process of multiprocessing imported the modules of the process "
    "that started it, which reports for the run; if this process trains, call connect in the function that it runs"
)
# The second one is the copy that Hugging Face's datasets use.
MULTIPROCESSING: Final = ("multiprocessing", "multiprocess")


def connect(
    url: str | None = None,
    project: str | None = "default",
    run: str | None = None,
    config: Mapping[str, object] | None = None,
    *,
    api_key: str | None = None,
    rank: int | None = None,
    world_size: int | None = None,
    on_alert: Callable[[AlertNotice], object] | None = None,
    actions: ActionPolicy | None = None,
    source: str = "loop",
    responses: int | None = None,
    texts: bool | None = None,
    redact: Callable[[str], str] | None = None,
) -> Monitor:
    """Start streaming a run to a collector; nothing raises after this has returned, except the constructor `Rollouts`.

    Without an address, here or in `RLVITALS_URL`, this returns a monitor that accepts every call and does nothing. If
    `RLVITALS_SPOOL_DIR` is set, it writes to disk instead, and ``python -m trainer_hooks.sync`` sends it later. A
    monitor does nothing either where multiprocessing imports a script that connects, as for a data loader's worker.

    Args:
        url: Address of the collector, such as ``http://127.0.0.1:8600``; else `RLVITALS_URL`.
        project: Project that the run belongs to; where it is "default" or None, `RLVITALS_PROJECT`.
        run: Name of the run, the same at every restart; else `RLVITALS_RUN`; else a single process generates one.
        config: The run's configuration; values that JSON does not have, and integers beyond 64 bits, become text.
            Values whose names are those of secrets are not sent.
        api_key: Key with the scope ingest; else `RLVITALS_API_KEY`.
        rank: This process's rank; else `RANK`; else 0.
        world_size: Number of processes; else `WORLD_SIZE`; else 1.
        on_alert: Called once with each alert that fires, in a background thread, even if the alert was resolved before
            a receipt could name it; its errors are logged.
        actions: The policy: what to do about alerts. The trainer's callback or your loop carries it out
            (`Monitor.policy`). The argument of this name of `Monitor.log_step` reports what was done.
        source: The program that produces the records; the run's page shows its first 200 characters.
        responses: Most sampled responses of each kind and step that are sent with their token ids; else
            `RLVITALS_RESPONSES`; else 2. 0 sends none.
        texts: Whether the texts of these responses are sent, where the rollouts have them; else `RLVITALS_TEXTS`;
            else not.
        redact: Receives the text of each of these responses in a background thread and returns what may be sent. Where
            it changes the text, or there is no text to give it, the token ids of that response are not sent either.

    Raises:
        ConfigurationError: If a setting cannot work.
    """
    if actions is not None and not isinstance(actions, ActionPolicy):
        raise ConfigurationError(
            f"actions must be an ActionPolicy, got {actions!r}; use trainer_hooks.actions.ActionPolicy(rules)"
        )
    for name, function in (("on_alert", on_alert), ("redact", redact)):
        if function is not None and not callable(function):
            raise ConfigurationError(f"{name} must be a function, got {describe_object(function)}")
    if inspect.iscoroutinefunction(on_alert):
        raise ConfigurationError(
            "on_alert must be a plain function, got an async one, which nothing would await; let a plain function pass "
            "the notice on by asyncio.run_coroutine_threadsafe"
        )
    if _is_importing_for_parent():
        return NullMonitor(IMPORTED)
    settings = ConnectionSettings.resolve(
        url=url,
        project=project,
        run=run,
        api_key=api_key,
        rank=rank,
        world_size=world_size,
        responses=responses,
        texts=texts,
    )
    if settings is None:
        return NullMonitor()
    # urllib3 takes as long to import as everything else, and a monitor without an address does not need it.
    from trainer_hooks.delivery.http import HttpTransport  # noqa: PLC0415

    monitor = Monitor(
        settings,
        HttpTransport(settings.url, api_key=settings.api_key) if settings.url else None,
        config=plain_config(config),
        source=printable(str(source or ""))[:LONGEST_NAME_CHARS],
        on_alert=on_alert,
        policy=actions,
        redact=redact,
    )
    monitor.start()
    if settings.spool_dir is None and settings.spool_bytes:
        monitor.drops.warn(
            "spool",
            "records are kept only in memory, because the user has no home directory; set RLVITALS_SPOOL_DIR",
            once=True,
        )
    if rank is None and world_size is None and settings.world_size == 1 and (number := _find_group_rank()) > 0:
        monitor.drops.warn(
            "rank",
            f"THIS PROCESS REPORTS AS THE ONLY RANK OF ITS RUN, and torch.distributed has it as rank {number}, because "
            "neither connect nor RANK and WORLD_SIZE say so. Pass connect(rank=, world_size=) on every rank, or "
            "connect on rank 0 alone",
            once=True,
        )
    return monitor


def _find_group_rank() -> int:
    """Return this process's rank in torch's default process group; 0 without one."""
    distributed = sys.modules.get("torch.distributed")
    try:
        return int(distributed.get_rank()) if distributed is not None and distributed.is_initialized() else 0
    except Exception:  # noqa: BLE001 - another thread may be importing it, and a build may lack it
        return 0


def _is_importing_for_parent() -> bool:
    """Whether a process of multiprocessing imports modules because its parent needs them there, as in a data loader.

    If it connected, its connection would be a newer attempt of the run, and detection would ignore the parent's. An
    import by a function that the process runs is none of these, because that function may train.
    """
    for package in MULTIPROCESSING:
        process = sys.modules.get(f"{package}.process")
        if process is None:
            continue
        # multiprocessing itself sets the attribute, and refuses to start processes while it is set.
        if getattr(process.current_process(), "_inheriting", False):
            return True
        if process.parent_process() is None:  # its forkserver imports what is preloaded for all children
            importing = [f"{package}.forkserver"]
        else:  # a worker of a pool imports the module of a task when it receives the task
            importing = [f"{package}.queues", f"{package}.connection"]
        if _is_imported_by(importing):
            return True
    return False


def _is_imported_by(modules: Collection[str]) -> bool:
    """Whether a function of one of these modules imports a module in which this is called."""
    frame, has_import = inspect.currentframe(), False
    while frame is not None:
        if has_import and frame.f_globals.get("__name__") in modules:
            return True
        has_import = has_import or frame.f_code.co_name == "<module>"
        frame = frame.f_back
    return False
