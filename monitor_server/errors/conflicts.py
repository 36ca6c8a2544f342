"""Errors of a request that what is stored does not allow now."""

from monitor_server.errors.base import CollectorError

__all__ = ["KeyNameTaken", "RequestNotPossible", "RuleConflict", "RunActive", "SettingsConflict", "TooManyViews"]


class RunActive(CollectorError):
    """The trainer of the run still sends."""

    status = 409


class KeyNameTaken(CollectorError):
    """A key of this name is in use."""

    status = 409


class RuleConflict(CollectorError):
    """The rule cannot stand beside those that there are: its name is taken, there are too many, or a file states it."""

    status = 409


class TooManyViews(CollectorError):
    """As many views are saved as there may be."""

    status = 409


class SettingsConflict(CollectorError):
    """Somebody else has saved the settings meanwhile, or a file or the environment sets them."""

    status = 409


class RequestNotPossible(CollectorError):
    """The trainer of a run cannot be asked for this now."""

    status = 409
