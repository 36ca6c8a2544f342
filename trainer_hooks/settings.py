"""The settings of a connection: address, run, attempt and rank.

This is the only module of the SDK that reads the environment. It opens no connection.
"""

import os
import secrets
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from math import inf, nan
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from trainer_hooks.errors import ConfigurationError
from trainer_hooks.launch.fork_safe_lock import make_fork_safe_lock
from trainer_hooks.launch.launcher import may_change_nodes, read_launch_time_ms
from trainer_hooks.text_safety import describe_object

__all__ = ["ConnectionSettings", "find_project", "find_run_name", "hooks_to_load", "spool_dir"]

# The distance between the attempts of two restarts, in ms. A rewind inside a process adds 1 to the attempt, so each
# restart has room for many rewinds.
REWINDS_PER_RESTART = 1000

# At 5 KB a record, which is two blocks of the disk, this holds three weeks of one-minute steps. With sampled responses
# of 500 tokens it holds four days.
SPOOL_BYTES = 256 << 20
RESPONSES = 2
RESPONSE_BYTES = 64 << 10
# A person cannot read responses more often. Shorter steps are those of tiny models, which sampling would slow down.
RESPONSE_SECONDS = 1.0

ADJECTIVES = "amber brisk calm clear fair gentle green keen lucid mellow quiet rapid silver steady sunny warm"
NOUNS = "alder brook cedar comet delta ember falcon glade harbor island lark maple otter pine river wren"


