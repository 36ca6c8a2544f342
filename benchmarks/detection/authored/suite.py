"""Seeds in, labelled runs out: which kinds there are, which seeds are for development and which for the test."""

import hashlib
from pathlib import Path

import numpy as np

from benchmarks.detection.authored import (
    benign,
    displacement,
    failures,
    faulty_environment,
    faulty_grader,
    faulty_instrument,
    faulty_optimiser,
    twins,
)
from benchmarks.detection.authored.fault import Fault
from benchmarks.detection.authored.latent import Kind, Latent
from benchmarks.detection.authored.observe import observe
from benchmarks.detection.runs import Group, LabelledRun, Truth

__all__ = [
    "DEVELOPMENT_SEEDS",
    "TEST_SEEDS",
    "benign_kinds",
    "chosen_seeds",
    "displacement_kinds",
    "failure_kinds",
    "fault_kinds",
    "generator_hash",
    "make_fault",
    "make_run",
    "make_twins",
]

DEVELOPMENT_SEEDS = range(1_000_000)
TEST_SEEDS = range(7_000_000, 8_000_000)  # looked at only to report; those from 1,000,000 on have been seen

_KINDS: dict[str, tuple[Group, Kind]] = {
    **{f"benign/{name}": (Group.BENIGN, kind) for name, kind in benign.KINDS.items()},
    **{f"displacement/{name}": (Group.DISPLACEMENT, kind) for name, kind in displacement.KINDS.items()},
    **{f"failure/{name}": (Group.FAILURE, kind) for name, kind in failures.KINDS.items()},
}

FAULTS: dict[str, Fault] = (
    faulty_environment.FAULTS | faulty_grader.FAULTS | faulty_optimiser.FAULTS | faulty_instrument.FAULTS
)
_FAULT_KINDS = {f"fault/{name}-{level:g}": (name, level) for name, fault in FAULTS.items() for level in fault.levels}


def chosen_seeds(*, runs: int, first: int, development: bool) -> range:
    """Return the seeds of some runs, after those to pass over; the test seeds are for reported numbers."""
    return (DEVELOPMENT_SEEDS if development else TEST_SEEDS)[first : first + runs]


def benign_kinds() -> list[str]:
    """Return the names of all kinds that need no alarm."""
    return [name for name, (group, _) in _KINDS.items() if group is Group.BENIGN]


def displacement_kinds() -> list[str]:
    """Return the names of all kinds that die of likelihood displacement."""
    return [name for name, (group, _) in _KINDS.items() if group is Group.DISPLACEMENT]


def failure_kinds() -> list[str]:
    """Return the names of all kinds that die of something else."""
    return [name for name, (group, _) in _KINDS.items() if group is Group.FAILURE]


def fault_kinds() -> list[str]:
    """Return the names of all faults with one named cause, one for each level."""
    return list(_FAULT_KINDS)


def make_run(kind: str, seed: int) -> LabelledRun:
    """Make the run of a kind and a seed; the same bytes every time.

    Args:
        kind: A name such as ``"benign/plateau"``.
        seed: Non-negative; take it from `DEVELOPMENT_SEEDS` unless you report.

    Raises:
        ValueError: If there is no such kind, or a failing run of this seed never fails.
    """
    if kind not in _KINDS:
        raise ValueError(f"kind must be one of {', '.join(_KINDS)}, got {kind!r}")
    group, build = _KINDS[kind]
    return _label(f"{kind}/{seed}", group, kind, build, [seed, _number(kind)])


def make_twins(twin: str, seed: int) -> tuple[LabelledRun, LabelledRun]:
    """Make a dying run and its living twin, equal in all rows before t₂ (``harder_prompts``: but for the pairs)."""
    entropy = [seed, _number("twins")]
    dead = _label(f"twins/dying/{seed}", Group.DISPLACEMENT, "twins/dying", twins.dying, entropy)
    alive = _label(f"twins/{twin}/{seed}", Group.BENIGN, f"twins/{twin}", twins.TWINS[twin], entropy)
    return dead, alive


def make_fault(kind: str, seed: int) -> tuple[LabelledRun, LabelledRun]:
    """Make the run of a fault and its healthy twin, which measures the same signals with the same noise.

    All levels of a fault have the same twin. The twin's truth is benign, and it is no run of `benign_kinds`.

    Raises:
        ValueError: If there is no such fault.
    """
    if kind not in _FAULT_KINDS:
        raise ValueError(f"kind must be one of {', '.join(_FAULT_KINDS)}, got {kind!r}")
    name, level = _FAULT_KINDS[kind]
    fault, entropy = FAULTS[name], [seed, _number(f"fault/{name}")]
    faulty = _label(f"{kind}/{seed}", Group.FAULT, kind, lambda rng: fault.build(rng, level), entropy)
    twin = f"fault/{name}, twin"
    sound = _label(f"{twin}/{seed}", Group.BENIGN, twin, lambda rng: fault.build(rng, fault.sound), entropy)
    return faulty, sound


def generator_hash() -> str:
    """Return a digest of the generator's source: equal hashes and seeds mean equal runs."""
    files = sorted(Path(__file__).parent.glob("*.py"))
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()[:12]


def _number(kind: str) -> int:
    return int.from_bytes(hashlib.blake2b(kind.encode(), digest_size=4).digest(), "little")


def _label(name: str, group: Group, kind: str, build: Kind, entropy: list[int]) -> LabelledRun:
    shape, measurement = (np.random.default_rng(child) for child in np.random.SeedSequence(entropy).spawn(2))
    latent = build(shape)
    return LabelledRun(name=name, truth=_truth(latent, group, kind), observations=observe(latent, measurement))


def _truth(latent: Latent, group: Group, kind: str) -> Truth:
    if group is Group.BENIGN:
        return Truth(group=group, kind=kind)
    collapse = latent.collapse
    if group is Group.FAULT:
        return Truth(group=group, kind=kind, onset=latent.onset, collapse=collapse)
    if collapse is None:
        raise ValueError(f"a run of kind {kind} must collapse within the horizon; mend the generator")
    return Truth(
        group=group,
        kind=kind,
        onset=latent.onset,
        acceleration=min(latent.acceleration or 0, collapse),
        collapse=collapse,
    )
