"""Builds the command line from the settings: one option a field, in sections, with its meaning and its default."""

from argparse import ArgumentParser, BooleanOptionalAction
from collections.abc import Iterable, Sequence
from dataclasses import Field
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

__all__ = ["parser_of"]

_SECTIONS = {
    "steps": "the run",
    "lr": "the objective",
    "questions_per_step": "the batch",
    "world_seed": "the built-in environment",
    "model": "your own model and data",
    "width": "the built-in model and its warm start",
    "url": "telemetry",
    "checkpoints": "checkpoints, and what to do when the collector reports a collapse",
    "threads": "the machine",
}
"""Titles in the help, by the first setting under each."""

_METAVARS: dict[type, str] = {int: "N", float: "X", Path: "PATH", str: "TEXT"}


def parser_of(settings: Iterable[Field[Any]], presets: Sequence[str]) -> ArgumentParser:
    """Build a parser with an option for each setting; an option that is not given is None.

    Args:
        settings: Fields of a dataclass, with their meaning under ``help`` in the metadata.
        presets: Names that ``--preset`` takes.
    """
    parser = ArgumentParser(
        prog="python -m trainer_hooks.reference",
        usage="%(prog)s [--preset NAME] [options]; --help lists them",
        description="Train a small search-and-answer policy by GRPO, and watch its vital signs.",
    )
    parser.add_argument(
        "--preset", choices=presets, help="settings to start from; options given beside it override them"
    )
    section = parser.add_argument_group()
    for setting in settings:
        if setting.name in _SECTIONS:
            section = parser.add_argument_group(_SECTIONS[setting.name])
        option = "--" + setting.name.strip("_").replace("_", "-")
        section.add_argument(option, dest=setting.name, default=None, **_argument(setting))
    return parser


def _argument(setting: Field[Any]) -> dict[str, Any]:
    """Return the arguments of ``add_argument`` for a setting."""
    text = setting.metadata["help"].replace("%", "%%")
    if setting.type is bool:
        return {"action": BooleanOptionalAction, "help": f"{text} [{'yes' if setting.default else 'no'}]"}
    if setting.default is not None:
        text = f"{text} [{setting.default}]"
    if get_origin(setting.type) is Literal:
        return {"choices": get_args(setting.type), "help": text}
    kind = next(kind for kind in get_args(setting.type) or (setting.type,) if kind is not type(None))
    return {"type": kind, "metavar": _METAVARS[kind], "help": text}