_milliseconds = make_fork_safe_lock()
_newest_millisecond = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionSettings:
    """The collector, and the run, attempt and rank of this process; resolved once, before training starts.

    Attributes:
        url: Address of the collector; empty where nothing is sent.
        project: Project of the run.
        run: Name of the run.
        attempt: The same on all ranks, and higher for each later launch: mostly its time in ms since the epoch; ≥ 1.
        rank: This process's rank, 0 ≤ rank < world_size.
        world_size: Number of processes of the training, ≥ 1.
        api_key: Key with the scope ingest; empty for none.
        spool_dir: Folder of the spools; None where nothing is written to disk.
        spool_bytes: Size of this rank's spool, in bytes, ≥ 0.
        responses: Most sampled responses of each kind and step, ≥ 0.
        response_bytes: Most bytes of the sampled responses of a step, ≥ 0.
        response_seconds: Least time between two steps of which responses are sent, in seconds, ≥ 0.
        texts: Whether texts of responses are sent.
    """

    url: str
    project: str
    run: str
    attempt: int
    rank: int = 0
    world_size: int = 1
    api_key: str = ""
    spool_dir: Path | None = None
    spool_bytes: int = SPOOL_BYTES
    responses: int = RESPONSES
    response_bytes: int = RESPONSE_BYTES
    response_seconds: float = RESPONSE_SECONDS
    texts: bool = False

    @classmethod
    def resolve(
        cls,
        *,
        url: str | None = None,
        project: str | None = "default",
        run: str | None = None,
        api_key: str | None = None,
        rank: int | None = None,
        world_size: int | None = None,
        responses: int | None = None,
        texts: bool | None = None,
        environ: Mapping[str, str] | None = None,
        clock: Callable[[], float] | None = None,
    ) -> "ConnectionSettings | None":
        """Complete the arguments from the environment; arguments take precedence.

        Args:
            url: Collector address; `RLVITALS_URL` where it is None.
            project: Project name; `RLVITALS_PROJECT` where it is "default" or None.
            run: Run name; `RLVITALS_RUN`, else a readable name is generated for a single process.
            api_key: Key with the scope ingest; `RLVITALS_API_KEY`.
            rank: This process's rank; `RANK`, else 0.
            world_size: Number of processes; `WORLD_SIZE`, else 1.
            responses: Most sampled responses of each kind and step; `RLVITALS_RESPONSES`, else 2; 0 sends none.
            texts: Whether their texts are sent too; `RLVITALS_TEXTS`, else not.
            environ: The environment to read; the process's own unless given.
            clock: Seconds since the epoch; the system's, but never the same millisecond twice, unless given.

        Returns:
            The settings, or None if neither an address nor a spool is given, because then there is nothing to do.

        Raises:
            ConfigurationError: If the settings cannot work.
        """
        environ = os.environ if environ is None else environ
        clock = _another_millisecond if clock is None else clock
        # An empty variable of ours counts as not set; one of a launcher is a mistake, for all ranks would be rank 0.
        environ = {name: value for name, value in environ.items() if value or not name.startswith("RLVITALS_")}
        url = url or environ.get("RLVITALS_URL", "")
        spool_bytes = _read_integer(environ, "RLVITALS_SPOOL_BYTES", SPOOL_BYTES)
        if not url and not (environ.get("RLVITALS_SPOOL_DIR") and spool_bytes):
            return None
        if spool_bytes < 0:
            raise ConfigurationError(f"RLVITALS_SPOOL_BYTES must be at least 0 (no spool), got {spool_bytes}")
        rank = _read_integer(environ, "RANK", 0, given=rank)
        world_size = _read_integer(environ, "WORLD_SIZE", 1, given=world_size)
        if not 0 <= rank < world_size:
            raise ConfigurationError(
                f"rank must be at least 0 and less than world_size, got rank {rank} of {world_size}"
            )
        responses = _read_integer(environ, "RLVITALS_RESPONSES", RESPONSES, given=responses)
        response_bytes = _read_integer(environ, "RLVITALS_RESPONSE_BYTES", RESPONSE_BYTES)
        for name, number in (("RLVITALS_RESPONSES", responses), ("RLVITALS_RESPONSE_BYTES", response_bytes)):
            if number < 0:
                raise ConfigurationError(f"{name} must be at least 0 (none), got {number}")
        response_seconds = _read_seconds(environ, "RLVITALS_RESPONSE_SECONDS", RESPONSE_SECONDS)
        project, run = find_project(project, environ), find_run_name(run, environ)
        return cls(
            url=_check_url(str(url)) if url else "",
            project=_check_name("project", "default" if project is None else project),
            run=_check_name("run", _generate_name(world_size, clock) if run is None else run),
            attempt=_find_attempt(environ, rank, world_size, clock),
            rank=rank,
            world_size=world_size,
            api_key=_check_key(api_key or environ.get("RLVITALS_API_KEY", "")),
            spool_dir=spool_dir(environ) if spool_bytes else None,
            spool_bytes=spool_bytes,
            responses=responses,
            response_bytes=response_bytes,
            response_seconds=response_seconds,
            texts=_read_switch(environ, "RLVITALS_TEXTS", given=texts),
        )


def _another_millisecond() -> float:
    """Return the time in seconds, in a later millisecond than any call before in this process.

    Two monitors with the same attempt would be one attempt of their run, whose steps the collector merges.
    """
    global _newest_millisecond  # noqa: PLW0603 - what a process has used is a fact of the process
    with _milliseconds:
        _newest_millisecond = max(int(time.time() * 1000), _newest_millisecond + 1)
        return (_newest_millisecond + 0.5) / 1000  # its middle, so that rounding cannot give another one


def _check_name(setting: str, given: object) -> str:
    """Return a name that the collector accepts; it would refuse every batch of another one."""
    # Each process of a framework reads which adapters it loads, and most of them connect to nothing.
    from trainer_hooks.wire import LONGEST_NAME_CHARS, is_clean_name  # noqa: PLC0415

    name = str(given)  # a configuration file may hold a number
    if len(name) > LONGEST_NAME_CHARS or not is_clean_name(name):
        raise ConfigurationError(
            f"{setting} (RLVITALS_{setting.upper()}) must have 1 to {LONGEST_NAME_CHARS} printable characters and no "
            f"blanks around them, got {describe_object(name)}"
        )
    return name


def _check_key(given: object) -> str:
    """Return a key without surrounding whitespace, such as the end of a line of a file."""
    if not isinstance(given, str):
        raise ConfigurationError(f"api_key (RLVITALS_API_KEY) must be text, got a {type(given).__name__}")
    api_key = given.strip()
    for place, character in enumerate(api_key):
        if not "!" <= character <= "~":
            raise ConfigurationError(
                f"api_key (RLVITALS_API_KEY) must be visible ASCII characters, got {character!r} as "
                f"character {place + 1}; copy it again"
            )
    return api_key


def find_run_name(given: str | None, environ: Mapping[str, str] | None = None) -> str | None:
    """Return the run's name that the user chose: the argument, else `RLVITALS_RUN`; None where neither is given.

    An adapter that takes a name from its trainer asks here first.
    """
    return _find_name(given, "RLVITALS_RUN", environ)


def find_project(given: str | None, environ: Mapping[str, str] | None = None) -> str | None:
    """Return the project that the user chose: the argument unless it is "default", else `RLVITALS_PROJECT`, else None.

    An adapter that takes a project from its trainer asks here first.
    """
    return _find_name(None if given == "default" else given, "RLVITALS_PROJECT", environ)


def _find_name(given: str | None, variable: str, environ: Mapping[str, str] | None) -> str | None:
    if given is None or given == "":  # 0 is a name, as any number of a configuration file
        return (os.environ if environ is None else environ).get(variable) or None
    return given


def hooks_to_load(environ: Mapping[str, str] | None = None) -> list[str]:
    """Return the adapters that each process of this environment loads: `RLVITALS_HOOKS`, separated by commas."""
    environ = os.environ if environ is None else environ
    return [name.strip() for name in environ.get("RLVITALS_HOOKS", "").split(",") if name.strip()]


def spool_dir(environ: Mapping[str, str] | None = None) -> Path | None:
    """Return the folder of records that are not sent yet: `RLVITALS_SPOOL_DIR`, else one in the user's cache.

    Args:
        environ: The environment to read; the process's own unless given.

    Returns:
        The folder, which need not exist; None for a user without a home directory. The path is absolute, because the
        script may change its working directory, unless that was removed.
    """
    environ = os.environ if environ is None else environ
    if environ.get("RLVITALS_SPOOL_DIR"):
        return _absolute(Path(environ["RLVITALS_SPOOL_DIR"]))
    try:
        cache = Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError:
        return None
    return _absolute(cache / "rlvitals" / "spool")


def _absolute(path: Path) -> Path:
    with suppress(OSError):  # there is no working directory; no folder can be made in it either, which is reported then
        return path.absolute()
    return path


def _check_url(url: str) -> str:
    """Return an address without surrounding whitespace, such as the end of a line of a file."""
    url = url.strip()
    is_usable = False
    with suppress(ValueError):  # the port is no number of one, or a bracket has no end
        parts = urlsplit(url)
        is_address = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
        is_usable = is_address and not (parts.query or parts.fragment or any(map(str.isspace, url)))
    # A password would not be sent, and the log would show it. One with a slash is no part of what Python calls netloc.
    if "@" in (parts.netloc if is_usable else url):
        raise ConfigurationError(
            f"url must have no user or password, got one before {url.rstrip('/').rpartition('@')[2]!r}; give a key by "
            "api_key (RLVITALS_API_KEY)"
        )
    if not is_usable:
        raise ConfigurationError(f"url must look like http://host:8600, got {url!r}")
    return url.rstrip("/")


def _generate_name(world_size: int, clock: Callable[[], float]) -> str:
    if world_size > 1:
        raise ConfigurationError(
            f"a run of {world_size} ranks must have one name for all of them; set RLVITALS_RUN or give run="
        )
    # secrets reads the system's generator: the training's own generators are not touched.
    stamp = time.strftime("%m%d-%H%M%S", time.localtime(clock()))
    return f"{secrets.choice(ADJECTIVES.split())}-{secrets.choice(NOUNS.split())}-{stamp}"


def _find_attempt(environ: Mapping[str, str], rank: int, world_size: int, clock: Callable[[], float]) -> int:
    """Return this launch's time in ms: the same on all its ranks, and higher for each later launch (decision 0001)."""
    given = environ.get("RLVITALS_ATTEMPT")
    if world_size == 1 and not given:
        return int(clock() * 1000)
    # The ranks of a run may be some of those that were launched.
    launched = _read_integer(environ, "WORLD_SIZE", world_size)
    on_node = _read_integer(environ, "LOCAL_WORLD_SIZE", 0)
    node = (_read_integer(environ, "LOCAL_RANK", rank), on_node)
    may_grow = may_change_nodes(environ, *node)
    is_one_node = on_node == launched >= world_size and not may_grow
    # Each node's agent counts only its own restarts, so over several nodes the ranks would not agree. If they were
    # counted before another node joins, the attempt would become lower when it does.
    restarts = _read_integer(environ, "TORCHELASTIC_RESTART_COUNT", 0) * REWINDS_PER_RESTART if is_one_node else 0
    if given:
        return _check_attempt(_read_integer(environ, "RLVITALS_ATTEMPT", 1), clock()) + restarts
    if is_one_node:
        return read_launch_time_ms(*node) + restarts
    if environ.get("SLURM_JOB_START_TIME"):
        return _read_integer(environ, "SLURM_JOB_START_TIME", 0) * 1000
    ranks = f"{world_size} ranks, and those of nodes that join later," if may_grow else f"{world_size} ranks"
    raise ConfigurationError(
        f"{ranks} must have one attempt number, and the launcher gives none; set RLVITALS_ATTEMPT to the same integer "
        "on every rank, the time of the launch in ms ($(date +%s%3N), taken once)"
    )


def _check_attempt(attempt: int, now: float) -> int:
    """Return an attempt that the collector accepts; it would refuse every batch of another one."""
    from trainer_hooks.wire import find_largest_attempt  # noqa: PLC0415 - as in `_check_name`

    largest = find_largest_attempt(now)
    if not 1 <= attempt <= largest:
        raise ConfigurationError(
            f"RLVITALS_ATTEMPT must be at least 1 and at most {largest}, the time in ms and a year, got {attempt}; set "
            "it to a count of launches or to the time of the launch in ms ($(date +%s%3N), taken once)"
        )
    return attempt


def _read_integer(environ: Mapping[str, str], name: str, default: int, *, given: object = None) -> int:
    """Return the argument if there is one, else the variable of the environment; either may be a text."""
    value: Any = environ.get(name, default) if given is None else given
    try:
        number = int(value)
        is_whole = isinstance(value, str) or number == value
    except (TypeError, ValueError, OverflowError):
        is_whole = False
    if not is_whole:
        raise ConfigurationError(f"{_spell(name, given)} must be an integer, got {describe_object(value)}")
    return number


def _read_seconds(environ: Mapping[str, str], name: str, default: float) -> float:
    value = environ.get(name)
    try:
        seconds = default if value is None else float(value)
    except ValueError:
        seconds = nan
    if not 0 <= seconds < inf:
        raise ConfigurationError(f"{name} must be a number of seconds, at least 0 (every step), got {value!r}")
    return seconds


def _read_switch(environ: Mapping[str, str], name: str, *, given: object = None) -> bool:
    """Return the argument if there is one, else the variable of the environment; either may be a number or a text."""
    value = environ.get(name, "") if given is None else str(given)
    if value.lower() not in ("", "0", "1", "true", "false"):
        raise ConfigurationError(f"{_spell(name, given)} must be 1, 0, true or false, got {describe_object(value)}")
    return value.lower() in ("1", "true")


def _spell(name: str, given: object) -> str:
    """Return the name of a variable, after that of its argument if the argument was given."""
    return name if given is None else f"{name.removeprefix('RLVITALS_').lower()} ({name})"
